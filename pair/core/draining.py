"""Slots whose calls we have left, and on which the engine may still compute.

A client that hangs up ends our call at once, but not always the engine's work: Ollama and LM Studio
read a prompt to its end before they look who listens (ollama/ollama#11889; LM Studio's log says so
itself), llama.cpp looks once a second. Until the engine is known to be done, or a grace has passed
where it cannot tell, such a slot is not free: the next call would queue behind a ghost.

One object a replica, held by the replica itself; both the proxy and a node count with it.
"""

from __future__ import annotations

import math
from bisect import bisect_left


class Draining:
    """When each of these calls was left, oldest first; bounded by the slots that they held.

    Attributes:
        counts: the engine is one that tells how many requests it works on. Not each of its reports
            does: llama.cpp is asked for that now and then only.
        counted_at: when the engine was last asked for a count and told one; a report that nobody
            asked for may be of any time before.
    """

    __slots__ = ("_left_at", "counted_at", "counts")

    def __init__(self) -> None:
        self._left_at: list[float] = []
        self.counts = False
        self.counted_at = -math.inf

    def __len__(self) -> int:
        return len(self._left_at)

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
        self.counts = True
        self.counted_at = max(self.counted_at, asked_at)
        left_before = bisect_left(self._left_at, asked_at)
        left_since = len(self._left_at) - left_before
        done = left_before - max(0, busy - left_since)
        if done > 0:
            del self._left_at[:done]

    def clear(self) -> None:
        """Whatever computed there is of no account any more."""
        self._left_at.clear()

    def expires_at(self, grace_s: float) -> float | None:
        """When the oldest is over though the engine has not told: a grace after it was left, or
        after the engine's last word. None if nothing drains.
        """
        return max(self._left_at[0], self.counted_at) + grace_s if self._left_at else None

    def expire(self, now: float, grace_s: float) -> None:
        """Believe the clock, where the engine does not tell (any more)."""
        while (at := self.expires_at(grace_s)) is not None and at <= now:
            del self._left_at[0]
