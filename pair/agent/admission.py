"""How many requests this node has let through to each replica, counted here and nowhere else.

Separate and pure because it is what keeps a full engine from being given more: several proxies may
send at once, each with a picture that is a second old, and only the node sees all of them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from pair.core.names import EngineName, ModelName
from pair.errors import BookkeepingError

ReplicaKey = tuple[EngineName, ModelName]

PEAKS_LIMIT = 4096
"""Most peaks kept, as many as a node reports replicas. An engine that never counts has its peaks
never taken, and its models come and go; a peak that is dropped counts as foreign work for one
look."""


@dataclass(slots=True, eq=False)
class Admitted:
    """The hold of one request on one slot; give it back with `Admission.settle`."""

    key: ReplicaKey
    settled: bool = field(default=False, init=False)


class Admission:
    """Counts never go below zero nor, through `admit`, above the slots."""

    def __init__(self) -> None:
        self._running: Counter[ReplicaKey] = Counter()
        self._peak: dict[ReplicaKey, int] = {}

    def admit(self, key: ReplicaKey, slots: int) -> Admitted | None:
        """Take a slot, None if all are taken. `slots` may have shrunk since others were
        admitted.
        """
        running = self._running[key] + 1
        if running > slots:
            return None
        self._running[key] = running
        self._peak[key] = max(running, self._peak.pop(key, 0))
        if len(self._peak) > PEAKS_LIMIT:
            del self._peak[next(iter(self._peak))]
        return Admitted(key)

    def settle(self, admitted: Admitted) -> None:
        """Give the slot back, once, however the request ended."""
        if admitted.settled:
            raise BookkeepingError(f"a request to {admitted.key} was settled twice")
        admitted.settled = True
        self._running[admitted.key] -= 1
        if not self._running[admitted.key]:
            del self._running[admitted.key]

    def running(self, key: ReplicaKey) -> int:
        """Requests admitted to this replica and not settled."""
        return self._running[key]

    def total(self) -> int:
        """The same over all replicas."""
        return self._running.total()

    def take_peak(self, key: ReplicaKey) -> int:
        """The most that ran there at once since this was last asked."""
        peak = self._peak.pop(key, 0)
        if running := self._running[key]:
            self._peak[key] = running
        return max(peak, running)
