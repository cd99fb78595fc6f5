"""The order of turns (I5) as an onlooker can check it: by class, and by arrival within a flow.

How flows take turns depends on what each has cost; that is checked where costs are known, in
`test_turns.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pair.core.events import Opened
from pair.core.names import ModelName, Priority

URGENCY = list(Priority)

_Class = tuple[ModelName | None, Priority]


@dataclass(frozen=True)
class Waiter:
    """One who waits, and could have the slot that somebody else gets.

    Attributes:
        unbound: it may surely go to every replica of its model.
    """

    opened: Opened
    arrival: int
    unbound: bool


class SeenOrder:
    """Who has waited for how long without a turn, by class."""

    def __init__(self, bound_s: float) -> None:
        self.bound_s = bound_s
        self.since: dict[_Class, float] = {}
        self.jumped: set[ModelName | None] = set()

    def waits(self, opened: Opened, since: float) -> None:
        """Somebody waits, and has done so in all as if since then."""
        mine = (opened.model, opened.priority)
        self.since[mine] = min(since, self.since.get(mine, since))

    def waiting(self, waiters: Iterable[Waiter]) -> None:
        """Only these wait still: classes without anybody begin anew."""
        waiters = list(waiters)
        classes = {(one.opened.model, one.opened.priority) for one in waiters}
        unbound = {one.opened.model for one in waiters if one.unbound}
        for gone in self.since.keys() - classes:
            del self.since[gone]
        self.jumped &= unbound

    def turn(self, taker: Waiter, passed: Iterable[Waiter], now: float) -> None:
        """Somebody gets a slot that these could have had, too."""
        mine = taker.opened
        passed = [other for other in passed if other.opened.model == mine.model]
        urgent = [
            other
            for other in passed
            if URGENCY.index(other.opened.priority) < URGENCY.index(mine.priority)
        ]
        for other in urgent:
            waited_s = now - self.since[mine.model, mine.priority]
            assert waited_s > self.bound_s, f"I5: {taker} goes before {other}"
        for other in passed:
            same = (other.opened.priority, other.opened.flow) == (mine.priority, mine.flow)
            # A turn out of order is a lane's own; who waits in another one may have come before.
            one_lane = not urgent or (taker.unbound and other.unbound)
            older = other.arrival < taker.arrival
            assert not (same and one_lane and older), f"I5: {taker} goes before {other}"
        out_of_order = taker.unbound and any(other.unbound for other in urgent)
        if out_of_order:
            twice = mine.model in self.jumped
            assert not twice, f"I5: {taker}, the second in a row that goes before more urgent ones"
            self.jumped.add(mine.model)
        else:
            self.jumped.discard(mine.model)
