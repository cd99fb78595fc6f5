"""One model on one engine on one node, with the counts by which it is chosen.

The counts live on the object itself and not in a table by name, so that a lease settles on exactly
the object that it was granted on, even when the node has gone and come back under the same name in
between.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pair.core.draining import Draining
from pair.core.names import LeaseId, ModelName, ReplicaId
from pair.core.reports import ReplicaReport, ReplicaState
from pair.core.token_counts import TokenCounts


@dataclass(slots=True, eq=False)
class Replica:
    """What dispatch chooses.

    Attributes:
        report: the node's latest word.
        state_since: when it last changed between ready, loading and the others.
        listed: whether the latest report still had it; one with leases stays until they are
            settled.
        in_flight: our leases that hold a slot; changed by the ledger only.
        draining: slots on which it may still compute for calls that we have left.
        foreign: requests there that are not ours (`load.py`), 0 when unknown.
        peak_ours: the most of ours since the last report, for telling ours from foreign.
        set_aside_until: gets no ticket before this (clock of `now`), because it failed or said that
            it is full.
        full_at: when it last said that it is full, if that is why it is set aside; else None.
        failures: mishaps in a row, for the growing pause; `failed_at` is the time of the latest.
        unproven: it has failed and not answered since, so it gets one call at a time.
        trial: the lease of that one call, None while there is none.
        given_up: its pause has become longer than anybody should wait for it.
        picked: the sequence number of its latest lease, for turn-taking; 0 before the first.
        tokens: what its answers have had, all told.
    """

    id: ReplicaId
    node_name: str
    report: ReplicaReport
    state_since: float = 0.0
    listed: bool = True
    in_flight: int = 0
    draining: Draining = field(default_factory=Draining)
    foreign: int = 0
    peak_ours: int = 0
    set_aside_until: float = 0.0
    set_aside_reason: str = ""
    full_at: float | None = None
    failures: int = 0
    failed_at: float = 0.0
    unproven: bool = False
    trial: LeaseId | None = None
    given_up: bool = False
    picked: int = 0
    served: int = 0
    failed: int = 0
    tokens: TokenCounts = field(default_factory=TokenCounts)

    @property
    def ours(self) -> int:
        """Slots that our calls take, those that we have left included."""
        return self.in_flight + len(self.draining)

    @property
    def slots(self) -> int:
        """Requests at a time. A slot in use exists, so a report that shrinks them takes effect as
        leases end (I2).
        """
        return max(self.report.slots, self.ours)

    @property
    def load(self) -> int:
        return self.ours + self.foreign

    @property
    def queue_depth(self) -> int:
        return max(0, self.load - self.slots)

    @property
    def names(self) -> tuple[ModelName, ...]:
        """Every name under which a client may ask for it, its own first."""
        return (self.id.model, *sorted(self.report.aliases))

    @property
    def answers(self) -> bool:
        """Whether the engine is up and holds the model, busy or not, perhaps behind a key."""
        return self.listed and (self.report.state is ReplicaState.READY or self.keyed)

    @property
    def keyed(self) -> bool:
        """Whether the engine wants a key that `pair` does not have."""
        return self.report.state is ReplicaState.NEEDS_KEY

    def has_free_slot(self) -> bool:
        return self.load < self.report.slots

    @property
    def on_trial(self) -> bool:
        """Whether the one call of a replica that has yet to prove itself is under way."""
        return self.unproven and self.trial is not None

    def takes_more(self, now: float) -> bool:
        """Whether it may have another ticket, as far as its own counts and standing go."""
        return self.has_free_slot() and now >= self.set_aside_until and not self.on_trial
