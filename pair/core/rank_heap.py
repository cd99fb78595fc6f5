"""Who is first, when ranks change and members leave from the middle.

Separate because the waiting room asks this at three levels: whose turn it is among flows, which
ticket is next within a flow, and which is the oldest of all. A member that moved or left leaves its
old entry behind, to be dropped when it comes up; when dead entries outnumber the living the heap is
rebuilt. So each step costs O(log n), over many steps.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Hashable
from typing import Any, Generic, TypeVar

FEW = 16
"""Dead entries that are never worth a rebuild; small, because every flow that waits has a heap."""

Member = TypeVar("Member", bound=Hashable)


class RankHeap(Generic[Member]):
    """Members by rank, the smallest first; among equal ranks whoever got its rank first."""

    def __init__(self) -> None:
        self._heap: list[tuple[Any, int, Member]] = []
        self._ranks: dict[Member, tuple[Any, int]] = {}
        self._put = 0

    def __len__(self) -> int:
        return len(self._ranks)

    def __contains__(self, member: Member) -> bool:
        return member in self._ranks

    @property
    def entries(self) -> int:
        """Dead ones included: what is bounded."""
        return len(self._heap)

    def members(self) -> Collection[Member]:
        """All of them, in no order of worth."""
        return self._ranks.keys()

    def put(self, member: Member, rank: Any) -> None:
        """Take in a member, or give one that is here another rank; ranks are compared with `<`."""
        self._put += 1
        self._ranks[member] = (rank, self._put)
        heapq.heappush(self._heap, (rank, self._put, member))
        if len(self._heap) > FEW + 2 * len(self._ranks):
            self._heap = [(rank, number, one) for one, (rank, number) in self._ranks.items()]
            heapq.heapify(self._heap)

    def drop(self, member: Member) -> None:
        """Let a member go; nothing happens if it is not here."""
        self._ranks.pop(member, None)

    def first(self) -> Member | None:
        """The member of the smallest rank, None without any."""
        while self._heap:
            _, number, member = self._heap[0]
            current = self._ranks.get(member)
            if current is not None and current[1] == number:
                return member
            heapq.heappop(self._heap)
        return None
