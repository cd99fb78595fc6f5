"""What has to happen at a later time, as values in a heap.

The core has no clock: it says `WakeAt` for the earliest of these and acts on those that are due
when it is told the time. A moved or cancelled alarm leaves its old entry behind, to be dropped when
it comes up; entries are bounded by rebuilding the heap when dead ones outnumber the living.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator

FEW = 64
"""Dead entries that are never worth a rebuild: as many as a small house sets within a minute."""


class Alarms:
    """At most one alarm a key."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Hashable]] = []
        self._at: dict[Hashable, tuple[float, int]] = {}
        self._set = 0

    def set(self, key: Hashable, at: float) -> None:
        """Ring for `key` at `at`, instead of whenever it was to ring before."""
        self._set += 1
        self._at[key] = (at, self._set)
        heapq.heappush(self._heap, (at, self._set, key))
        if len(self._heap) > FEW + 2 * len(self._at):
            self._heap = [(when, number, what) for what, (when, number) in self._at.items()]
            heapq.heapify(self._heap)

    def bring_forward(self, key: Hashable, at: float) -> None:
        """Ring for `key` at `at`, unless it rings sooner anyhow."""
        if key not in self._at or at < self._at[key][0]:
            self.set(key, at)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._at

    def __len__(self) -> int:
        """Entries kept, dead ones included: what is bounded."""
        return len(self._heap)

    def cancel(self, key: Hashable) -> None:
        self._at.pop(key, None)

    def next_at(self) -> float | None:
        """The earliest alarm, None without one."""
        while self._heap:
            at, number, key = self._heap[0]
            if self._at.get(key) == (at, number):
                return at
            heapq.heappop(self._heap)
        return None

    def due(self, now: float) -> Iterator[Hashable]:
        """Take out and yield every key whose time has come, earliest first."""
        while (at := self.next_at()) is not None and at <= now:
            _, _, key = heapq.heappop(self._heap)
            del self._at[key]
            yield key
