"""Slots whose calls we have left, and on which the engine may still compute.

A client that hangs up ends our call at once, but not always the engine's work: Ollama and LM Studio
read a prompt to its end before they look who listens (ollama/ollama#11889; LM Studio's log says so
itself), llama.cpp looks once a second. Until the engine is known to be done, or a grace has passed
where it cannot tell, such a slot is not free: the next call would queue behind a ghost.

One object a replica, held by the replica itself; both the proxy and a node count with it.
"""

from __future__ import annotations

from bisect import bisect_left


class Draining:
    """When each of these calls was left, oldest first; bounded by the slots that they held."""

    __slots__ = ("_left_at",)

    def __init__(self) -> None:
        self._left_at: list[float] = []

    def __len__(self) -> int:
        return len(self._left_at)

    @property
    def oldest_at(self) -> float | None:
        return self._left_at[0] if self._left_at else None

    @property
    def newest_at(self) -> float | None:
        return self._left_at[-1] if self._left_at else None

    def add(self, now: float) -> None:
        """A call under way was left now; never earlier than the one before."""
        self._left_at.append(now)

    def seen(self, busy: int, asked_at: float) -> None:
        """Believe the engine's own count: of the calls that were left before it was asked, no more
        can be running than it works on beside ours.

        Args:
            busy: what runs or waits there beyond the calls that we have not left.
        """
        left_before = bisect_left(self._left_at, asked_at)
        left_since = len(self._left_at) - left_before
        done = left_before - max(0, busy - left_since)
        if done > 0:
            del self._left_at[:done]

    def clear(self) -> None:
        """Whatever computed there is of no account any more."""
        self._left_at.clear()

    def expire(self, now: float, grace_s: float) -> None:
        """Believe the clock, where the engine cannot tell."""
        while self._left_at and self._left_at[0] + grace_s <= now:
            del self._left_at[0]
