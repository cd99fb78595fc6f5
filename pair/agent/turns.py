"""Whose turn it is at a full replica: the proxy that was turned away goes before the one that was
served.

Without this a proxy with many calls keeps a slot to itself: it knows first that its own call has
ended, and is back before anybody else has heard of it. So a proxy that found a replica full has
the next free slot, if it comes for it soon; and the others are told of it as of a call that is
there already, so that they do not ask in vain.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from pair.core.names import EngineName, ModelName

ReplicaKey = tuple[EngineName, ModelName]

TURN_S = 0.05
"""So long (s) is a slot kept for whoever's turn it is: some ten times what a proxy on the LAN
needs, and as long as a slot may stand idle where it has no use for it any more."""

COMING_S = 1.0
"""The same (s) once its call is here, until its body is whole: a long prompt over Wi-Fi."""

PROXIES_LIMIT = 16
"""Most that wait for a turn at one replica; anybody can make up marks."""


@dataclass(slots=True, eq=False)
class _Line:
    """Of one replica.

    Attributes:
        slots, taken: as of the latest look.
        waiting: by mark, who came first before the others; the timer of those whose turn it is.
    """

    slots: int = 0
    taken: int = 0
    waiting: dict[str, asyncio.TimerHandle | None] = field(default_factory=dict)


class Turns:
    """Bounded by the replicas that somebody was turned away from.

    Args:
        changed: called when a turn is over unused.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._lines: dict[ReplicaKey, _Line] = {}

    def ahead(self, key: ReplicaKey, proxy: str | None) -> int:
        """How many slots are others' before this proxy's; of those that come through none all are
        before it.
        """
        line = self._lines.get(key)
        if line is None:
            return 0
        for place, mark in enumerate(line.waiting):
            if mark == proxy:
                return place
        return len(line.waiting)

    def turned_away(self, key: ReplicaKey, proxy: str, slots: int, taken: int) -> None:
        """It found no slot; if it waits already, it keeps its place."""
        line = self._lines.setdefault(key, _Line())
        line.slots = slots
        if proxy not in line.waiting and len(line.waiting) < PROXIES_LIMIT:
            line.waiting[proxy] = None
        self.look(key, taken)

    def coming(self, key: ReplicaKey, proxy: str) -> None:
        """It is its turn, and its call is on the way."""
        line = self._lines.get(key)
        timer = None if line is None else line.waiting.get(proxy)
        if line is not None and timer is not None:
            timer.cancel()
            line.waiting[proxy] = self._timer(COMING_S, key, proxy)

    def came(self, key: ReplicaKey, proxy: str) -> None:
        """It has its slot."""
        line = self._lines.get(key)
        if line is None or proxy not in line.waiting:
            return
        timer = line.waiting.pop(proxy)
        if timer is not None:
            timer.cancel()
        if not line.waiting:
            del self._lines[key]

    def look(self, key: ReplicaKey, taken: int) -> None:
        """So many slots are taken now: for those whose turn that makes it, time runs."""
        line = self._lines.get(key)
        if line is None:
            return
        line.taken = taken
        free = line.slots - taken
        for place, (proxy, timer) in enumerate(line.waiting.items()):
            if place < free and timer is None:
                line.waiting[proxy] = self._timer(TURN_S, key, proxy)
            elif place >= free and timer is not None:
                timer.cancel()
                line.waiting[proxy] = None

    def _timer(self, after_s: float, key: ReplicaKey, proxy: str) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(after_s, self._over, key, proxy)

    def _over(self, key: ReplicaKey, proxy: str) -> None:
        taken = self._lines[key].taken
        self.came(key, proxy)
        self.look(key, taken)
        self._changed()
