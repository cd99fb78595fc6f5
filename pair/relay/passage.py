"""One answer on its way from an upstream to a client: the held head, framing, back-pressure."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Protocol

from pair.errors import NodeFault
from pair.relay.exchange import Exchange
from pair.relay.heads import SWITCHING, AnswerHead, Header
from pair.relay.tunnel import tunnel
from pair.relay.upstream_answer import UpstreamAnswer

# Of an event stream that says nothing, kept back before its head goes out all the same.
HELD_BYTES = 64 * 1024


class Tap(Protocol):
    """Who wants to know what passes.

    Called from the transport's callbacks: must be quick and must not raise.
    """

    def first_content(self) -> Sequence[Header]:
        """The first content byte is here; returns headers to add.

        Called once, just before the head goes out.
        """

    def body(self, piece: bytes) -> None:
        """This piece has been relayed."""


async def carry(
    exchange: Exchange,
    upstream: UpstreamAnswer,
    head: AnswerHead,
    tap: Tap,
    *,
    at_once: bool = False,
) -> None:
    """Relay the answer that `UpstreamPool.ask` began; returns when all is handed to the client.

    The head is held until the first content byte, so that `exchange.begun` says on which side of
    the commit point a failure fell: comment and blank lines at the start of an event stream are
    not content, a completed empty body is. The upstream is released at the end, aborted on any
    error, cancellation included; the exchange is left to the caller then. A 101 is content, and
    what follows it is a tunnel (`tunnel.py`).

    Args:
        at_once: the head of an event stream is content, too, and so are its comments: its first
            event may not be due for hours, and no work is lost where it breaks off.

    Raises:
        LostUpstream: ended before it was whole.
        GarbledAnswer: its framing is broken.
    """
    if head.status == SWITCHING:
        await tunnel(exchange, upstream, head, tap.first_content())
        return
    passage = _Passage(exchange, upstream, head, tap)
    try:
        if at_once:
            passage.open_stream()
        upstream.attach(passage)
        if not passage.over:
            exchange.feed_from(upstream)
            await passage.end()
        if passage.fault is not None:
            raise passage.fault
    except BaseException:
        upstream.abort()
        raise
    finally:
        exchange.feed_from(None)
    upstream.release()


class _Passage:
    """The sink of one answer.

    Attributes:
        over: it is whole, or `fault` says why it never will be.
    """

    def __init__(
        self, exchange: Exchange, upstream: UpstreamAnswer, head: AnswerHead, tap: Tap
    ) -> None:
        self._exchange = exchange
        self._upstream = upstream
        self._head = head
        self._tap = tap
        self._begun = False
        self._silence = LeadingSilence() if _is_event_stream(head) else None
        self.over = False
        self.fault: NodeFault | None = None
        self._ended: asyncio.Future[None] | None = None

    def end(self) -> asyncio.Future[None]:
        """Done when it is over."""
        self._ended = asyncio.get_running_loop().create_future()
        return self._ended

    def open_stream(self) -> None:
        """Let the head go without any content, if this is an event stream."""
        if self._silence is not None:
            self._silence = None
            self._begin()
            self._exchange.send(b"")

    def take(self, piece: bytes, *, whole: bool) -> None:
        """What came in one read."""
        exchange = self._exchange
        if not self._begun:
            if self._silence is not None:
                if self._silence.goes_on(piece) and not whole:
                    return
                piece = self._silence.held
                self._silence = None
            self._begin()
        if whole:
            exchange.finish(piece, self._upstream.trailers)
        else:
            exchange.send(piece)
        if piece:
            self._tap.body(piece)
        if whole:
            self._tell()

    def _begin(self) -> None:
        self._begun = True
        self._exchange.begin(self._head, self._tap.first_content())

    def lost(self, fault: NodeFault) -> None:
        """No more will come."""
        self.fault = fault
        self._tell()

    def _tell(self) -> None:
        self.over = True
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)


class LeadingSilence:
    """The comment and blank lines at the start of an event stream, wherever its pieces are cut."""

    _WHOLE_LINES = re.compile(rb"(?:[\r\n]|:[^\r\n]*[\r\n])*")
    _LINE_END = re.compile(rb"[\r\n]")

    def __init__(self) -> None:
        self._held = bytearray()
        self._in_comment = False

    @property
    def held(self) -> bytes:
        """All that has come."""
        return bytes(self._held)

    def goes_on(self, piece: bytes) -> bool:
        """Whether there is no content up to here; beyond `HELD_BYTES` all is content."""
        self._held += piece
        at = 0
        if self._in_comment:
            line_end = self._LINE_END.search(piece)
            at = len(piece) if line_end is None else line_end.start()
            self._in_comment = line_end is None
        silence = self._WHOLE_LINES.match(piece, at)
        at = at if silence is None else silence.end()
        if piece[at : at + 1] == b":":  # a comment whose end has not come yet
            self._in_comment = True
            at = len(piece)
        return at == len(piece) and len(self._held) <= HELD_BYTES


def _is_event_stream(head: AnswerHead) -> bool:
    """One that can be read: in a compressed one there is nothing to tell silence by."""
    kind = head.first(b"content-type") or b""
    return kind.lower().startswith(b"text/event-stream") and not head.packed
