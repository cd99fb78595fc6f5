"""One connection to a node or engine: one question at a time, and what comes goes to its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Protocol, cast

from pair.errors import BookkeepingError
from pair.relay.sockets import WRITE_HIGH_BYTES, end_sending, tune, unread_bytes
from pair.relay.upstream_answer import UpstreamAnswer

# Of a large body, given to the transport at once: what does not leave now may be copied there.
SLICE_BYTES = 256 * 1024


class Shelf(Protocol):
    """Where a connection belongs while nobody uses it: its pool.

    Attributes:
        name: of the upstream, for messages.
    """

    name: str
    head_limit_bytes: int
    last_byte_at: float | None

    def keep(self, connection: UpstreamConnection) -> bool:
        """Take it back; False if there is no room."""

    def drop(self, connection: UpstreamConnection) -> None:
        """It has ended; does nothing if it was not there."""


class UpstreamConnection(asyncio.Protocol):
    """Made by its pool.

    Attributes:
        reused: it has answered before.
        idle_since: loop time at which its last answer was released.
    """

    _transport: asyncio.Transport

    def __init__(self, shelf: Shelf) -> None:
        self.reused = False
        self.idle_since = 0.0
        self._shelf = shelf
        self._loop = asyncio.get_running_loop()
        self._answer: UpstreamAnswer | None = None
        self._unsent: Iterator[bytes | memoryview] | None = None
        self._sent_whole = True
        self._write_paused = False
        self._read_paused = False
        self._closed_by_upstream = False

    @property
    def usable(self) -> bool:
        """It can be asked, as far as is known here."""
        return self._answer is None and not self._transport.is_closing()

    def ask(self, head: bytes, body: Sequence[bytes], *, switches: bool = False) -> UpstreamAnswer:
        """Send a request; a large body goes piece by piece as the upstream takes it. `switches`:
        it asks for another protocol.
        """
        if self._answer is not None:
            raise BookkeepingError(
                "a connection was asked a second time before its answer was released"
            )
        shelf = self._shelf
        answer = self._answer = UpstreamAnswer(
            self,
            name=shelf.name,
            reused=self.reused,
            head_limit_bytes=shelf.head_limit_bytes,
            bodyless=head.startswith(b"HEAD "),
            switches=switches,
        )
        if self._transport.is_closing():
            answer.ended(clean=False, how="had closed the connection")
        elif sum(map(len, body)) <= WRITE_HIGH_BYTES:
            self._transport.write(b"".join((head, *body)))
        else:
            self._transport.write(head)
            # The caller may empty its list while an early answer passes.
            self._unsent = slices(tuple(body))
            self._sent_whole = False
            self._send_on()
        return answer

    def _send_on(self) -> None:
        """The next pieces of the request's body, until the transport has enough for now."""
        while self._unsent is not None and not self._write_paused:
            if self._transport.is_closing():  # a write has failed
                return
            piece = next(self._unsent, None)
            if piece is None:
                self._unsent = None
                self._sent_whole = True
            else:
                self._transport.write(piece)

    # --- what an answer asks for (its `Line`) ----------------------------------------------------

    def throttle(self, paused: bool) -> None:
        """Take no more from the upstream for now, or again."""
        if paused != self._read_paused and not self._transport.is_closing():
            self._read_paused = paused
            if paused:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def give_back(self, *, reusable: bool) -> None:
        """The question is over.

        With a part of it unsent, the connection is not good for another one.
        """
        self._answer = None
        transport = self._transport
        self._unsent = None
        sent_whole = self._sent_whole and transport.get_write_buffer_size() == 0
        if reusable and sent_whole and not transport.is_closing():
            self.throttle(False)
            self.reused = True
            self.idle_since = self._loop.time()
            if self._shelf.keep(self):
                return
        transport.abort()

    def abort(self) -> None:
        """Close it now."""
        self._transport.abort()

    def send(self, piece: bytes) -> None:
        """After a switch: to the upstream, now; into nothing once it has left."""
        if not self._transport.is_closing():
            self._transport.write(piece)

    def end_sending(self) -> None:
        """After a switch: the upstream gets no more, but may still send."""
        end_sending(self._transport)

    def close(self) -> None:
        """Close it once all that was written has left."""
        self._answer = None
        self._transport.close()

    # --- what the transport calls ----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It stands."""
        self._transport = cast("asyncio.Transport", transport)
        tune(self._transport)

    def data_received(self, data: bytes) -> None:
        """Bytes of the answer; anything unasked means that the upstream is done with this line."""
        answer = self._answer
        if answer is None:
            self._transport.abort()
            return
        self._shelf.last_byte_at = self._loop.time()
        answer.feed(data)
        if self._unsent is not None and answer.head is not None and answer.head.status >= 400:
            self._unsent = None  # refused early: nobody would read the rest

    def eof_received(self) -> bool | None:
        """The upstream closes in order; after a switch it may still listen."""
        self._closed_by_upstream = True
        if self._answer is not None and self._answer.switched:
            self._answer.ended(clean=True, how="")
            return True
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        """However it ended."""
        self._shelf.drop(self)
        if self._answer is not None and exc is not None and not self._answer.whole:
            unread = unread_bytes(self._transport, self._shelf.head_limit_bytes)
            if unread:
                self.data_received(unread)
        if self._answer is not None:
            self._answer.ended(
                clean=self._closed_by_upstream and exc is None,
                how="closed the connection" if exc is None else "reset the connection",
            )

    def pause_writing(self) -> None:
        """The upstream does not take what it gets."""
        self._write_paused = True
        if self._answer is not None:
            self._answer.pause_sending(True)

    def resume_writing(self) -> None:
        """It does again."""
        self._write_paused = False
        self._send_on()
        if self._answer is not None:
            self._answer.pause_sending(False)


def slices(body: Sequence[bytes]) -> Iterator[bytes | memoryview]:
    """The body's pieces, none above `SLICE_BYTES`, without copying any."""
    for piece in body:
        if len(piece) <= SLICE_BYTES:
            yield piece
        else:
            view = memoryview(piece)
            for start in range(0, len(piece), SLICE_BYTES):
                yield view[start : start + SLICE_BYTES]
