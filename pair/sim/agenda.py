"""Virtual time: what comes next, in order.

All parts of the simulated world share one agenda, so that an order of events is one order for all
of them, and the same in each run.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any


class Agenda:
    """Things to do at given times; those of one time in the order in which they were put down.

    Attributes:
        now: seconds from the beginning of the world.
        origin: when the first call comes that is in the figures.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.origin = 0.0
        self._heap: list[tuple[float, int, Callable[[Any], None], Any]] = []
        self._entries = 0

    @property
    def since_origin_s(self) -> float:
        """As records count."""
        return self.now - self.origin

    def at(self, at: float, act: Callable[[Any], None], subject: object) -> None:
        """Put down `act(subject)`."""
        self._entries += 1
        heapq.heappush(self._heap, (at, self._entries, act, subject))

    def go_on(self) -> None:
        """Let time pass to what comes next, and do it; there is something."""
        self.now, _, act, subject = heapq.heappop(self._heap)
        act(subject)
