"""One client's connection: request after request, each with a task that serves it, and its end.

It keeps reading while an answer streams, since that is how a hang-up is seen: what comes then is
held up to a bound and thrown away beyond it, and the connection ends after that answer. Requests
are cut by `RequestReader`, answers framed by `Exchange`; this is the transport between them.
"""

from __future__ import annotations

import asyncio
from enum import Enum, auto
from typing import cast

from pair.errors import RequestFault
from pair.relay.addresses import TcpAddress
from pair.relay.exchange import Exchange, Receiver
from pair.relay.frontage import Frontage
from pair.relay.heads import REASONS, RETRY_AFTER_S, RequestHead
from pair.relay.intake import Intake
from pair.relay.request_body import RequestBody
from pair.relay.request_reader import RequestReader
from pair.relay.sockets import end_sending, has_left, reset, tune

# Pipelined requests, kept unparsed while an earlier one is answered: a few with the long bodies of
# agents, or hundreds of small ones.
HELD_BYTES = 256 * 1024
# How long a client that still sends may take to read our last answer: closing a socket with
# something unread in it resets the connection, and the answer with it.
LINGER_S = 2.0


class _Stage(Enum):
    """What the connection is doing."""

    READING = auto()  # for the head of the next request
    SERVING = auto()  # a head is whole, its answer is not
    RESTING = auto()  # answered; a short rest of that request's body is still to come
    LINGERING = auto()  # our last word is said; waiting for the client to close
    CLOSED = auto()  # or closing, once all that was written has left


