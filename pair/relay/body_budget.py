"""Bytes of request bodies that all clients together may have in memory; uploads wait their turn."""

from __future__ import annotations

import asyncio
from collections import deque


class BodyBudget:
    """A fixed number of bytes.

    Each body reserves once and whole, so nobody holds some while waiting for more: whoever holds
    some ends without any, and what it gives back lets in the next. No ring of waits can come about
    (I7).
    """

    def __init__(self, total_bytes: int) -> None:
        self._total_bytes = total_bytes
        self._free_bytes = total_bytes
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def free_bytes(self) -> int:
        """What nobody holds."""
        return self._free_bytes

    @property
    def contended(self) -> bool:
        """Somebody waits for some."""
        return any(not turn.cancelled() for _, turn in self._waiting)

    async def reserve(self, amount_bytes: int) -> int:
        """Wait, first come first served, until that many are free, and take them.

        Returns what was taken and is to be given back: a body above the total is let in when it is
        alone.
        """
        amount_bytes = min(amount_bytes, self._total_bytes)
        if not self._waiting and amount_bytes <= self._free_bytes:
            self._free_bytes -= amount_bytes
            return amount_bytes
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((amount_bytes, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._let_in()
            else:  # its turn had come, but it was cancelled before it could run
                self.give_back(amount_bytes)
            raise
        return amount_bytes

    def give_back(self, amount_bytes: int) -> None:
        """What `reserve` returned, or a part of it that turned out not to be needed."""
        self._free_bytes += amount_bytes
        self._let_in()

    def _let_in(self) -> None:
        while self._waiting:
            amount_bytes, turn = self._waiting[0]
            if not turn.cancelled():
                if amount_bytes > self._free_bytes:
                    return
                self._free_bytes -= amount_bytes
                turn.set_result(None)
            self._waiting.popleft()
