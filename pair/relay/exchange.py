"""One request of a client and the answer to it: what the handlers of proxy and node are given."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum, auto
from typing import Protocol

from pair.errors import BookkeepingError
from pair.relay.heads import (
    REASONS,
    RETRY_AFTER_S,
    SWITCHING,
    AnswerHead,
    Header,
    RequestHead,
    answer_bytes,
    trailer_bytes,
)
from pair.relay.request_body import RequestBody

# An unread rest of a request that is taken and thrown away so that the connection can be kept; a
# longer one costs more than a new connection.
DISCARDED_REST_BYTES = 64 * 1024


class Wire(Protocol):
    """What an exchange needs of the connection that it came by."""

    def write(self, piece: bytes) -> None:
        """To the client, now; into nothing once the client has left."""

    def answered(self, *, keep: bool) -> None:
        """The answer is whole; keep the connection, or close it once all is sent."""

    def cut(self, *, flush: bool) -> None:
        """End the connection in the middle of an answer, with or without what is still to leave."""

    def switch(self, receiver: Receiver) -> None:
        """What the client sends from here on is no HTTP and goes there, what is held first."""

    def pause_client(self, paused: bool) -> None:
        """Take no more from the client for now, or again."""

    def end_sending(self) -> None:
        """The client gets no more; it may still send."""


class Receiver(Protocol):
    """Where a client's bytes go once it speaks another protocol.

    Called from the transport's callbacks: must be quick and must not raise.
    """

    def received(self, piece: bytes) -> None:
        """What came in one read."""

    def ended(self) -> None:
        """The client has said its last."""


class Source(Protocol):
    """Where the pieces of an answer come from, and can be asked to pause."""

    def throttle(self, paused: bool) -> None:
        """No more pieces for now, or again."""


class _Framing(Enum):
    """How the client finds the end of the body."""

    NONE = auto()  # no body, whatever the head says (HEAD, 204, 304)
    LENGTH = auto()
    CHUNKED = auto()
    CLOSE = auto()


class Exchange:
    """Answered exactly once: whole (`answer`) or in pieces (`begin`, `send`, `finish`).

    When the client hangs up before the answer is whole, the serving task is cancelled with
    `client_left` set. After `finish`, `answer` or `cut` a hang-up is no longer the exchange's
    business.

    Attributes:
        client: who asks, as text for people.
        accepted_at: loop time at which the head was whole.
        begun: something of the answer has been committed to; no other answer is possible.
        ahead: a head of ours has left before anything was known of the answer (`go_ahead`).
        over: the answer is whole, or cut.
        client_left: the client hung up first.
        own: headers of ours that every answer carries, whoever it is from.
        stopped: lower-case names of headers that no upstream's answer passes on, because `own` says
            it better.
    """

    __slots__ = (
        "_body_left_bytes",
        "_framing",
        "_head_bytes",
        "_keep",
        "_source",
        "_throttled",
        "_wire",
        "accepted_at",
        "ahead",
        "begun",
        "body",
        "client",
        "client_left",
        "head",
        "over",
        "own",
        "stopped",
    )

    def __init__(
        self, head: RequestHead, body: RequestBody, wire: Wire, client: str, accepted_at: float
    ) -> None:
        self.head = head
        self.body = body
        self.client = client
        self.accepted_at = accepted_at
        self.begun = False
        self.ahead = False
        self.over = False
        self.client_left = False
        self.own: Sequence[Header] = ()
        self.stopped: Collection[bytes] = ()
        self._wire = wire
        self._framing = _Framing.NONE
        self._head_bytes = b""
        self._body_left_bytes = 0
        self._keep = head.keep_alive
        self._source: Source | None = None
        self._throttled = False

    async def read_body(self, limit_bytes: int) -> list[bytes]:
        """The whole body, a large one in one piece; sends `100 Continue` if need be.

        Held against the front's budget of buffered bytes until the exchange is over; when that is
        spent, waits.

        Raises:
            RequestFault: 413 when it is longer than `limit_bytes`, told before reading where the
                length is known; 400 when what comes is no body.
        """
        return await self.body.read(limit_bytes)

    def let_body_go(self) -> None:
        """Nobody will send the body on again; the list that `read_body` returned is emptied."""
        self.body.let_go()

    def answer(self, status: int, headers: Sequence[Header], body: bytes) -> None:
        """A whole answer of our own; length and connection headers are added."""
        if self.ahead:
            raise BookkeepingError("an exchange whose head had left was given another one")
        head = _own_head(status, len(body))
        # An answer that can have no body may not say how long it is (RFC 9110, 8.6).
        length = [] if status == 204 else [(b"Content-Length", b"%d" % len(body))]
        self.begin(head, [*headers, *length])
        self.finish(body)

    def go_ahead(self, headers: Sequence[Header], piece: bytes) -> None:
        """Send a 200 of our own and this piece, so that the client has something to hear.

        No commitment: what comes later may still be one answer or another, as long as its body can
        follow this one. `send` sends more of such pieces; `begin` drops the head that it is given.
        Only for a client that knows chunks.
        """
        if self.begun or self.ahead:
            raise BookkeepingError("a head was sent ahead of an answer that had one")
        self.ahead = True
        self._lay_out(_own_head(200, None), headers)
        self.send(piece)

    @property
    def open_ended(self) -> bool:
        """It has a head and no fixed length: pieces of ours can follow the upstream's."""
        headed = self.begun or self.ahead
        return headed and not self.over and self._framing in {_Framing.CHUNKED, _Framing.CLOSE}

    @property
    def throttled(self) -> bool:
        """The client does not take what it gets, just now."""
        return self._throttled

    def begin(self, head: AnswerHead, add: Sequence[Header] = ()) -> None:
        """Commit to this answer.

        Its head leaves in one write with what `send` or `finish` is called with next.
        """
        if self.begun:
            raise BookkeepingError("an exchange was answered twice")
        self.begun = True
        if not self.ahead:
            self._lay_out(head, add)

    def _lay_out(self, head: AnswerHead, add: Sequence[Header]) -> None:
        """Word the head and choose the framing."""
        keep_length = True
        framing = b""
        if head.status == SWITCHING:
            keep_length = False
            self._framing = _Framing.CLOSE
            self._keep = False
            framing = b"Upgrade: %b\r\n" % (head.first(b"upgrade") or self.head.protocol)
        elif self.head.method == b"HEAD" or head.status in {204, 304}:
            keep_length = head.status != 204
        elif head.content_length is not None:
            self._framing = _Framing.LENGTH
            self._body_left_bytes = head.content_length
        elif self.head.minor_version == 1:
            self._framing = _Framing.CHUNKED
            framing = b"Transfer-Encoding: chunked\r\n"
        else:
            self._framing = _Framing.CLOSE
            self._keep = False
        if self._keep and not self._rest_is_small():
            self._keep = False
        if head.status == SWITCHING:
            framing += b"Connection: Upgrade\r\n"
        elif not self._keep:
            framing += b"Connection: close\r\n"
        elif self.head.minor_version == 0:
            framing += b"Connection: keep-alive\r\n"
        self._head_bytes = answer_bytes(
            head,
            framing=framing,
            keep_length=keep_length,
            drop=self.stopped,
            add=(*add, *self.own) if self.own else add,
        )

    def send(self, piece: bytes) -> None:
        """Write this piece of the body now; `b""` writes the head alone."""
        if self.client_left:
            return
        if framed := self._take_head() + self._framed(piece):
            self._wire.write(framed)

    def finish(self, piece: bytes = b"", trailers: Sequence[Header] = ()) -> None:
        """The answer is whole with this last piece."""
        if self.client_left:
            return
        framed = self._take_head() + self._framed(piece)
        if self._framing is _Framing.CHUNKED:
            framed += b"0\r\n%b\r\n" % trailer_bytes(trailers)
        elif self._body_left_bytes:
            self.cut()
            raise BookkeepingError("an answer was finished before its length")
        if framed:
            self._wire.write(framed)
        self.over = True
        self._wire.answered(keep=self._keep)

    def switch(self, head: AnswerHead, add: Sequence[Header], receiver: Receiver) -> None:
        """Commit to this 101: what `send` is given and what the client sends pass as they are."""
        self.begin(head, add)
        self.send(b"")
        if not self.client_left:
            self._wire.switch(receiver)

    def pause_client(self, paused: bool) -> None:
        """Take no more of what the client sends after a switch for now, or again."""
        self._wire.pause_client(paused)

    def end_sending(self) -> None:
        """After a switch: the client gets no more, but may still send."""
        self._wire.end_sending()

    def cut(self) -> None:
        """End the connection in a way that no client can take for the end of an answer.

        Does nothing when it is over.

        What was sent still gets there, save where the end of the connection would be the end of
        the body.
        """
        if not self.over:
            self.over = True
            headed = self.begun or self.ahead
            self._wire.cut(flush=headed and self._framing is not _Framing.CLOSE)

    def close_after(self) -> None:
        """The connection is not kept beyond this answer, whatever its head has said."""
        self._keep = False

    def feed_from(self, source: Source | None) -> None:
        """This is where the pieces come from, to be paused while the client does not take them."""
        self._source = source
        if source is not None and self._throttled:
            source.throttle(True)

    def throttle(self, paused: bool) -> None:
        """The client's connection has taken in as much as it may, or has room again."""
        self._throttled = paused
        if self._source is not None:
            self._source.throttle(paused)

    def _rest_is_small(self) -> bool:
        """The rest of the request, if any is still to come, will come and is short."""
        if self.body.whole:
            return True
        length = self.head.content_length
        return (
            length is not None and length <= DISCARDED_REST_BYTES and not self.head.expects_continue
        )

    def _take_head(self) -> bytes:
        head, self._head_bytes = self._head_bytes, b""
        return head

    def _framed(self, piece: bytes) -> bytes:
        if self.over or not (self.begun or self.ahead):
            raise BookkeepingError("a piece of an answer was sent outside of it")
        if not piece or self._framing is _Framing.NONE:
            return b""
        if self._framing is _Framing.CHUNKED:
            return b"%x\r\n%b\r\n" % (len(piece), piece)
        if self._framing is _Framing.LENGTH:
            self._body_left_bytes -= len(piece)
            if self._body_left_bytes < 0:
                self.cut()
                raise BookkeepingError("an answer was longer than its length")
        return piece


def _own_head(status: int, content_length: int | None) -> AnswerHead:
    return AnswerHead(
        status=status,
        reason=REASONS.get(status, b""),
        minor_version=1,
        headers=[],
        named={},
        content_length=content_length,
        chunked=content_length is None,
        keep_alive=True,
    )


def plain_answer(exchange: Exchange, status: int, sentence: str) -> None:
    """Answer with one sentence of text, for where no dialect is known."""
    headers = [(b"Content-Type", b"text/plain; charset=utf-8")]
    if status == 503:
        headers.append((b"Retry-After", b"%d" % RETRY_AFTER_S))
    exchange.answer(status, headers, sentence.encode() + b"\n")