class ClientConnection(asyncio.Protocol):
    """Made by the front for each accepted connection."""

    _transport: asyncio.Transport

    def __init__(self, front: Frontage) -> None:
        self._front = front
        self._loop = asyncio.get_running_loop()
        self._reader = RequestReader(front.limits.head_limit_bytes)
        self._stage = _Stage.READING
        self._client = ""
        self._exchange: Exchange | None = None
        self._task: asyncio.Task[None] | None = None
        self._receiver: Receiver | None = None
        self._continue_due = False
        self._broken = False
        self._held = b""
        self._held_from = 0
        self._read_paused = False
        self._write_paused = False
        # For the sweep: since when in this stage, when last heard of, since when nobody listens.
        self._since = self._heard_at = self._paused_at = self._loop.time()
        self._intake = Intake(self._since)

    # --- what the transport calls ----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is here; one too many is told so."""
        front = self._front
        self._transport = cast("asyncio.Transport", transport)
        tune(self._transport)
        name = transport.get_extra_info("peername")
        self._client = str(TcpAddress(*name[:2])) if isinstance(name, tuple) else "local"
        front.joined(self)
        if front.draining:
            self._close()
        elif len(front.connections) > front.limits.connections_limit:
            self._say(503, "Too many connections.")

    def data_received(self, data: bytes) -> None:
        """Bytes of this request or, while it is answered, of the next ones."""
        self._heard_at = self._loop.time()
        stage = self._stage
        if stage is _Stage.READING:
            if self._write_paused or self._held:
                # A client that takes no answers may not have more of them.
                self._hold(data, 0)
            else:
                self._read(data, 0)
        elif self._receiver is not None:
            self._receiver.received(data)
        elif (stage is _Stage.SERVING or stage is _Stage.RESTING) and not self._broken:
            if self._reader.whole:
                self._hold(data, 0)
            else:
                self._read(data, 0)

    def eof_received(self) -> bool | None:
        """The client has said its last; while it is served, that is a hang-up.

        A client that closes and one that only stops sending look the same from here until
        something is written, which may take minutes; the former is what real ones do.
        """
        if self._stage is _Stage.SERVING:
            if self._receiver is not None:
                self._receiver.ended()
                return True
            self._leave()
            self._transport.abort()
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        """However it ended."""
        if self._stage is _Stage.SERVING:
            self._leave()
        self._stage = _Stage.CLOSED
        self._held = b""
        self._front.left(self)

    def pause_writing(self) -> None:
        """The client does not take what it gets."""
        self._write_paused = True
        if self._exchange is not None:
            self._exchange.throttle(True)

    def resume_writing(self) -> None:
        """It does again."""
        self._write_paused = False
        if self._exchange is not None:
            self._exchange.throttle(False)
        if self._stage is _Stage.READING:
            self._read_held()

    # --- reading ---------------------------------------------------------------------------------

    def _read(self, received: bytes, start: int) -> None:
        """Feed the reader; what is left when a request is whole belongs to the next one."""
        reader = self._reader
        started = reader.started
        while start < len(received) and not reader.whole:
            try:
                start = reader.feed(received, start)
            except RequestFault as fault:
                self._refuse(fault)
                return
            if not started and reader.started:
                started = True
                self._since = self._heard_at
            if self._exchange is not None:
                self._exchange.body.receive(reader.take_pieces(), whole=reader.whole)
            elif reader.head is not None:
                self._start(reader.head)
        if start < len(received):
            self._hold(received, start)
        if self._exchange is not None and self._exchange.body.full:
            self._pause_reading()
        if self._stage is _Stage.RESTING and reader.whole:
            self._next()

    def _hold(self, received: bytes, start: int) -> None:
        if self._held:
            self._held, self._held_from = self._held[self._held_from :] + received[start:], 0
        else:
            self._held, self._held_from = received, start
        if len(self._held) - self._held_from <= HELD_BYTES:
            return
        exchange = self._exchange
        if self._stage is _Stage.SERVING and exchange is not None and not exchange.head.protocol:
            self._held = b""
            self._ignore_the_rest(exchange)
        else:
            self._pause_reading()

    def _read_held(self) -> None:
        if self._held and not self._write_paused:
            received, start = self._held, self._held_from
            self._held = b""
            self._heard_at = self._loop.time()
            self._read(received, start)

    def _pause_reading(self) -> None:
        if not self._read_paused and not self._transport.is_closing():
            self._read_paused = True
            self._paused_at = self._loop.time()
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._read_paused and not self._transport.is_closing():
            self._read_paused = False
            self._transport.resume_reading()

    def _refuse(self, fault: RequestFault) -> None:
        """These bytes are no request, or not the body of the one that is being served."""
        if self._exchange is None:
            self._say(fault.status, str(fault))
        else:
            # Nothing can be found in what comes from here on.
            self._ignore_the_rest(self._exchange)
            self._exchange.body.fail(fault)

    def _ignore_the_rest(self, exchange: Exchange) -> None:
        """This exchange is the last; what comes is still read, to see a hang-up."""
        self._broken = True
        exchange.close_after()

    # --- serving ---------------------------------------------------------------------------------

    def _start(self, head: RequestHead) -> None:
        """The head is whole: from here on there is an exchange, and a task that serves it."""
        length = None if head.chunked else head.content_length or 0
        body = RequestBody(length, self._front.budget, self._want_body)
        if self._reader.whole:
            body.receive([], whole=True)
        exchange = Exchange(head, body, self, self._client, self._loop.time())
        if self._front.draining:
            exchange.close_after()
        self._exchange = exchange
        self._continue_due = head.expects_continue
        self._stage = _Stage.SERVING
        self._task = self._front.start(exchange)

    def _leave(self) -> None:
        """The client hung up on the exchange that is being served."""
        self._stage = _Stage.CLOSED
        exchange = self._exchange
        if exchange is not None and not exchange.over:
            exchange.over = True
            exchange.client_left = True
            if self._task is not None:
                self._task.cancel()

    def _want_body(self) -> None:
        """Somebody reads the body, or nobody ever will: it may come."""
        if self._continue_due and self._exchange is not None and self._exchange.body.kept:
            self._continue_due = False
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._heard_at = self._loop.time()
        self._resume_reading()

    # --- what an exchange asks for (its `Wire`) --------------------------------------------------

    def write(self, piece: bytes) -> None:
        """To the client, now; into nothing once the client has left."""
        if self._stage is not _Stage.CLOSED and not self._transport.is_closing():
            self._intake.written_bytes += len(piece)
            self._transport.write(piece)

    def answered(self, *, keep: bool) -> None:
        """The answer is whole; on with the next request, or close."""
        if self._stage is not _Stage.SERVING or self._exchange is None:
            return
        if not keep:
            if self._reader.whole and not self._held and not self._broken:
                self._close()
            else:
                self._linger()
        elif self._reader.whole:
            self._next()
        else:
            self._stage = _Stage.RESTING
            self._exchange.body.discard()

    def cut(self, *, flush: bool) -> None:
        """End the connection in the middle of an answer."""
        if flush:
            self._close()
        else:
            self._stage = _Stage.CLOSED
            reset(self._transport)

    def switch(self, receiver: Receiver) -> None:
        """What the client sends from here on is no HTTP and goes there, what is held first."""
        self._receiver = receiver
        held, self._held = self._held[self._held_from :], b""
        if held:
            receiver.received(held)
        self._resume_reading()

    def pause_client(self, paused: bool) -> None:
        """Take no more from the client for now, or again."""
        if paused:
            self._pause_reading()
        else:
            self._resume_reading()

    def end_sending(self) -> None:
        """The client gets no more; it may still send."""
        end_sending(self._transport)

    # --- from one request to the next, and the end -----------------------------------------------

    def _next(self) -> None:
        """Ready for another request."""
        self._exchange = None
        self._task = None
        self._stage = _Stage.READING
        self._since = self._loop.time()
        self._reader.restart()
        if self._front.draining:
            self._close()
            return
        self._resume_reading()
        self._read_held()

    def _say(self, status: int, sentence: str) -> None:
        """An answer to what is no request, and the last one."""
        text = sentence.encode() + b"\n"
        later = b"Retry-After: %d\r\n" % RETRY_AFTER_S if status == 503 else b""
        self.write(
            b"HTTP/1.1 %d %b\r\nContent-Type: text/plain; charset=utf-8\r\n%b"
            b"Content-Length: %d\r\nConnection: close\r\n\r\n%b"
            % (status, REASONS[status], later, len(text), text)
        )
        self._linger()

    def _linger(self) -> None:
        """Say that this was our last word, and take what still comes until the client closes."""
        self._stage = _Stage.LINGERING
        self._since = self._loop.time()
        self._held = b""
        if not self._transport.can_write_eof():
            self._close()
            return
        try:
            self._transport.write_eof()
        except OSError:  # asyncio shuts down at once, and the client may have reset it by now
            self._transport.abort()
        else:
            self._resume_reading()

    def _close(self) -> None:
        self._stage = _Stage.CLOSED
        self._transport.close()

    def wind_up(self) -> None:
        """The front drains: end now if nothing is going on, else after the running exchange."""
        if self._exchange is not None:
            self._exchange.close_after()
        elif self._stage is _Stage.READING and not self._reader.started:
            self._close()

    def stop(self) -> None:
        """The front waits no longer: cancel the exchange, and end when it has had its last word."""
        if self._stage is _Stage.SERVING and self._task is not None and not self._task.done():
            self._task.cancel()
        else:
            self._stage = _Stage.CLOSED
            self._transport.abort()

    # --- time limits -----------------------------------------------------------------------------

    def sweep(self, now: float) -> None:
        """Head, idleness, a client that sends no body or takes no answer, the last moments."""
        limits = self._front.limits
        if self._intake.stuck_s(self._transport, now) > limits.write_limit_s:
            self._transport.abort()
            return
        stage = self._stage
        if stage is _Stage.READING:
            if not self._reader.started:
                if now - self._since > limits.idle_client_s:
                    self._close()
            elif now - self._since > limits.head_limit_s:
                self._say(408, "The head of the request took too long.")
        elif stage is _Stage.LINGERING:
            if self._transport.get_write_buffer_size():
                self._since = now
            elif now - self._since > LINGER_S:
                self._transport.abort()
        elif stage is _Stage.SERVING and self._read_paused and self._has_left(now):
            self._leave()
            self._transport.abort()
        elif self._exchange is not None:
            self._sweep_upload(self._exchange, now)

    def _has_left(self, now: float) -> bool:
        """Or speaks through a tunnel to who takes nothing: behind that, no end can be seen."""
        tunnel = self._receiver is not None
        stuck = now - self._paused_at > self._front.limits.write_limit_s
        return (tunnel and stuck) or has_left(self._transport, reset_only=tunnel)

    def _sweep_upload(self, exchange: Exchange, now: float) -> None:
        limits = self._front.limits
        stopped = now - self._heard_at > limits.idle_client_s
        if self._stage is _Stage.RESTING:
            if stopped:
                self._close()
        elif not exchange.body.being_read:
            return
        elif stopped:
            self._refuse(RequestFault(408, "body_timeout", "The request body stopped coming."))
        elif exchange.body.in_the_way_s(now) > limits.upload_limit_s:
            self._refuse(
                RequestFault(
                    408,
                    "body_timeout",
                    "The request body came too slowly while others waited for its room.",
                )
            )
