"""The invariants I1 to I8 and I12 watched from outside: from events and decisions alone.

The audit keeps its own books and never asks the scheduler what it counted, except to compare. Every
test of the core and of the simulator runs under it, so each story and each random walk is also a
test of every invariant.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pair.core.decisions import (
    Abort,
    Decision,
    Dispatch,
    Probe,
    RefusalKind,
    Refuse,
    WakeAt,
)
from pair.core.events import (
    AttemptFailed,
    Closed,
    DrainRequested,
    Event,
    FailureKind,
    FirstByte,
    NodeIdentified,
    NodeReported,
    NodeSighted,
    NodeWithdrawn,
    Opened,
    ProbeMissed,
    Ticked,
)
from pair.core.limits import Limits
from pair.core.membership import PROCESSES_KEPT
from pair.core.names import EngineName, LeaseId, NodeId, Outcome, Phase, ReplicaId, TicketId
from pair.core.reports import NodeReport, ReplicaReport, ReplicaState
from pair.core.scheduler import Scheduler
from pair.core.snapshot import ReplicaView, take_snapshot
from pair.core.strategies import strategy_named
from pair.core.strategy import Strategy
from tests.core.audit_keys import takes
from tests.core.audit_order import SeenOrder, Waiter
from tests.core.audit_standing import SeenStanding
from tests.core.audit_windows import has_room
from tests.core.hesitant import any_strategy

FREE_TRIES = (FailureKind.BUSY, FailureKind.LOADING, FailureKind.RATE_LIMITED)
LATE_S = 1.0


@dataclass(eq=False)
class SeenTicket:
    """What can be known of a ticket from outside."""

    opened: Opened
    arrival: int
    pin: NodeId | None
    waiting_since: float
    waiting: bool = True
    lease: LeaseId | None = None
    committed: bool = False
    over: bool = False
    counted_attempts: int = 0
    engine_errors: int = 0
    waited_s: float = 0.0
    failed_on: set[NodeId] = field(default_factory=set)
    lacking: set[tuple[NodeId, EngineName]] = field(default_factory=set)
    failures: int = 0

    @property
    def waiter(self) -> Waiter:
        # A long prompt has no room in every window.
        unbound = self.pin is None and not self.failed_on and not self.opened.prompt.chars
        return Waiter(self.opened, self.arrival, unbound)


@dataclass(eq=False)
class SeenNode:
    """What can be known of a node from outside; `open` is whether its last word lets work in,
    `silent` whether it has yet to answer a probe since it was last doubted.
    """

    report: NodeReport | None = None
    open: bool = False
    silent: bool = True
    processes: list[str] = field(default_factory=list)
    drained: bool = False
    probed_at: float | None = None
    probe_limit_s: float = 0.0


class Audit:
    """Watches one scheduler; `see` raises AssertionError with the invariant's number."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.standing = SeenStanding(limits)
        self.order = SeenOrder(limits.priority_bound_s)
        self.declined: set[TicketId] = set()
        """Whom the strategy has left waiting at this event: the one "unless" of I4 and I5."""
        self.tickets: dict[TicketId, SeenTicket] = {}
        self.leases: dict[LeaseId, tuple[TicketId, ReplicaId, bool]] = {}
        self.settled: set[LeaseId] = set()
        self.nodes: dict[NodeId, SeenNode] = {}
        self.fates: dict[TicketId, Outcome] = {}
        self.hurt_at: dict[ReplicaId, float] = {}
        self.peak: dict[ReplicaId, int] = {}
        self.promised: float | None = None
        self.late_at: float | None = None
        self.ticked_at = 0.0
        self.draining = False
        self.now = 0.0

    def see(self, event: Event, now: float, decisions: list[Decision]) -> None:
        """Check what the scheduler made of one event."""
        self.now = now
        if self.promised is not None and now - self.promised > LATE_S:
            self.late_at = now
        self._event(event)
        for decision in decisions:
            self._decision(decision)
        for ticket in self.tickets.values():
            places = [ticket.lease is not None, ticket.waiting, ticket.over]
            assert sum(places) == 1, f"I1: {ticket} is not in exactly one place"
            assert not (ticket.waiting and ticket.opened.light), f"I1: light {ticket} waits"
        self._nobody_waits_beside_a_free_slot()
        self.order.waiting(ticket.waiter for ticket in self.waiting())

    # Own books

    def live(self, replica: ReplicaId) -> int:
        """Leases that hold a slot there."""
        return sum(1 for _, there, light in self.leases.values() if there == replica and not light)

    def live_on(self, node: NodeId) -> list[LeaseId]:
        return [lease for lease, (_, there, _) in self.leases.items() if there.node == node]

    def waiting(self) -> list[SeenTicket]:
        return [ticket for ticket in self.tickets.values() if ticket.waiting]

    def said(self, replica: ReplicaId) -> ReplicaReport | None:
        """The node's latest word on the replica."""
        node = self.nodes.get(replica.node)
        if node is None or node.report is None:
            return None
        for said in node.report.replicas:
            if (said.engine, said.model) == (replica.engine, replica.model):
                return said
        return None

    def _settle(self, lease: LeaseId) -> SeenTicket:
        assert lease in self.leases, f"I3: lease {lease} is settled but is not live"
        ticket_id, replica, _ = self.leases.pop(lease)
        self.settled.add(lease)
        self.standing.settled(replica, lease)
        ticket = self.tickets[ticket_id]
        assert ticket.lease == lease, f"I3: {ticket} does not hold lease {lease}"
        ticket.lease = None
        return ticket

    def _to_wait(self, ticket: SeenTicket) -> None:
        if ticket.committed:
            ticket.over = True
        else:
            ticket.waiting, ticket.waiting_since = True, self.now
            self.order.waits(ticket.opened, self.now - ticket.waited_s)

    def _stop_waiting(self, ticket: SeenTicket) -> None:
        ticket.waiting = False
        ticket.waited_s += self.now - ticket.waiting_since

    # Events

    def _event(self, event: Event) -> None:
        match event:
            case Opened():
                pin = None if event.pin is None else NodeId(event.pin)
                arrival = len(self.tickets) + len(self.fates)
                self.tickets[event.ticket] = SeenTicket(event, arrival, pin, self.now)
                self.order.waits(event, self.now)
            case FirstByte():
                _, replica, light = self.leases[event.lease]
                if not light and not self.tickets[event.ticket].committed:
                    self.standing.proven(replica)
                self.tickets[event.ticket].committed = True
            case AttemptFailed():
                self._attempt_failed(event)
            case Closed():
                self._closed(event)
            case NodeSighted():
                self.nodes.setdefault(event.node, SeenNode())
            case NodeReported():
                self._reported(event)
            case ProbeMissed():
                self._missed(event)
            case NodeIdentified():
                if event.node != event.really:
                    self.nodes.pop(event.node, None)
                    self.nodes.setdefault(event.really, SeenNode())
            case DrainRequested():
                if event.node is None:
                    self.draining = True
                elif event.node in self.nodes:
                    self.nodes[event.node].drained = True
                    self.nodes[event.node].open = False
            case Ticked():
                self.ticked_at, self.promised = self.now, None
            case NodeWithdrawn():
                pass

    def _pin_holds(self, ticket: SeenTicket, node: NodeId) -> bool:
        """Whether the ticket insists on no node or on this one."""
        if ticket.opened.pin is not None and ticket.pin not in self.nodes:
            ticket.pin = self._node_named(ticket.opened.pin) or ticket.pin
        return ticket.pin in (None, node)

    def _node_named(self, pin: str) -> NodeId | None:
        if NodeId(pin) in self.nodes:
            return NodeId(pin)
        same = [
            node
            for node, seen in self.nodes.items()
            if seen.report is not None and seen.report.name == pin
        ]
        return same[0] if len(same) == 1 else None

    def _attempt_failed(self, event: AttemptFailed) -> None:
        _, replica, light = self.leases[event.lease]
        ticket = self._settle(event.lease)
        kind = event.failure.kind
        if replica.node in self.nodes and not light:
            self.standing.failed(replica, kind)
        if kind is FailureKind.STALLED and not light:
            self.standing.was_left(replica, self.now, committed=ticket.committed)
        if kind is FailureKind.UNREACHABLE:
            if replica.node in self.nodes:
                self.nodes[replica.node].open = False
                self.nodes[replica.node].silent = True
        elif kind is not FailureKind.ENGINE_ERROR and not light:
            self.hurt_at[replica] = self.now
        if light and kind is FailureKind.NOT_THERE:
            ticket.lacking.add((replica.node, replica.engine))
        self._failed(ticket, replica.node, kind)

    def _failed(self, ticket: SeenTicket, node: NodeId, kind: FailureKind) -> None:
        ticket.failures += 1
        light = ticket.opened.light
        if (kind in FREE_TRIES and not light) or (kind is FailureKind.NOT_THERE and light):
            ticket.counted_attempts -= 1
        elif kind not in FREE_TRIES or light:
            ticket.failed_on.add(node)
        self._to_wait(ticket)

    def _closed(self, event: Closed) -> None:
        ticket = self.tickets.pop(event.ticket)
        if ticket.lease is not None:
            _, replica, light = self.leases.pop(ticket.lease)
            self.settled.add(ticket.lease)
            self.standing.settled(replica, ticket.lease)
            if event.outcome is Outcome.ANSWERED and not light:
                self.hurt_at.pop(replica, None)
                self.standing.proven(replica)
            elif not light:
                self.standing.was_left(replica, self.now, committed=ticket.committed)
        assert event.ticket not in self.fates, f"I1: {event} is a second fate"
        self.fates[event.ticket] = event.outcome

    def _reported(self, event: NodeReported) -> None:
        node = self.nodes.get(event.node)
        if node is None:
            return
        asked_at = float("-inf") if event.pushed or node.probed_at is None else node.probed_at
        if event.pushed:
            if node.silent or event.report.process in node.processes[:-1]:
                return
        else:
            node.probed_at, node.silent = None, False
        report = event.report if is_news(event.report, node.report) else node.report
        if event.report is not report and event.pushed:
            return
        assert report is not None
        states = {said.state for said in report.replicas}
        node.open = not (report.draining or node.drained or states == {ReplicaState.LOADING})
        if event.report is not report:
            return
        node.report = report
        if report.process not in ("", *node.processes[-1:]):
            node.processes = [*node.processes, report.process][-1 - PROCESSES_KEPT :]
        for said in report.replicas:
            replica = ReplicaId(event.node, said.engine, said.model)
            self.standing.reported(replica, said, self.live(replica), asked_at, self.now)
        known = {*self.hurt_at, *self.standing.known()}
        for replica in sorted(replica for replica in known if replica.node == event.node):
            if self.said(replica) is None and not self.live(replica):
                self.hurt_at.pop(replica, None)
                self.standing.gone(replica)

    def _missed(self, event: ProbeMissed) -> None:
        node = self.nodes.get(event.node)
        if node is None:
            return
        sent_at, node.probed_at = node.probed_at, None
        if sent_at is not None and self._late_since(sent_at, node.probe_limit_s):
            return
        asked_at = self.now if sent_at is None else sent_at
        if event.last_byte_at is not None and event.last_byte_at >= asked_at:
            return
        slow_engine = (
            event.connected
            and self.live_on(event.node)
            and node.report is not None
            and node.report.version == ""
        )
        if not slow_engine:
            node.open, node.silent = False, True

    def _late_since(self, sent_at: float, limit_s: float) -> bool:
        woke_late = self.late_at is not None and sent_at < self.late_at
        return woke_late or self.now - sent_at > limit_s + LATE_S

    # Decisions

    def _decision(self, decision: Decision) -> None:
        match decision:
            case Dispatch():
                self._dispatched(decision)
            case Refuse():
                self._refused(decision)
            case Abort():
                self._aborted(decision)
            case Probe():
                node = self.nodes.setdefault(decision.node, SeenNode())
                assert node.probed_at is None, f"two probes of {decision.node} at once"
                node.probed_at, node.probe_limit_s = self.now, decision.limit_s
            case WakeAt():
                assert self.promised is None or decision.at < self.promised, (
                    f"{decision} does not come before {self.promised}"
                )
                self.promised = decision.at

    def _dispatched(self, decision: Dispatch) -> None:
        ticket = self.tickets.get(decision.ticket)
        assert ticket is not None, f"I1: {decision} is for a ticket that is not open"
        assert ticket.waiting, f"I1: {decision} for {ticket}"
        known = decision.lease in self.leases or decision.lease in self.settled
        assert not known, f"I3: {decision} gives a lease twice"
        replica, light = decision.replica, ticket.opened.light
        said, node = self.said(replica), self.nodes.get(replica.node)
        assert node is not None, f"{decision} goes to an unknown node"
        assert node.open, f"{decision} goes to a node that takes nothing new"
        bare = node.report is not None and not (node.report.version or node.report.replicas)
        if not (bare and light and ticket.opened.model is None):
            # An engine on its own may know what a light request asks for, and have no model.
            assert said is not None, f"{decision} goes where nothing is reported"
            surely = [node.report for node in self.nodes.values() if node.open]
            assert takes(ticket.opened, said, self._reports()), f"{decision} goes to {said}"
            assert has_room(ticket.opened, said, surely), f"{decision} has no room on {said}"
            names = (None, said.model, *said.aliases)
            assert ticket.opened.model in names or said.any_name, f"{decision}: wrong model"
        assert self._pin_holds(ticket, replica.node), f"{decision} breaks the pin of {ticket}"
        if light:
            assert replica.node not in ticket.failed_on, f"{decision}: light, and failed there"
            lacks = (replica.node, replica.engine) in ticket.lacking
            assert not lacks, f"{decision}: light, and not there"
        else:
            assert said is not None
            used = self.live(replica) + self.standing.ghosts(replica, self.now)
            assert used < said.slots, f"I2: {decision} on {used} of {said.slots} slots in use"
            self.standing.granted(replica, decision.lease)
            could = [one for one in self.waiting() if self._may_take(one, replica, said)]
            passed = [one.waiter for one in could if one is not ticket]
            self.order.turn(ticket.waiter, passed, self.now)
        self._stop_waiting(ticket)
        assert abs(decision.queued_s - ticket.waited_s) < 1e-6, f"{decision}: {ticket} waited"
        ticket.lease = decision.lease
        ticket.counted_attempts += 1
        assert ticket.counted_attempts == decision.attempt <= self.limits.attempts_limit, (
            f"{decision} for {ticket}"
        )
        self.leases[decision.lease] = (decision.ticket, replica, light)

    def _may_take(self, ticket: SeenTicket, replica: ReplicaId, said: ReplicaReport) -> bool:
        return (
            ticket.opened.ticket not in self.declined
            and ticket.opened.model in (said.model, *said.aliases)
            and self._pin_holds(ticket, replica.node)
            and replica.node not in ticket.failed_on
            and takes(ticket.opened, said, self._reports())
            and has_room(ticket.opened, said, self._reports())
        )

    def _reports(self) -> list[NodeReport | None]:
        return [node.report for node in self.nodes.values()]

    def _refused(self, decision: Refuse) -> None:
        ticket = self.tickets.get(decision.ticket)
        assert ticket is not None, f"I1: {decision} is for a ticket that is not open"
        assert ticket.waiting, f"I1: {decision} for {ticket}"
        self._stop_waiting(ticket)
        ticket.over = True
        match decision.kind:
            case RefusalKind.ATTEMPTS_SPENT:
                assert ticket.failures, f"{decision}: no attempt of {ticket} has failed"
            case RefusalKind.QUEUE_FULL:
                others = len(self.waiting())
                assert others >= self.limits.waiting_limit, f"I7: {decision}, but {others} wait"
            case RefusalKind.WAITED_TOO_LONG:
                assert ticket.waited_s >= self.limits.wait_limit_s - 1e-6, f"{decision}: {ticket}"
            case RefusalKind.UNKNOWN_MODEL:
                for seen in self.nodes.values():
                    for said in () if seen.report is None else seen.report.replicas:
                        assert ticket.opened.model not in (said.model, *said.aliases), (
                            f"{decision}, but {said} has it"
                        )
            case RefusalKind.SHUTTING_DOWN:
                assert self.draining, f"{decision} without a drain"
            case RefusalKind.UNKNOWN_NODE:
                assert ticket.opened.pin is not None, f"{decision} without a pin"
            case RefusalKind.NO_NODE:
                pass

    def _aborted(self, decision: Abort) -> None:
        assert decision.lease in self.leases, f"I3: {decision} of a lease that is not live"
        ticket_id, replica, _ = self.leases[decision.lease]
        assert ticket_id == decision.ticket, f"I6: {decision} ends the lease of {ticket_id}"
        ticket = self._settle(decision.lease)
        self._failed(ticket, replica.node, FailureKind.UNREACHABLE)

    # After each event

    def _nobody_waits_beside_a_free_slot(self) -> None:
        for node_id, node in self.nodes.items():
            if node.report is None or not node.open:
                continue
            for said in node.report.replicas:
                replica = ReplicaId(node_id, said.engine, said.model)
                foreign_at_most = (said.running or 0) + (said.waiting or 0)
                used_at_most = (
                    self.live(replica)
                    + foreign_at_most
                    + self.standing.ghosts(replica, self.ticked_at)
                )
                pause_over = (
                    self.ticked_at >= self.hurt_at.get(replica, -1e9) + self.limits.pause_limit_s
                )
                if (
                    said.state is ReplicaState.READY
                    and used_at_most < said.slots
                    and pause_over
                    and not self.standing.on_trial(replica)
                ):
                    for ticket in self.waiting():
                        assert not self._may_take(ticket, replica, said), (
                            f"I4: {ticket} waits beside free {replica} at {self.now}"
                        )


