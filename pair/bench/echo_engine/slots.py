"""Who works and who waits inside the echo engine.

As in llama.cpp: a fixed number of slots, and a first-come first-served queue in front of them that
no client can see into. Kept apart from what is done on a slot, so that "a slot is freed exactly
once, whatever happens" can be read on one page.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from pair.bench.echo_engine.prefix_cache import PrefixCache, Slot


class QueueFull(Exception):
    """All slots are busy and no further request may wait."""


class Slots:
    """The slots of one engine and the queue before them.

    Args:
        count: requests worked on at a time.
        queue_limit: requests that may wait; 0 refuses whatever finds no free slot.
        cache: chooses the slot and remembers its tokens.
        load_changed: called with the numbers of busy slots and of waiting requests on every change.
    """

    def __init__(
        self,
        count: int,
        queue_limit: int,
        cache: PrefixCache,
        load_changed: Callable[[int, int], None],
    ) -> None:
        self.all = tuple(Slot(number) for number in range(count))
        self._busy = 0
        self.cache = cache
        self._queue_limit = queue_limit
        self._load_changed = load_changed
        self._waiting: deque[asyncio.Future[Slot]] = deque()

    async def take(self, model: str, prompt: str) -> Slot:
        """Wait for a slot and hold it until `free`; raises QueueFull at once if it may not wait."""
        if self._busy < len(self.all):
            free = (slot for slot in self.all if not slot.busy)
            slot = self.cache.choose(free, model, prompt)
            slot.busy = True
            self._busy += 1
            self._tell()
            return slot
        if len(self._waiting) >= self._queue_limit:
            raise QueueFull
        turn: asyncio.Future[Slot] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._tell()
        try:
            return await turn
        except asyncio.CancelledError:
            if turn in self._waiting:
                self._waiting.remove(turn)
                self._tell()
            elif not turn.cancelled():
                # The slot was granted in the same turn of the loop in which the client left.
                self.free(turn.result())
            raise

    def free(self, slot: Slot) -> None:
        """Give `slot` back; whoever waits longest has it from this instant on."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.cancelled():
                turn.set_result(slot)
                self._tell()
                return
        slot.busy = False
        self._busy -= 1
        self._tell()

    def _tell(self) -> None:
        self._load_changed(self._busy, len(self._waiting))
