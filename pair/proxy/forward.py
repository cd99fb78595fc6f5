"""One ticket from its opening to its one fate: wait for a lease, try, relay, try elsewhere.

tenacity drives the loop over attempts; whether there is another one is the core's decision alone,
which arrives as the next lease or as a refusal. The first content byte is the commit point: before
it a failure is an attempt, after it it is the answer's end.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from tenacity import AsyncRetrying, retry_if_exception_type, stop_never, wait_none

from pair.core.decisions import Dispatch, RefusalKind
from pair.core.events import Failure, FailureKind, Opened, Usage
from pair.core.names import Outcome, TicketId
from pair.errors import (
    GarbledAnswer,
    LostUpstream,
    PairError,
    SilentNode,
    UnreachableNode,
)
from pair.proxy.dispatcher import Dispatcher, Hold, Refused
from pair.proxy.links import Link, Links
from pair.relay.exchange import Exchange
from pair.relay.heads import AnswerHead, Header, request_bytes
from pair.relay.passage import carry
from pair.relay.upstream_connection import UpstreamConnection
from pair.wire.answer_meter import AnswerMeter
from pair.wire.engine_errors import classify_answer, may_be_failure
from pair.wire.errors import error_event, refusal_answer
from pair.wire.headers import Wishes, answer_headers, choice_headers, read_request_id
from pair.wire.request_peek import Peek

logger = logging.getLogger(__name__)

ERROR_BODY_LIMIT_BYTES = 1024 * 1024
"""Largest error answer that is read to find out what it means; real ones have under 10 kB."""


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


class Forward:
    """One request on its way; made for one exchange and used once."""

    def __init__(
        self,
        exchange: Exchange,
        peek: Peek,
        wishes: Wishes,
        body: Sequence[bytes],
        dispatcher: Dispatcher,
        links: Links,
    ) -> None:
        self._exchange = exchange
        self._peek = peek
        self._wishes = wishes
        self._body = body
        self._body_length = sum(map(len, body))
        self._dispatcher = dispatcher
        self._links = links
        self._request_id = read_request_id(exchange.head.first) or uuid.uuid4().hex
        self._meter: AnswerMeter | None = None
        self._rejection: Rejection | None = None
        self._dispatch: Dispatch | None = None
        self._hold: Hold | None = None
        self._upstream: UpstreamConnection | None = None
        self._streams = False

    async def run(self) -> None:
        """Serve the exchange; the ticket is closed exactly once, whatever happens."""
        outcome, detail = Outcome.FAILED, "the proxy was stopped"
        hold = self._hold = self._dispatcher.open(self._opened)
        try:
            await self._attempts(hold)
            outcome, detail = Outcome.ANSWERED, ""
        except Refused as refused:
            spent = refused.refuse.kind is RefusalKind.ATTEMPTS_SPENT
            outcome, detail = (Outcome.FAILED if spent else Outcome.REFUSED), str(refused)
            self._answer_refusal(refused)
        except BrokenAnswer as broken:
            detail = str(broken)
            self._end_broken(detail)
        except asyncio.CancelledError:
            if self._exchange.client_left:
                outcome, detail = Outcome.CLIENT_LEFT, "the client hung up"
            raise
        finally:
            hold.close(outcome, self._usage(), detail)
            self._log(outcome, detail)

    def _opened(self, ticket: TicketId) -> Opened:
        peek, wishes = self._peek, self._wishes
        return Opened(
            ticket=ticket,
            model=peek.model,
            light=peek.light,
            job=wishes.job,
            priority=wishes.priority,
            pin=wishes.node,
            prompt_chars=peek.prompt_chars,
            max_output_tokens=peek.max_output_tokens,
            streamed=peek.streamed,
            client=self._exchange.client,
        )

    async def _attempts(self, hold: Hold) -> None:
        async for attempt in AsyncRetrying(
            retry=retry_if_exception_type(AttemptEnded),
            stop=stop_never,
            wait=wait_none(),
            sleep=asyncio.sleep,
            reraise=True,
        ):
            with attempt:
                dispatch = self._dispatch = await hold.lease()
                await self._attempt(hold, dispatch)

    async def _attempt(self, hold: Hold, dispatch: Dispatch) -> None:
        """Try once under this lease.

        Raises:
            AttemptEnded: without an answer, and reported.
            BrokenAnswer: after the commit point, and reported.
        """
        try:
            async with asyncio.timeout(None) as scope:
                # The core may take the lease back at any moment (node lost). Expiring the scope is
                # the one public way to end what this task awaits without cancelling the task.
                hold.on_abort = lambda: self._stop(scope)
                await self._ask_and_relay(hold, dispatch)
        except TimeoutError:
            assert hold.aborted is not None
            if self._exchange.begun:
                raise BrokenAnswer(hold.aborted.detail) from None
            raise AttemptEnded(hold.aborted.detail) from None
        except UnreachableNode as fault:
            self._fail(hold, Failure(FailureKind.UNREACHABLE, str(fault)))
        except LostUpstream as fault:
            kind = FailureKind.CUT if self._exchange.begun else FailureKind.RESET
            self._fail(hold, Failure(kind, str(fault)))
        except GarbledAnswer as fault:
            kind = FailureKind.CUT if self._exchange.begun else FailureKind.GARBLED
            self._fail(hold, Failure(kind, str(fault)))
        except SilentNode as fault:
            self._fail(hold, Failure(FailureKind.TIMED_OUT, str(fault)))
        finally:
            hold.on_abort = None
            self._upstream = None

    def _stop(self, scope: asyncio.Timeout) -> None:
        """End the attempt under way, at once: no byte of it may reach the client after this."""
        if self._upstream is not None:
            self._upstream.abort()
        scope.reschedule(self._dispatcher.loop.time())

    def _fail(self, hold: Hold, failure: Failure) -> None:
        hold.failed(failure)
        if self._exchange.begun:
            raise BrokenAnswer(failure.detail)
        raise AttemptEnded(failure.detail)

    async def _ask_and_relay(self, hold: Hold, dispatch: Dispatch) -> None:
        link = self._links.to_node(dispatch.replica.node)
        if link is None:
            raise UnreachableNode("the node is no longer known")
        upstream, head = await link.pool.ask(self._head_bytes(dispatch, link), self._body)
        if hold.aborted is not None:
            upstream.abort()
            raise AttemptEnded(hold.aborted.detail)
        self._upstream = upstream
        if may_be_failure(head.status):
            await self._weigh_error(hold, dispatch, upstream, head)
            return
        content_type = head.first(b"content-type") or b""
        self._streams = content_type.lower().startswith(_STREAM_TYPES)
        self._meter = AnswerMeter(content_type, head.first(b"content-encoding"))
        await carry(self._exchange, upstream, head, self)

    async def _weigh_error(
        self, hold: Hold, dispatch: Dispatch, upstream: UpstreamConnection, head: AnswerHead
    ) -> None:
        """Read an answer that may be a failed attempt; if it is the client's own matter, pass it
        on.
        """
        try:
            body = await upstream.read_all(ERROR_BODY_LIMIT_BYTES)
        except BaseException:
            upstream.abort()
            raise
        upstream.release()
        if len(body) >= ERROR_BODY_LIMIT_BYTES:
            raise GarbledAnswer(f"an error answer above {ERROR_BODY_LIMIT_BYTES} bytes")
        failure = classify_answer(head.status, head.first, body)
        if failure is not None:
            self._rejection = Rejection(head, body)
            self._fail(hold, failure)
        if hold.aborted is not None:
            raise AttemptEnded(hold.aborted.detail)
        hold.first_byte()
        self._exchange.begin(head, self._answer_headers(dispatch))
        self._exchange.finish(body)

    def _head_bytes(self, dispatch: Dispatch, link: Link) -> bytes:
        replica = dispatch.replica
        head = self._exchange.head
        add: list[Header] = []
        node = self._dispatcher.scheduler.membership.nodes.get(replica.node)
        if node is not None and node.version:
            # Only a `pair` node is told what was chosen; a bare engine gets the client's request
            # and nothing else.
            model = None if self._peek.model is None else replica.model
            add.extend(choice_headers(replica.engine, model))
        return request_bytes(
            head,
            authority=link.pool.authority,
            body_length=self._body_length,
            add=add,
            target=link.path + head.target if link.path else None,
        )

    # What the relay tells while the answer passes (relay.passage.Tap)

    def first_content(self) -> Sequence[Header]:
        """The commit point: the core hears of it and the answer gets our headers."""
        assert self._hold is not None
        assert self._dispatch is not None
        self._hold.first_byte()
        return self._answer_headers(self._dispatch)

    def body(self, piece: bytes) -> None:
        """Count what was relayed."""
        assert self._meter is not None
        self._meter.feed(piece)

    # Ends

    def _answer_headers(self, dispatch: Dispatch) -> tuple[Header, ...]:
        node = self._dispatcher.scheduler.membership.nodes.get(dispatch.replica.node)
        return answer_headers(
            node=dispatch.replica.node if node is None else node.name,
            attempts=dispatch.attempt,
            queued_s=dispatch.queued_s,
            reason=dispatch.reason,
            job=dispatch.job,
            request_id=self._request_id,
        )

    def _answer_refusal(self, refused: Refused) -> None:
        """Our own error, or the engine's own words where an engine had the last one."""
        if refused.refuse.kind is RefusalKind.ATTEMPTS_SPENT and self._rejection is not None:
            headers = () if self._dispatch is None else self._answer_headers(self._dispatch)
            self._exchange.begin(self._rejection.head, headers)
            self._exchange.finish(self._rejection.body)
        else:
            answer = refusal_answer(self._peek.dialect, refused.refuse)
            self._exchange.answer(answer.status, answer.headers, answer.body)

    def _end_broken(self, detail: str) -> None:
        """A stream ends with an error event in the client's dialect; anything else is cut, so that
        it can't look whole.
        """
        if self._streams:
            mid_line = self._meter is not None and self._meter.mid_line
            message = f"The answer broke off: {detail}"
            self._exchange.send(
                error_event(self._peek.dialect, message, "engine_error", mid_line=mid_line)
            )
        self._exchange.cut()

    def _usage(self) -> Usage:
        return Usage() if self._meter is None else self._meter.usage()

    def _log(self, outcome: Outcome, detail: str) -> None:
        dispatch = self._dispatch
        logger.info(
            "ticket=%s path=%s model=%s node=%s attempts=%s outcome=%s%s",
            None if self._hold is None else self._hold.ticket,
            self._peek.path,
            self._peek.model,
            None if dispatch is None else dispatch.replica.node,
            0 if dispatch is None else dispatch.attempt,
            outcome,
            f" detail={detail!r}" if detail else "",
        )
