"""Time limits without a timer per request: everything with a limit is looked at about once a second."""

from __future__ import annotations

from typing import Protocol


class Swept(Protocol):
    """Something with time limits of its own."""

    def sweep(self, now: float) -> None:
        """Check them; `now` is loop time."""


class Sweep:
    """Runs one timer while there is anything to look at."""

    def add(self, swept: Swept) -> None:
        """Look at it from now on; must be called under a running loop."""
        raise NotImplementedError

    def discard(self, swept: Swept) -> None:
        """Do not look at it any more."""
        raise NotImplementedError
