"""The body of one request on its way into memory: wanted, whole, bounded.

Separate from the exchange because it is the other direction: the connection puts pieces in, the
handler takes all out. Until somebody wants it, no more than `READ_AHEAD_BYTES` are taken from the
client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from pair.errors import RequestFault
from pair.relay.body_budget import BodyBudget

# Of each body, taken unasked and outside the budget: what a read brings along anyway, and enough
# for most requests of agents (24 to 78 kB) to be there before anybody asks.
READ_AHEAD_BYTES = 64 * 1024


class RequestBody:
    """Made with the head of the request.

    Attributes:
        whole: all of it has come.
        full: nobody wants it yet, and no more should be read.
        kept: somebody may still read it; else it comes and goes.
    """

    def __init__(
        self, content_length: int | None, budget: BodyBudget, wanted: Callable[[], None]
    ) -> None:
        """`wanted` is called when pieces should come: somebody reads, or nobody ever will."""
        self.whole = False
        self.full = False
        self._content_length = content_length
        self._budget = budget
        self._wanted = wanted
        self._pieces: list[bytes] = []
        self._held_bytes = 0
        self._limit_bytes = READ_AHEAD_BYTES
        self._reserved_bytes = 0
        self._reserved_at = 0.0
        self._large: bytearray | None = None
        self._taken: list[bytes] = []
        self.kept = True
        self._fault: RequestFault | None = None
        self._arrival: asyncio.Future[None] | None = None

    @property
    def being_read(self) -> bool:
        """A reader waits for the client's bytes."""
        return self._arrival is not None

    def in_the_way_s(self, now: float) -> float:
        """For how long it has held room that it has not filled and that others wait for."""
        if self.whole or not self._reserved_bytes or not self._budget.contended:
            return 0.0
        return now - self._reserved_at

    def receive(self, pieces: list[bytes], *, whole: bool) -> None:
        """What the client has sent, and whether this is the end of it."""
        self.whole = whole
        if self.kept and pieces:
            self._held_bytes += sum(map(len, pieces))
            if self._held_bytes > READ_AHEAD_BYTES:
                self._gather(pieces)
            else:
                # Many small chunks come in one read; kept apart they would cost more than what is
                # in them.
                self._pieces += pieces if len(pieces) == 1 else [b"".join(pieces)]
            self.full = self._held_bytes > self._limit_bytes and not whole
        if self.full or whole:
            self._wake()

    def _gather(self, pieces: list[bytes]) -> None:
        """Put a large body together as it comes, so that nobody must join it, which would take its
        size again: what grows here is moved by its pages and not copied.
        """
        if self._large is None:
            self._large = bytearray().join(self._pieces)
            # To whoever reads it, bytes like any other.
            self._pieces = [cast("bytes", self._large)]
        for piece in pieces:
            self._large += piece

    def fail(self, fault: RequestFault) -> None:
        """What the client has sent is no body; the reader is told."""
        self._fault = fault
        self._wake()

    def discard(self) -> None:
        """Nobody will read it: let the rest come and go."""
        self.kept = False
        self._pieces, self._large = [], None
        if self.full:
            self.full = False
            self._wanted()

    def let_go(self) -> None:
        """Whoever has read it needs it no more: memory and share of the budget are free.

        An answer may take minutes.
        """
        self._taken.clear()
        if self._reserved_bytes:
            self._budget.give_back(self._reserved_bytes)
            self._reserved_bytes = 0

    def close(self) -> None:
        """The exchange is over."""
        self.let_go()
        if not self.whole:
            self.discard()

    async def read(self, limit_bytes: int) -> list[bytes]:
        """See `Exchange.read_body`."""
        expected_bytes = self._content_length or 0
        if expected_bytes <= limit_bytes and not self.whole:
            await self._take_in(limit_bytes)
        if self._fault is not None:
            raise self._fault
        if max(expected_bytes, self._held_bytes) > limit_bytes:
            raise RequestFault(
                413,
                "body_too_large",
                f"The request body is above the limit of {limit_bytes} bytes.",
            )
        self._taken, self._pieces, self._large = self._pieces, [], None
        return self._taken

    async def _take_in(self, limit_bytes: int) -> None:
        """Until it is whole, broken, or (chunked) too large.

        What comes unasked is not charged: it has come already.
        """
        if self._content_length is None and not self.full:
            self._limit_bytes = min(READ_AHEAD_BYTES, limit_bytes)
            self._wanted()
            await self._arrive()
            if self.whole or self._fault is not None or self._held_bytes > limit_bytes:
                return
        # The length of a chunked body shows at its end only, so it reserves the most that it may
        # become.
        reserve_bytes = limit_bytes if self._content_length is None else self._content_length
        if reserve_bytes > READ_AHEAD_BYTES:
            self._reserved_bytes = await self._budget.reserve(reserve_bytes)
            self._reserved_at = asyncio.get_running_loop().time()
        self._limit_bytes = limit_bytes
        self.full = False
        self._wanted()
        await self._arrive()
        surplus_bytes = self._reserved_bytes - self._held_bytes
        if surplus_bytes > 0:
            self._reserved_bytes -= surplus_bytes
            self._budget.give_back(surplus_bytes)

    async def _arrive(self) -> None:
        while not (self.whole or self.full or self._fault is not None):
            self._arrival = asyncio.get_running_loop().create_future()
            try:
                await self._arrival
            finally:
                self._arrival = None

    def _wake(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)
