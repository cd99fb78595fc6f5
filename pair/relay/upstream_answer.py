"""One question to an upstream and its answer: parsing it, its head awaited, its body passed on.

Made anew for each question, so that nothing of one answer can reach the next, and whoever holds on
to an old one holds nothing. The body goes from the transport's callback straight to a sink,
without waking a task for each piece.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from pair.errors import GarbledAnswer, LostUpstream, NodeFault
from pair.relay.heads import SWITCHING, AnswerHead, Header, first_values, length_of

# Of a body, taken while nobody has said where it goes; beyond it the upstream is paused.
READ_AHEAD_BYTES = 64 * 1024


class Sink(Protocol):
    """Where the body of an answer goes.

    Called from the transport's callbacks: must be quick and must not raise.
    """

    def take(self, piece: bytes, *, whole: bool) -> None:
        """What came in one read, and whether it was the last (then the piece may be empty)."""

    def lost(self, fault: NodeFault) -> None:
        """No more will come."""


class Line(Protocol):
    """What an answer needs of the connection that it comes by."""

    def throttle(self, paused: bool) -> None:
        """Take no more for now, or again."""

    def give_back(self, *, reusable: bool) -> None:
        """The question is over; keep the connection or close it."""

    def send(self, piece: bytes) -> None:
        """After a switch: to the upstream, now."""

    def end_sending(self) -> None:
        """After a switch: the upstream gets no more, but may still send."""

    def close(self) -> None:
        """Close it once all that was written has left."""


class Pausable(Protocol):
    """What sends through a switched connection."""

    def throttle(self, paused: bool) -> None:
        """No more pieces for now, or again."""


class UpstreamAnswer:
    """Comes from `UpstreamPool.ask`; ends by `release` or `abort`, after which it is of no use.

    Attributes:
        head: None until it has come.
        whole: all of it has come.
        trailers: what followed a chunked body.
        switched: its head was a 101 that was asked for; what follows is no HTTP.
    """

    head: AnswerHead | None
    whole: bool
    trailers: list[Header]
    switched: bool

    def __init__(
        self,
        line: Line,
        *,
        name: str,
        reused: bool,
        head_limit_bytes: int,
        bodyless: bool,
        switches: bool = False,
    ) -> None:
        """`name`: of the upstream, for messages; `bodyless`: it is the answer to a HEAD;
        `switches`: to a request for another protocol.
        """
        self.head = None
        self.switched = False
        self._switches = switches
        self._sender: Pausable | None = None
        self.whole = False
        self.trailers = []
        self._line: Line | None = line
        self._name = name
        self._reused = reused
        self._head_limit_bytes = head_limit_bytes
        self._bodyless = bodyless
        # A fresh one for each answer (0.7 us): llhttp cannot be told that one has no body.
        self._parser = HttpResponseParser(self)
        self._reason = b""
        self._headers: list[Header] = []
        self._answered = False
        self._surplus = False
        # Without a piece of a body in them: heads, or what surrounds chunks.
        self._fed_bytes = 0
        self._pieces: list[bytes] = []
        self._ahead_limit_bytes = READ_AHEAD_BYTES
        self._sink: Sink | None = None
        self._fault: NodeFault | None = None
        self._news: asyncio.Future[None] | None = None

    # --- what its user calls ---------------------------------------------------------------------

    async def wait_for_head(self) -> AnswerHead:
        """The head of the final answer; 1xx are skipped.

        Raises:
            LostUpstream: closed or reset before a head.
            GarbledAnswer: not HTTP, or a head above the limit.
        """
        while self.head is None:
            await self._more()
        return self.head

    async def read_all(self, limit_bytes: int) -> bytes:
        """The body, or its first `limit_bytes`, to decide by; what was read stays for `carry`.

        Raises:
            LostUpstream: ended before it was whole.
            GarbledAnswer: its framing is broken.
        """
        self._ahead_limit_bytes = max(limit_bytes, READ_AHEAD_BYTES)
        self.throttle(False)
        while not self.whole and sum(map(len, self._pieces)) < limit_bytes:
            await self._more()
        return b"".join(self._pieces)[:limit_bytes]

    def attach(self, sink: Sink) -> None:
        """Send the body there: what has come already now, the rest as it comes."""
        self._sink = sink
        self.throttle(False)
        self._deliver()
        if self._fault is not None:
            sink.lost(self._fault)

    def throttle(self, paused: bool) -> None:
        """Take no more of it for now, or again."""
        if self._line is not None:
            self._line.throttle(paused)

    def release(self) -> None:
        """Done with it: its connection is kept if the answer is whole and both keep it."""
        head = self.head
        self._end(
            reusable=self.whole
            and not self._surplus
            and not self._switches
            and head is not None
            and head.keep_alive
        )

    def abort(self) -> None:
        """Close its connection now, which stops the engine."""
        self._end(reusable=False)

    # After a switch

    def send_from(self, sender: Pausable) -> None:
        """This is who sends, to be paused while the upstream does not take it."""
        self._sender = sender

    def send(self, piece: bytes) -> None:
        """To the upstream, as it is."""
        if self._line is not None:
            self._line.send(piece)

    def end_sending(self) -> None:
        """The upstream gets no more, but may still send."""
        if self._line is not None:
            self._line.end_sending()

    def close(self) -> None:
        """Done with it, once all that was sent has left."""
        line, self._line = self._line, None
        if line is not None:
            self._sink = self._sender = None
            line.close()

    def _end(self, *, reusable: bool) -> None:
        line, self._line = self._line, None
        if line is not None:
            # The parser's callbacks are ours: without this, each answer would be a cycle for the
            # collector.
            del self._parser
            self._sink = self._sender = None
            line.give_back(reusable=reusable)

    # --- what its connection calls ---------------------------------------------------------------

    def feed(self, received: bytes) -> None:
        """Bytes of the answer."""
        if self._fault is not None:
            return
        self._answered = True
        if self.head is None:
            # A head that ends beyond the limit, in one read with its beginning, counts as well.
            room = self._head_limit_bytes - self._fed_bytes
            if len(received) > room:
                self._parse(received[:room])
                received = received[room:]
                if self.head is None:
                    self._too_much()
        if self._fault is None:
            self._parse(received)
            if self._fed_bytes > self._head_limit_bytes and not self.whole:
                self._too_much()
        self._deliver()

    def pause_sending(self, paused: bool) -> None:
        """The upstream takes no more of what is sent, or takes it again."""
        if self._sender is not None:
            self._sender.throttle(paused)

    def ended(self, *, clean: bool, how: str) -> None:
        """Its connection has; `clean`: closed in order, which may be the end of the body."""
        head = self.head
        if clean and head is not None and head.content_length is None and not head.chunked:
            self.whole = True
            self._deliver()
        elif not self.whole:
            when = "in the middle of its answer" if self._answered else "before it answered"
            self._fail(
                LostUpstream(
                    f"{self._name} {how} {when}", reused=self._reused, answered=self._answered
                )
            )

    def _parse(self, received: bytes) -> None:
        if self.switched:
            self._pieces.append(received)
            return
        self._fed_bytes += len(received)
        try:
            self._parser.feed_data(received)
        except HttpParserUpgrade as end:
            self._turned(received[end.args[0] :])
        except HttpParserError as error:
            if self.whole:
                self._surplus = True
            else:
                self._garbled(str(error))

    def _turned(self, rest: bytes) -> None:
        """The head was one after which no HTTP follows, but this."""
        if not self.switched:
            self._garbled("it switched to another protocol unasked")
        elif rest:
            self._pieces.append(rest)

    def _too_much(self) -> None:
        limit_bytes = self._head_limit_bytes
        self._garbled(f"more than {limit_bytes} bytes of head, or around its chunks")

    # --- what llhttp calls -----------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Of this answer, or of something that nobody asked for."""
        self._surplus = self.whole

    def on_status(self, piece: bytes) -> None:
        """A piece of the reason phrase."""
        self._reason += piece

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer."""
        if self.head is None:
            self._headers.append((name, value))
        elif not self._surplus:
            self.trailers.append((name, value))

    def on_headers_complete(self) -> None:
        """A head is whole; only now does the parser know these."""
        if self.head is not None or self._fault is not None:
            return
        parser = self._parser
        status = parser.get_status_code()
        self.switched = status == SWITCHING and self._switches and parser.should_upgrade()
        if 100 <= status < 200 and not self.switched:
            return
        named = first_values(self._headers)
        transfer = named.get(b"transfer-encoding")
        try:
            content_length = length_of(named)
        except ValueError as error:
            self._garbled(str(error))
            return
        if status < 100 or (transfer is not None and transfer.rstrip().lower() != b"chunked"):
            self._garbled(f"status {status}, transfer encoding {transfer!r}")
            return
        self._fed_bytes = 0
        self.whole = self._bodyless
        self.head = AnswerHead(
            status=status,
            reason=self._reason,
            minor_version=int(parser.get_http_version()[-1]),
            headers=self._headers,
            named=named,
            content_length=None if self.switched else content_length,
            chunked=transfer is not None and not self.switched,
            keep_alive=parser.should_keep_alive(),
        )

    def on_body(self, piece: bytes) -> None:
        """A piece of the body, or of what nobody asked for, which goes nowhere."""
        if self.head is None:  # llhttp lets 104 to 199 have one
            self._garbled("a body before its answer")
        elif self._bodyless or self._surplus:
            self._surplus = True
        else:
            self._fed_bytes = 0
            self._pieces.append(piece)

    def on_message_complete(self) -> None:
        """Of the final answer, or of a 1xx before it."""
        if self.head is not None:
            self.whole = not self.switched
        else:
            self._headers = []
            self._reason = b""

    # --- onward ----------------------------------------------------------------------------------

    def _deliver(self) -> None:
        """Hand on what has come, once somebody has said where."""
        sink = self._sink
        pieces = self._pieces
        if sink is None:
            if pieces and sum(map(len, pieces)) > self._ahead_limit_bytes:
                self.throttle(True)
            self._tell()
        elif pieces or self.whole:
            self._pieces = []
            if self.whole:
                self._sink = None
            sink.take(pieces[0] if len(pieces) == 1 else b"".join(pieces), whole=self.whole)

    def _garbled(self, why: str) -> None:
        self._fail(GarbledAnswer(f"{self._name} answered with what is not HTTP/1: {why}"))

    def _fail(self, fault: NodeFault) -> None:
        if self._fault is None and not self.whole:
            self._fault = fault
            self._tell()
            if self._sink is not None:
                self._sink.lost(fault)

    def _tell(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def _more(self) -> asyncio.Future[None]:
        """Done when there is anything new; raises what has gone wrong."""
        if self._fault is not None:
            raise self._fault
        self._news = asyncio.get_running_loop().create_future()
        return self._news