def is_news(report: NodeReport, known: NodeReport | None) -> bool:
    """Whether a report is not older than what its process has said already."""
    same = known is not None and known.process == report.process
    return known is None or not same or not report.number or report.number >= known.number


class AuditedScheduler(Scheduler):
    """The scheduler itself, with the audit looking on and its books compared after each event.

    Attributes:
        log: every event with its time and what came of it, for I8.
    """

    def __init__(
        self,
        limits: Limits,
        strategy: Strategy | None = None,
        now: float = 0.0,
        *,
        log: bool = True,
    ) -> None:
        strategy = strategy_named("queue-depth") if strategy is None else strategy
        super().__init__(limits, strategy, now)
        self.began_with = strategy.name
        self.audit = Audit(limits)
        self.audit.declined = self.matching.left_waiting
        self.log: list[tuple[Event, float, list[Decision]]] = []
        self.logs = log

    def handle(self, event: Event, now: float) -> list[Decision]:
        decisions = super().handle(event, now)
        if self.logs:
            self.log.append((event, now, list(decisions)))
        self.audit.see(event, now, decisions)
        self.compare_books(now)
        return decisions

    def compare_books(self, now: float) -> None:
        """What the scheduler shows is what happened (I1, I2, I6), within its bounds (I7)."""
        shown, audit = take_snapshot(self, now), self.audit
        live = sum(not light for _, _, light in audit.leases.values())
        assert shown.in_flight == live, f"I2: shows {shown.in_flight} in flight, not {live}"
        waiting = audit.waiting()
        assert shown.waiting == len(waiting), f"I1: shows {shown.waiting}, not {len(waiting)}"
        assert shown.opened == len(audit.tickets) + len(audit.fates), "I1: miscounted opened"
        assert sum(shown.closed.values()) == len(audit.fates), "I1: miscounted closed"
        for node in shown.nodes:
            if node.phase is Phase.LOST:
                left = audit.live_on(node.id)
                assert not left, f"I6: leases {left} live on lost {node.id}"
                audit.standing.lost(node.id)
            for replica in node.replicas:
                self._compare_slots(node.id, replica)
        audit.standing.forget_all_but({node.id for node in shown.nodes})
        gone = {there.node for _, there, _ in audit.leases.values()} - {n.id for n in shown.nodes}
        assert not gone, f"I6: leases on forgotten nodes {gone}"
        limits = self.limits
        returned = sum(ticket.failures > 0 for ticket in waiting)
        assert len(waiting) <= limits.waiting_limit + returned, "I7: the waiting room is unbounded"
        assert len(shown.nodes) <= limits.nodes_limit, "I7: the node table is unbounded"
        assert len(self.desk.jobs) <= limits.jobs_limit, "I7: the job log is unbounded"
        assert len(self.desk.room.attained) <= limits.flows_limit, "I7: flows are unbounded"
        for job in self.desk.jobs.jobs():
            assert len(job.calls) <= limits.calls_limit, f"I7: job {job.id} is unbounded"
        # Nodes that the scheduler has dropped from its table are strangers to the audit, too.
        for node_id in audit.nodes.keys() - {node.id for node in shown.nodes}:
            del audit.nodes[node_id]

    def _compare_slots(self, node: NodeId, shown: ReplicaView) -> None:
        audit = self.audit
        replica = ReplicaId(node, EngineName(shown.engine), shown.model)
        there = audit.live(replica)
        assert shown.in_flight == there, f"I2: {replica}: {shown.in_flight}, not {there}"
        fewest = audit.standing.ghosts(replica, audit.now)
        most = audit.standing.ghosts(replica, audit.ticked_at)
        assert fewest <= shown.draining <= most, (
            f"I2: {replica}: {shown.draining} drain, not {fewest} to {most}"
        )
        assert shown.in_flight + shown.draining <= shown.slots, f"I2: {replica} is overfull"
        assert shown.unproven == (replica in audit.standing.unproven), f"I12: {replica}"

    def replay(self) -> None:
        """I8: the same events at the same times give the same decisions."""
        again = Scheduler(self.limits, any_strategy(self.began_with), self.started_at)
        for event, now, decisions in self.log:
            assert again.handle(event, now) == decisions, f"I8: {event} at {now} differs"
