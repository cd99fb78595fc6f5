"""One attempt of a ticket under one lease: ask the node, judge its answer, relay it.

Made anew for each lease, so that nothing of a failed attempt can leak into the next. The first
content byte is the commit point: before it a failure ends the attempt, after it the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn, assert_never

from pair.core.events import Failure, FailureKind, Usage
from pair.errors import GarbledAnswer, LostUpstream, NoSocketsLeft, PairError, UnreachableNode
from pair.proxy.dispatcher import Hold
from pair.proxy.links import Link
from pair.relay.exchange import Exchange
from pair.relay.heads import AnswerHead, Header
from pair.relay.passage import carry
from pair.relay.upstream_answer import UpstreamAnswer
from pair.wire.answer_meter import AnswerMeter
from pair.wire.engine_errors import classify_answer, may_be_failure
from pair.wire.headers import REQUEST_ID

ERROR_BODY_LIMIT_BYTES = 1024 * 1024
"""Read of an error answer to find out what it means, and kept in case it is the best there is; real
ones have under 10 kB."""

_STREAM_TYPES = (b"text/event-stream", b"application/x-ndjson")


class AttemptEnded(PairError):
    """This attempt is over and reported; the core says what comes next."""


class BrokenAnswer(PairError):
    """The answer broke off after its first content byte."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """An engine's answer that counted as a failed attempt, kept for the client in case no better
    one comes.
    """

    head: AnswerHead
    body: bytes


class Attempt:
    """One try. It is the relay's `Tap`: it hears of the first content byte and of each piece.

    Attributes:
        headers: ours, added to whatever answer it gets.
        rejection: the engine's whole answer, where that was the failure.
        streams: the answer is a stream of events, which can end with an error event.
    """

    def __init__(self, exchange: Exchange, hold: Hold, headers: Sequence[Header]) -> None:
        self.headers = headers
        self.rejection: Rejection | None = None
        self.streams = False
        self._exchange = exchange
        self._hold = hold
        self._meter: AnswerMeter | None = None
        self._upstream: UpstreamAnswer | None = None

    async def run(self, link: Link | None, head: bytes, body: Sequence[bytes]) -> None:
        """Ask and relay; returns when the client has the whole answer.

        Raises:
            AttemptEnded: without an answer, and reported.
            BrokenAnswer: after the commit point, and reported.
        """
        try:
            async with asyncio.timeout(None) as scope:
                # The core may take the lease back at any moment (node lost). Expiring the scope is
                # the one public way to end what this task awaits without cancelling the task.
                self._hold.on_abort = lambda: self._stop(scope)
                if link is None:
                    raise UnreachableNode("the node is no longer known")
                await self._ask_and_relay(link, head, body)
        except TimeoutError:
            if self._hold.aborted is None:
                raise
            self._over(self._hold.aborted.detail)
        except (UnreachableNode, NoSocketsLeft, LostUpstream, GarbledAnswer) as fault:
            self._fail(Failure(self._kind(fault), str(fault)))
        finally:
            self._hold.on_abort = None

    async def _ask_and_relay(self, link: Link, head: bytes, body: Sequence[bytes]) -> None:
        upstream, answer = await link.pool.ask(head, body)
        self._upstream = upstream
        if answer.first(REQUEST_ID) is not None:
            # The engine's own id stays: it is what its log can be searched for.
            self.headers = [header for header in self.headers if header[0] != REQUEST_ID]
        try:
            if may_be_failure(answer.status):
                await self._weigh(upstream, answer)
            if (abort := self._hold.aborted) is not None:
                # It came while this task was on its way to the answer.
                self._over(abort.detail)
        except BaseException:
            upstream.abort()
            raise
        content_type = answer.first(b"content-type") or b""
        encoding = answer.first(b"content-encoding")
        # Into a compressed stream nothing readable can be put; it can only be cut.
        self.streams = encoding is None and content_type.lower().startswith(_STREAM_TYPES)
        self._meter = AnswerMeter(content_type, encoding)
        await carry(self._exchange, upstream, answer, self)

    async def _weigh(self, upstream: UpstreamAnswer, head: AnswerHead) -> None:
        """Read an answer that may be a failed attempt; returns if it is the client's matter, to be
        relayed like any other.
        """
        body = await upstream.read_all(ERROR_BODY_LIMIT_BYTES)
        readable = head.first(b"content-encoding") is None
        failure = classify_answer(head.status, head.first, body if readable else b"")
        if failure is None:
            return
        if upstream.whole and len(body) < ERROR_BODY_LIMIT_BYTES:
            self.rejection = Rejection(head, body)
            upstream.release()
        self._fail(failure)

    # What the relay tells while the answer passes

    def first_content(self) -> Sequence[Header]:
        """The commit point: the core hears of it, and the answer gets our headers."""
        self._hold.first_byte()
        self._exchange.let_body_go()  # there will be no other attempt
        return self.headers

    def body(self, piece: bytes) -> None:
        """Count what was relayed."""
        if self._meter is not None:
            self._meter.feed(piece)

    # What came of it

    def usage(self) -> Usage:
        """Tokens as far as the answer told."""
        return Usage() if self._meter is None else self._meter.usage()

    @property
    def mid_line(self) -> bool:
        """Whether what the client has ends within a line."""
        return self._meter is not None and self._meter.mid_line

    def _stop(self, scope: asyncio.Timeout) -> None:
        """End it at once: no byte of it may reach the client after this."""
        if self._upstream is not None:
            self._upstream.abort()
        scope.reschedule(asyncio.get_running_loop().time())

    def _kind(
        self, fault: UnreachableNode | NoSocketsLeft | LostUpstream | GarbledAnswer
    ) -> FailureKind:
        if self._exchange.begun:
            return FailureKind.CUT
        match fault:
            case UnreachableNode():
                return FailureKind.UNREACHABLE
            case NoSocketsLeft():
                # Like a full node: a moment later it may be done, and nobody is to blame.
                return FailureKind.BUSY
            case LostUpstream():
                return FailureKind.RESET
            case GarbledAnswer():
                return FailureKind.GARBLED
            case _:
                assert_never(fault)

    def _fail(self, failure: Failure) -> NoReturn:
        self._hold.failed(failure)
        self._over(failure.detail)

    def _over(self, detail: str) -> NoReturn:
        if self._hold.aborted is not None:
            detail = self._hold.aborted.detail
        if self._exchange.begun:
            raise BrokenAnswer(detail)
        raise AttemptEnded(detail)
