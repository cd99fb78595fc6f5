"""One model on one engine on one node, with the counts by which it is chosen.

The counts live on the object itself and not in a table by name, so that a lease settles on exactly
the object that it was granted on, even when the node has gone and come back under the same name in
between.
"""

from __future__ import annotations

from dataclasses import dataclass

from pair.core.names import ModelName, ReplicaId
from pair.core.reports import ReplicaReport, ReplicaState


@dataclass(slots=True, eq=False)
class Replica:
    """What dispatch chooses.

    Attributes:
        report: the node's latest word.
        listed: whether the latest report still had it; one with leases stays until they are
            settled.
        in_flight: our leases that hold a slot; changed by the ledger only.
        foreign: requests there that are not ours (`load.py`), 0 when unknown.
        peak_in_flight: the most of ours since the last report, for telling ours from foreign.
        set_aside_until: gets no ticket before this (clock of `now`), because it failed or said that
            it is full.
        failures: failed attempts in a row, for the growing pause.
        picked: the sequence number of its latest lease, for turn-taking; 0 before the first.
    """

    id: ReplicaId
    node_name: str
    report: ReplicaReport
    listed: bool = True
    in_flight: int = 0
    foreign: int = 0
    peak_in_flight: int = 0
    set_aside_until: float = 0.0
    set_aside_reason: str = ""
    failures: int = 0
    picked: int = 0
    served: int = 0
    failed: int = 0

    @property
    def slots(self) -> int:
        """Requests at a time. A slot in use exists, so a report that shrinks them takes effect as
        leases end (I2).
        """
        return max(self.report.slots, self.in_flight)

    @property
    def load(self) -> int:
        return self.in_flight + self.foreign

    @property
    def queue_depth(self) -> int:
        return max(0, self.load - self.slots)

    @property
    def names(self) -> tuple[ModelName, ...]:
        """Every name under which a client may ask for it, its own first."""
        return (self.id.model, *sorted(self.report.aliases))

    @property
    def answers(self) -> bool:
        """Whether the engine is up and holds the model, busy or not."""
        return self.listed and self.report.state is ReplicaState.READY

    def has_free_slot(self) -> bool:
        return self.load < self.report.slots
