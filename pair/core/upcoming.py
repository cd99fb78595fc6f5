"""When slots are expected to be free again: the predicted ends of our calls, soonest first.

Apart from the ledger because a prediction is not a count: nothing here can break an invariant, and
a call whose end nobody can predict is simply not in it.
"""

from __future__ import annotations

import bisect
from collections.abc import Collection, Iterator

from pair.core.ledger import Lease
from pair.core.names import LeaseId, ModelName

OVERDUE_SHARE = 0.25
"""A call that has outlasted its prediction is expected to take this share of its time so far on
top: the longer it has run, the longer it will."""

_Entry = tuple[float, LeaseId, Lease]


class Upcoming:
    """The live leases with a predicted end, by each name that their replica answers to. Bounded by
    the slots of the house times the names of a replica.
    """

    def __init__(self) -> None:
        self._by_name: dict[ModelName, list[_Entry]] = {}
        self._ends_at: dict[LeaseId, tuple[float, Collection[ModelName]]] = {}

    def expect(self, lease: Lease, ends_at: float, names: Collection[ModelName]) -> None:
        """A call has begun that should end then."""
        self._ends_at[lease.id] = (ends_at, names)
        for name in names:
            bisect.insort(self._by_name.setdefault(name, []), (ends_at, lease.id, lease))

    def settled(self, lease: Lease) -> None:
        """It has ended, if it was expected at all."""
        ends_at, names = self._ends_at.pop(lease.id, (0.0, ()))
        for name in names:
            line = self._by_name[name]
            del line[bisect.bisect_left(line, (ends_at, lease.id))]
            if not line:
                del self._by_name[name]

    def soonest(self, name: ModelName, now: float) -> Iterator[tuple[float, Lease]]:
        """When each slot should be free, by the order of the predictions."""
        for ends_at, _, lease in self._by_name.get(name, ()):
            yield max(ends_at, now + OVERDUE_SHARE * (now - lease.granted_at)), lease

    def count(self, name: ModelName) -> int:
        """How many calls of this name have a predicted end."""
        return len(self._by_name.get(name, ()))

    def __len__(self) -> int:
        return len(self._ends_at)
