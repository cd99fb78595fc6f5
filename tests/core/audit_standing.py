"""The audit's own books of what keeps a free slot shut: calls that were left, and trials (I2, I12).

By the words of DESIGN.md, from events and decisions alone; nothing here asks the scheduler.
"""

from __future__ import annotations

from pair.core.events import FailureKind
from pair.core.limits import Limits
from pair.core.names import LeaseId, NodeId, ReplicaId
from pair.core.reports import ReplicaReport
from pair.core.retrying import RULES, Hurts

NOT_BROKEN = (FailureKind.BUSY, FailureKind.LOADING)


class SeenStanding:
    """What can be known of a replica's ghosts and trials from outside."""

    def __init__(self, limits: Limits) -> None:
        self.grace_s = limits.left_grace_s
        self.left: dict[ReplicaId, list[float]] = {}
        self.counted_at: dict[ReplicaId, float] = {}
        self.unproven: set[ReplicaId] = set()
        self.trials: dict[ReplicaId, LeaseId] = {}

    def ghosts(self, replica: ReplicaId, now: float) -> int:
        """Slots that drain there, if the clock was last looked at then."""
        return sum(self._still(replica, left_at, now) for left_at in self.left.get(replica, []))

    def on_trial(self, replica: ReplicaId) -> bool:
        return replica in self.unproven and replica in self.trials

    def granted(self, replica: ReplicaId, lease: LeaseId) -> None:
        assert not self.on_trial(replica), f"I12: {lease} is a second call on trial at {replica}"
        if replica in self.unproven:
            self.trials[replica] = lease

    def settled(self, replica: ReplicaId, lease: LeaseId) -> None:
        if self.trials.get(replica) == lease:
            del self.trials[replica]

    def was_left(self, replica: ReplicaId, now: float, *, committed: bool) -> None:
        """A call with a slot was left by us before its answer was whole."""
        if replica in self.counted_at or not committed:
            there = self.left.setdefault(replica, [])
            there[:] = [left_at for left_at in there if self._still(replica, left_at, now)]
            there.append(now)

    def failed(self, replica: ReplicaId, kind: FailureKind) -> None:
        if kind not in NOT_BROKEN and RULES[kind].hurts is Hurts.REPLICA:
            self.unproven.add(replica)

    def proven(self, replica: ReplicaId) -> None:
        self.unproven.discard(replica)
        self.trials.pop(replica, None)

    def reported(
        self, replica: ReplicaId, said: ReplicaReport, live: int, asked_at: float, now: float
    ) -> None:
        left = self.left.get(replica, [])
        left[:] = [left_at for left_at in left if self._still(replica, left_at, now)]
        if said.running is not None or said.waiting is not None:
            if asked_at > float("-inf"):
                self.counted_at[replica] = asked_at
            since = [left_at for left_at in left if left_at >= asked_at]
            before = left[: len(left) - len(since)]
            ours = live if said.yours is None else said.yours
            most = max(0, (said.running or 0) + (said.waiting or 0) - ours - len(since))
            self.left[replica] = before[max(0, len(before) - most) :] + since

    def gone(self, replica: ReplicaId) -> None:
        """It is no longer reported and nothing of ours runs there."""
        self.left.pop(replica, None)
        self.counted_at.pop(replica, None)
        self.proven(replica)

    def lost(self, node: NodeId) -> None:
        """Nothing drains on a lost node (I6)."""
        for replica in sorted(self.left):
            if replica.node == node:
                del self.left[replica]

    def known(self) -> set[ReplicaId]:
        """Whoever is in these books."""
        return {*self.left, *self.counted_at, *self.unproven}

    def forget_all_but(self, nodes: set[NodeId]) -> None:
        for replica in sorted(self.known()):
            if replica.node not in nodes:
                self.gone(replica)

    def _still(self, replica: ReplicaId, left_at: float, now: float) -> bool:
        since = max(left_at, self.counted_at.get(replica, left_at))
        return since + self.grace_s > now
