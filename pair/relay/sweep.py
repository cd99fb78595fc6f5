"""Time limits without a timer per request: about once a second, all that has one is looked at."""

from __future__ import annotations

import asyncio
from typing import Protocol

# Limits are seconds and more, so this much late does not matter.
INTERVAL_S = 1.0


class Swept(Protocol):
    """Something with time limits of its own."""

    def sweep(self, now: float) -> None:
        """Check them; `now` is loop time."""


class Sweep:
    """Runs one timer while there is anything to look at."""

    def __init__(self, interval_s: float | None = None) -> None:
        # Looked up when made, not when defined: tests make it shorter.
        self._interval_s = INTERVAL_S if interval_s is None else interval_s
        self._swept: set[Swept] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, swept: Swept) -> None:
        """Look at it from now on; must be called under a running loop."""
        self._swept.add(swept)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._interval_s, self._run)

    def discard(self, swept: Swept) -> None:
        """Do not look at it any more."""
        self._swept.discard(swept)
        if not self._swept and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _run(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._interval_s, self._run)
        now = loop.time()
        for swept in tuple(self._swept):
            swept.sweep(now)
