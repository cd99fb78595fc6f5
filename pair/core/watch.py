"""The node side of the scheduler: when to probe, and what an answer or a silence means for the
tickets.

`membership.py` knows the phases; this module keeps the times and tells the desk what changed.
"""

from __future__ import annotations

from pair.core.alarms import Alarms
from pair.core.decisions import Decision, Probe
from pair.core.desk import Desk
from pair.core.events import NodeIdentified, NodeReported, NodeSighted, NodeWithdrawn, ProbeMissed
from pair.core.fleet import Fleet
from pair.core.limits import Limits
from pair.core.membership import CLOSE_LOOKS_S, FIRST_LOOK_S, LATE_S, Membership, Node
from pair.core.names import NodeId, Phase
from pair.core.replica import Replica
from pair.core.reports import NodeReport
from pair.core.standing import made_room


class Watch:
    """Probes of every node. What it decides goes into `out`, which the scheduler replaces at each
    event.
    """

    def __init__(
        self, limits: Limits, membership: Membership, fleet: Fleet, desk: Desk, alarms: Alarms
    ) -> None:
        self.out: list[Decision] = []
        self._limits = limits
        self._membership = membership
        self._fleet = fleet
        self._desk = desk
        self._alarms = alarms
        self._woke_late_at: float | None = None
        self._user_names: dict[NodeId, str] = {}

    def sighted(self, event: NodeSighted, now: float) -> None:
        """A new or lost node is asked at once; one that answers already is asked in its turn."""
        if event.node not in self._membership.nodes and self._membership.full:
            stranger = self._membership.least_entitled()
            if stranger is None:
                return
            self._forget(stranger)
        node = self._membership.sight(event, now)
        if event.fixed and event.node in event.addresses:
            # Bounded by the user's own list.
            self._user_names[event.node] = event.name
        if node.phase in (Phase.SIGHTED, Phase.LOST):
            self._probe(node, now)

    def withdrawn(self, event: NodeWithdrawn, now: float) -> None:
        """A goodbye is worth a question, no more: records also vanish when a router or a cache
        hiccups.
        """
        node = self._membership.nodes.get(event.node)
        if node is not None and not node.fixed:
            node.withdrawn = True
            self._probe(node, now)

    def identified(self, event: NodeIdentified, now: float) -> None:
        """The user's URL turned out to be a known kind of node: keep one entry, under the lasting
        id. What the other entry held (only if a bare engine answered there before) is lost with it.
        """
        stand_in = self._membership.nodes.get(event.node)
        if stand_in is not None and event.really != event.node:
            stand_in.enter(Phase.LOST, f"it is known as {event.really}", now)
            self._desk.lose(stand_in, now)
            self._forget(stand_in)
            addresses, fixed = stand_in.addresses, stand_in.fixed
            self.sighted(NodeSighted(event.really, stand_in.name, addresses, fixed), now)
            # Only now: who insists on the one entry may have meant the other.
            self._desk.judge_everyone(now)

    def reported(self, event: NodeReported, now: float) -> None:
        """It lives; a report of a node that nobody has sighted is dropped."""
        node = self._membership.nodes.get(event.node)
        if node is None:
            return
        if event.pushed:
            self._pushed(node, event.report, now)
            return
        asked_at = node.probe_sent_at
        self._index(self._membership.report(node, event.report, now))
        if asked_at is not None:
            self._note_room(node, asked_at)
        self._look_again(node, now)
        self._alarms.set(("probe", node.id), now + self._membership.probe_interval_s(node, now))

    def _pushed(self, node: Node, report: NodeReport, now: float) -> None:
        """Something changed there. Whether a call that we have left is over can't be told from a
        word that may be older than our leaving, so that is asked.
        """
        changed = self._membership.push(node, report, now)
        if changed is None:
            return
        self._index(changed)
        self._note_room(node, now)
        self._look_again(node, now)
        if node.left_at is not None:
            self._probe(node, now)

    def _index(self, changed: list[Replica]) -> None:
        for replica in changed:
            self._fleet.index(replica)

    def _note_room(self, node: Node, asked_at: float) -> None:
        """A bare engine that says it is full need not count what fills it, so nothing else that it
        says ends the pause.
        """
        if node.prompt:
            for replica in node.replicas.values():
                made_room(replica, asked_at)

    def missed(self, event: ProbeMissed, now: float) -> None:
        """It is silent: suspect, then lost, unless the silence is our own."""
        node = self._membership.nodes.get(event.node)
        if node is None:
            return
        if self._was_late(node, now):
            # We ourselves slept while this probe was under way, so its silence says nothing.
            node.probe_sent_at = None
            self._probe(node, now)
            return
        self._membership.miss(node, event, now, in_use=self._desk.ledger.node_in_use(node.id))
        if node.phase is Phase.LOST:
            self._desk.lose(node, now)
        self._look_again(node, now)
        self._alarms.set(("probe", node.id), now + self._membership.probe_interval_s(node, now))
        if node.phase is Phase.LOST and event.taken_address in node.fixed_addresses:
            self._hand_over(node, event.taken_address, now)

    def _hand_over(self, node: Node, address: str, now: float) -> None:
        """What the user named is an address, so whoever answers there now is meant: it becomes an
        entry of its own again, to be identified anew. Only a lost node gives an address away, so
        that nothing moves to and fro between two that both answer.
        """
        node.fixed_addresses = tuple(one for one in node.fixed_addresses if one != address)
        if not node.addresses or self._membership.full:
            self._forget(node)
        url = NodeId(address)
        name = self._user_names.get(url, address)
        self.sighted(NodeSighted(url, name, (address,), fixed=True), now)
        self._desk.judge_everyone(now)

    def doubted(self, node: Node, now: float) -> None:
        """An attempt failed there: its replicas are looked at anew, and it is asked at once."""
        self._look_again(node, now)
        self._probe(node, now)

    def left(self, node: Node, now: float) -> None:
        """A call there was left while its engine computed: ask soon whether it has stopped."""
        if node.probe_sent_at is None and node.left_at is not None:
            self._alarms.bring_forward(("probe", node.id), now + FIRST_LOOK_S)

    def drained(self, node_id: NodeId, now: float) -> None:
        """The user wants nothing new there."""
        node = self._membership.nodes.get(node_id)
        if node is not None:
            node.drain_asked = True
            if node.phase in (Phase.READY, Phase.LOADING):
                node.enter(Phase.DRAINING, "the user asked it to finish", now)
                self._look_again(node, now)

    def woke_late(self, now: float) -> None:
        """This machine slept or stalled: probes that are under way prove nothing."""
        self._woke_late_at = now

    def _was_late(self, node: Node, now: float) -> bool:
        """Whether this machine was late for anything since the probe under way was sent: for an
        alarm, or for the end of the probe itself (while every node is being asked, no alarm is
        set).
        """
        sent_at = node.probe_sent_at
        if sent_at is None:
            return False
        woke_late = self._woke_late_at is not None and sent_at < self._woke_late_at
        return woke_late or now - sent_at > node.probe_limit_s + LATE_S

    def probe_due(self, node_id: NodeId, now: float) -> None:
        """Ask, or forget a node that has been lost for long enough."""
        node = self._membership.nodes.get(node_id)
        if node is None:
            return
        if self._membership.forgettable(node, now):
            self._forget(node)
            self._desk.judge_everyone(now)
        else:
            self._probe(node, now)

    def _forget(self, node: Node) -> None:
        del self._membership.nodes[node.id]
        self._alarms.cancel(("probe", node.id))
        for replica in node.replicas.values():
            self._fleet.index(replica)

    def _look_again(self, node: Node, now: float) -> None:
        for replica in node.replicas.values():
            self._desk.matching.refresh(replica, now)
        self._desk.judge_everyone(now)

    def _probe(self, node: Node, now: float) -> None:
        if node.probe_sent_at is None:
            in_use = self._desk.ledger.node_in_use(node.id)
            self._membership.ask(node, now, in_use=in_use)
            self._alarms.cancel(("probe", node.id))
            # After a miss, and on a node in doubt, an old connection proves nothing about the link.
            fresh = node.misses > 0 or node.phase is not Phase.READY
            left_at = node.left_at
            closely = left_at is not None and FIRST_LOOK_S <= now - left_at < CLOSE_LOOKS_S
            self.out.append(Probe(node.id, fresh, node.probe_limit_s, closely))
