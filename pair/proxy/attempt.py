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
from pair.proxy.aim import Aim
from pair.proxy.dispatcher import Hold
from pair.proxy.links import Link
from pair.proxy.silence import UNBUFFERED, Silence
from pair.proxy.stickiness import Learner
from pair.relay.exchange import Exchange
from pair.relay.heads import AnswerHead, Header
from pair.relay.passage import carry
from pair.relay.upstream_answer import UpstreamAnswer
from pair.wire.answer_meter import AnswerMeter
from pair.wire.engine_errors import classify_answer, may_be_failure
from pair.wire.headers import REQUEST_ID
from pair.wire.open_streams import EVENT_STREAM, error_as_event

ERROR_BODY_LIMIT_BYTES = 1024 * 1024
"""Read of an error answer to find out what it means, and kept in case it is the best there is; real
ones have under 10 kB."""

_FINAL_ONCE = frozenset(
    (FailureKind.ENGINE_ERROR, FailureKind.BAD_GATEWAY, FailureKind.NO_SUCH_MODEL)
)
"""What must not be done twice ends with these answers: they do not say that nothing was done, or
that a model is missing which the client, and not a list, has named for that machine."""

_STREAM_TYPES = (EVENT_STREAM, b"application/x-ndjson")


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

    def __init__(
        self,
        exchange: Exchange,
        hold: Hold,
        silence: Silence,
        headers: Sequence[Header],
        aim: Aim,
        learner: Learner | None,
    ) -> None:
        self.headers = headers
        self.rejection: Rejection | None = None
        self.streams = False
        self._exchange = exchange
        self._hold = hold
        self._silence = silence
        self._aim = aim
        self._learner = learner
        self._scope: asyncio.Timeout | None = None
        self._stalled_s: float | None = None
        self._meter: AnswerMeter | None = None
        self._upstream: UpstreamAnswer | None = None
        self._error = False

    async def run(self, link: Link | None, head: bytes, body: Sequence[bytes]) -> None:
        """Ask and relay; returns when the client has the whole answer.

        Raises:
            AttemptEnded: without an answer, and reported.
            BrokenAnswer: after the commit point, and reported.
        """
        self._silence.begin_attempt()
        try:
            # The core may take the lease back at any moment (node lost), the engine may stall.
            # Expiring the scope is the one public way to end what this task awaits without
            # cancelling the task.
            async with asyncio.timeout(None) as self._scope:
                self._hold.on_abort = self._stop
                if link is None:
                    raise UnreachableNode("the node is no longer known")
                await self._ask_and_relay(link, head, body)
        except TimeoutError:
            if self._stalled_s is not None:
                words = f"its engine was silent for {self._stalled_s:.0f} s in the middle of it"
                self._fail(Failure(FailureKind.STALLED, words))
            if self._hold.aborted is None:
                raise
            self._over(self._hold.aborted.detail)
        except (UnreachableNode, NoSocketsLeft, LostUpstream, GarbledAnswer) as fault:
            kind, words = self._kind(fault), str(fault)
            if kind is FailureKind.CUT and not self._exchange.begun:
                words = f"{words}; whether it was done there is not known"
            self._fail(Failure(kind, words))
        finally:
            self._hold.on_abort = None
            self._silence.on_stall = None

    async def _ask_and_relay(self, link: Link, head: bytes, body: Sequence[bytes]) -> None:
        switches = bool(self._exchange.head.protocol)
        # An idle connection may turn out to be closed, which is mended by asking a second time.
        upstream, answer = await link.pool.ask(head, body, fresh=self._aim.once, switches=switches)
        self._upstream, self._error = upstream, answer.status >= 400
        if answer.first(REQUEST_ID) is not None:
            # The engine's own id stays: it is what its log can be searched for.
            self.headers = [header for header in self.headers if header[0] != REQUEST_ID]
        try:
            if may_be_failure(answer.status) or self._aim.asks_on(answer.status):
                await self._weigh(upstream, answer)
            if (abort := self._hold.aborted) is not None:
                # It came while this task was on its way to the answer.
                self._over(abort.detail)
            if not self._silence.joins(answer):
                await self._put_in(upstream, answer)
                return
        except BaseException:
            upstream.abort()
            raise
        content_type = answer.first(b"content-type") or b""
        # Into a compressed stream nothing readable can be put; it can only be cut.
        kind = content_type.lower()
        self.streams = not answer.packed and kind.startswith(_STREAM_TYPES)
        if kind.startswith(EVENT_STREAM):
            said = tuple(header for header in UNBUFFERED if answer.first(header[0].lower()) is None)
            self.headers = (*self.headers, *said)
        self._meter = AnswerMeter(content_type, packed=answer.packed)
        if self._learner is not None and not self._learner.answered(answer.status):
            self._learner = None
        await carry(self._exchange, upstream, answer, self, at_once=self._aim.peek.light)

    async def _weigh(self, upstream: UpstreamAnswer, head: AnswerHead) -> None:
        """Read an answer that may be a failed attempt; returns if it is the client's matter, to be
        relayed like any other.
        """
        body = await upstream.read_all(ERROR_BODY_LIMIT_BYTES)
        failure = classify_answer(head.status, head.first, head.readable(body))
        if self._aim.asks_on(head.status):
            failure = Failure(FailureKind.NOT_THERE, f"status {head.status}: not there")
        if failure is None or (self._aim.once and failure.kind in _FINAL_ONCE):
            return
        if upstream.whole and len(body) < ERROR_BODY_LIMIT_BYTES:
            self.rejection = Rejection(head, body)
            upstream.release()
        self._fail(failure)

    async def _put_in(self, upstream: UpstreamAnswer, head: AnswerHead) -> None:
        """Bring an answer that has a head of its own into the stream that was opened meanwhile: an
        error as its last event; anything else ends it.
        """
        failed = head.status >= 400
        # What ends the stream anyway need not come first; it might never.
        body = await upstream.read_all(ERROR_BODY_LIMIT_BYTES) if failed else b""
        exchange = self._exchange
        exchange.begin(head, self.first_content())
        self.streams = True
        if not failed:
            kind = (head.first(b"content-type") or b"no type").decode("latin-1")
            words = (
                f"its engine answered with {kind:.80}, which is not the stream that was asked for"
            )
            self._fail(Failure(FailureKind.CUT, words))
        upstream.release()
        said = head.readable(body)
        exchange.finish(error_as_event(self._aim.peek.dialect, head.status, said))

    # What the relay tells while the answer passes

    def first_content(self) -> Sequence[Header]:
        """The commit point: the core hears of it, and the answer gets our headers."""
        self._hold.first_byte(error=self._error)
        # A tunnel may be silent, and so may a channel of an engine's news, and one that fetches or
        # checks a model.
        tunnel = self._upstream is not None and self._upstream.switched
        channel = self.streams and self._aim.peek.light
        if not tunnel and not channel and self._aim.peek.act is None:
            self._silence.on_stall = self._stall
        self._exchange.let_body_go()  # there will be no other attempt
        return self.headers

    def body(self, piece: bytes) -> None:
        """Count what was relayed."""
        self._silence.heard = True
        if self._meter is not None:
            self._meter.feed(piece)
        if self._learner is not None and not self._learner.feed(piece):
            self._learner = None

    # What came of it

    def usage(self) -> Usage:
        """Tokens as far as the answer told."""
        return Usage() if self._meter is None else self._meter.usage()

    def ends(self) -> bytes:
        """With what the answer ends that the client has so far; see `AnswerMeter.ends`."""
        return b"\n\n" if self._meter is None else self._meter.ends()

    def _stall(self, silent_s: float) -> None:
        self._stalled_s = silent_s
        self._stop()

    def _stop(self) -> None:
        """End it at once: no byte of it may reach the client after this."""
        if self._upstream is not None:
            self._upstream.abort()
        if self._scope is not None:
            self._scope.reschedule(asyncio.get_running_loop().time())

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
            case LostUpstream() | GarbledAnswer() if self._aim.once:
                return FailureKind.CUT
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
