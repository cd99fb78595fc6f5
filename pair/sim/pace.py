"""How fast work gets on that shares a machine with other work.

Apart from `place.py` because it is a small theory of its own: all that runs on a machine advances
on one clock, which goes slower the more there is, so whatever comes or goes, the order in which the
work ends does not change and only the next end need be known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pair.sim.agenda import Agenda


class Pace:
    """The works of one machine; with n at once each takes 1 + slowdown * (n - 1) times as long."""

    def __init__(self, agenda: Agenda, slowdown: float) -> None:
        self._agenda = agenda
        self._slowdown = slowdown
        self._works: dict[object, tuple[float, Callable[[Any], None]]] = {}
        self._done_s = 0.0
        self._done_at = 0.0
        self._turn = 0

    def work(self, subject: object, alone_s: float, act: Callable[[Any], None]) -> None:
        """Begin what takes `alone_s` without company, then `act(subject)`; a subject has one work
        at a time.
        """
        if not self._slowdown:
            # Nothing to share: the agenda alone will do, and 100,000 calls take half the time.
            self._agenda.at(self._agenda.now + alone_s, act, subject)
            return
        self._advance()
        self._works[subject] = (self._done_s + alone_s, act)
        self._plan()

    def drop(self, subject: object) -> None:
        """It is over before its end, if it is not over already. Without slowdown its end still
        comes, and means nothing.
        """
        if subject in self._works:
            self._advance()
            del self._works[subject]
            self._plan()

    def _rate(self) -> float:
        return 1.0 / (1.0 + self._slowdown * max(0, len(self._works) - 1))

    def _advance(self) -> None:
        self._done_s += (self._agenda.now - self._done_at) * self._rate()
        self._done_at = self._agenda.now

    def _plan(self) -> None:
        """Put down the next end; the ones put down before mean nothing any more."""
        self._turn += 1
        if self._works:
            end_s = min(end_s for end_s, _ in self._works.values())
            wait_s = max(0.0, end_s - self._done_s) / self._rate()
            self._agenda.at(self._agenda.now + wait_s, self._next_ends, self._turn)

    def _next_ends(self, turn: int) -> None:
        if turn != self._turn:
            return
        subject = min(self._works, key=lambda one: self._works[one][0])
        self._advance()
        # Exactly there, whatever the sums above were rounded to.
        self._done_s, act = self._works.pop(subject)
        self._plan()
        act(subject)
