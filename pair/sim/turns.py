"""Whose turn it is at a full simulated machine, as `pair/agent/turns.py` has it on a real one.

The rule again, not the code: there it hangs on an event loop, here on virtual time. A proxy that
was turned away has the next free slot if it comes for it soon, before the one that was served.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from pair.sim.agenda import Agenda

TURN_S = 0.05
"""So long (s) a slot is kept for whoever's turn it is, as on a real node."""


class Turns:
    """Of one machine.

    Args:
        changed: called when a turn is over unused.
    """

    def __init__(self, agenda: Agenda, slots: int, changed: Callable[[], None]) -> None:
        self._agenda = agenda
        self._slots = slots
        self._changed = changed
        self._taken = 0
        # Who came first before the others; the number of its time that runs, None while none does.
        self._waiting: dict[object, int | None] = {}
        self._numbers = count(1)

    def ahead(self, who: object) -> int:
        """How many slots are others' before they are this one's."""
        for place, other in enumerate(self._waiting):
            if other is who:
                return place
        return len(self._waiting)

    def turned_away(self, who: object) -> None:
        """It found no slot; if it waits already, it keeps its place."""
        self._waiting.setdefault(who, None)
        self.look(self._taken)

    def came(self, who: object) -> None:
        """It has its slot."""
        self._waiting.pop(who, None)

    def look(self, taken: int) -> None:
        """So many slots are taken now: for those whose turn that makes it, time runs."""
        self._taken = taken
        free = self._slots - taken
        for place, (who, runs) in enumerate(self._waiting.items()):
            if place >= free:
                self._waiting[who] = None
            elif runs is None:
                number = self._waiting[who] = next(self._numbers)
                self._agenda.at(self._agenda.now + TURN_S, self._over, (who, number))

    def forget(self) -> None:
        """The machine starts anew."""
        self._waiting.clear()
        self._taken = 0

    def _over(self, whose: tuple[object, int]) -> None:
        who, number = whose
        if self._waiting.get(who) == number:
            self.came(who)
            self.look(self._taken)
            self._changed()
