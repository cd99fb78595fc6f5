"""What hindsight says of single calls: which would have ended sooner on a machine that was free
when they came.

Apart from the report because it looks at a run as a whole, event by event, where the report only
counts. A strategy that lets a call wait for a fast machine promises that this ends sooner than the
slow one that is free; here the promise is kept or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from pair.core.names import NodeId, Outcome
from pair.sim.machines import Machine
from pair.sim.place import CallRecord

CLOCK_S = 1e-6
"""Differences below this are sums of floats, not of decisions."""


@dataclass(frozen=True, slots=True)
class Regret:
    """Of one run.

    Attributes:
        calls: how many answered calls ended later than the best of the machines that had a free
            slot when they came would have ended them, with nothing cached there.
        mean_s, worst_s: how much later, over those calls; 0 without any.
    """

    calls: int
    mean_s: float
    worst_s: float


def regret_of(records: Sequence[CallRecord], machines: Sequence[Machine]) -> Regret:
    """Look back at a finished run. Mishaps are not known here: a machine that was down counts as
    free, so runs with mishaps regret what nobody could know.
    """
    late_s = [late for late in _late_s(records, machines) if late > CLOCK_S]
    return Regret(
        len(late_s),
        sum(late_s) / len(late_s) if late_s else 0.0,
        max(late_s, default=0.0),
    )


class _Step(IntEnum):
    """What happens to a call, in the order of one instant: see `_events`."""

    CLOSED = 0
    OPENED = 1
    GRANTED = 2


def _late_s(records: Sequence[CallRecord], machines: Sequence[Machine]) -> Iterator[float]:
    """For each answered call that found a free slot: seconds after what that would have given."""
    kinds = {machine.id: replace(machine, id=NodeId(""), slots=1) for machine in machines}
    free = {machine.id: machine.slots for machine in machines}
    free_machines = Counter(kinds.values())
    for _, _, index, step in sorted(_events(records)):
        record = records[index]
        if step is _Step.OPENED:
            late_s = _late_of(record, free_machines)
            if late_s is not None:
                yield late_s
        elif record.node is not None:
            before = free[record.node]
            after = free[record.node] = before + (1 if step is _Step.CLOSED else -1)
            free_machines[kinds[record.node]] += (after > 0) - (before > 0)


def _events(records: Sequence[CallRecord]) -> Iterator[tuple[float, bool, int, _Step]]:
    """Sorted, they are the run: in one instant slots become free first, then calls come one after
    the other, and each is granted its slot before the next comes, as the scheduler does it.
    """
    for index, record in enumerate(records):
        if record.opened_s is None:
            continue
        yield record.opened_s, True, index, _Step.OPENED
        if record.granted_s is not None and record.closed_s is not None:
            yield record.granted_s, True, index, _Step.GRANTED
            yield record.closed_s, False, index, _Step.CLOSED


def _late_of(record: CallRecord, free_machines: Mapping[Machine, int]) -> float | None:
    if record.outcome is not Outcome.ANSWERED or record.opened_s is None or not record.closed_s:
        return None
    needs_s = [
        kind.service_s(record.call)
        for kind, count in free_machines.items()
        if count > 0 and kind.fits(record.call)
    ]
    return record.closed_s - record.opened_s - min(needs_s) if needs_s else None
