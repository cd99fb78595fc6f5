"""One ticket from its opening to its one fate: wait for a lease, try, try elsewhere, close.

tenacity drives the loop over attempts; whether there is another one is the core's decision alone,
which arrives as the next lease or as a refusal.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Sequence

from tenacity import AsyncRetrying, retry_if_exception_type, stop_never, wait_none

from pair.core.decisions import Dispatch, RefusalKind, Refuse
from pair.core.events import Opened, Usage
from pair.core.names import Outcome, TicketId
from pair.core.prompt import NO_PROMPT, Prompt
from pair.core.refusals import shutting_down
from pair.proxy.aim import Aim
from pair.proxy.attempt import Attempt, AttemptEnded, BrokenAnswer
from pair.proxy.dispatcher import Dispatcher, Hold, Refused
from pair.proxy.links import Link, Links
from pair.proxy.silence import Silence, Silences
from pair.proxy.stickiness import Stickiness
from pair.relay.credentials import brings_key
from pair.relay.exchange import Exchange
from pair.relay.heads import Header, request_bytes
from pair.wire.broken_streams import last_event
from pair.wire.dialects import kinds_for, plain_target
from pair.wire.errors import own_error
from pair.wire.headers import (
    FROM,
    REQUEST_ID,
    First,
    Wishes,
    answer_headers,
    choice_headers,
    header_text,
    read_request_id,
)
from pair.wire.open_streams import error_as_event, open_stream
from pair.wire.prompt_reader import read_prompt
from pair.wire.session_marks import whose

logger = logging.getLogger(__name__)

_ENDS_HERE = frozenset((b"origin",))
"""What the gate has decided by: an engine has rules of its own for pages, which are about others
than ours."""

ENGINE_ERROR = "engine_error"
"""An answer that broke off, in the error event that ends it and in the log."""

STOPPED_RETRY_AFTER_S = 5
"""Said to whom a stopping proxy cuts short: about as long as a restart takes."""


def request_id(first: First) -> str:
    """The client's own id for its request, or one made up for it."""
    return read_request_id(first) or uuid.uuid4().hex


class Forward:
    """One request on its way; made for one exchange and used once."""

    def __init__(
        self,
        exchange: Exchange,
        aim: Aim,
        wishes: Wishes,
        body: Sequence[bytes],
        stickiness: Stickiness,
    ) -> None:
        self._exchange = exchange
        self._aim = aim
        self._peek = aim.peek
        self._stickiness = stickiness
        self._wishes = wishes
        self._body = body
        self._request_id = request_id(exchange.head.first)
        self._prompt = NO_PROMPT if self._peek.light else self._read_prompt()
        self._attempt: Attempt | None = None
        self._dispatch: Dispatch | None = None

    async def run(self, dispatcher: Dispatcher, links: Links, silences: Silences) -> None:
        """Serve the exchange; the ticket is closed exactly once, whatever happens."""
        outcome, why, detail = Outcome.FAILED, "stopped", "the proxy was stopped"
        silence = silences.watch(
            self._exchange,
            open_stream(self._peek.path) if self._peek.streamed else None,
            ((REQUEST_ID, header_text(self._request_id)),),
            dispatcher.loop.time(),
        )
        hold = dispatcher.open(self._opened)  # nothing may come between this and its `finally`
        try:
            await self._try_until_decided(hold, dispatcher, links, silence)
            outcome, why, detail = Outcome.ANSWERED, "", ""
        except Refused as refused:
            spent = refused.refuse.kind is RefusalKind.ATTEMPTS_SPENT
            outcome = Outcome.FAILED if spent else Outcome.REFUSED
            why, detail = refused.refuse.kind.value, str(refused)
            self._answer_refusal(refused)
        except BrokenAnswer as broken:
            why, detail = ENGINE_ERROR, str(broken)
            self._end_broken(detail)
        except asyncio.CancelledError:
            if self._exchange.client_left:
                outcome, why, detail = Outcome.CLIENT_LEFT, "", "the client hung up"
            elif self._exchange.begun:
                self._end_broken(detail)
            else:
                self._answer_stopped(hold.ticket)
            raise
        finally:
            silences.forget(silence)
            hold.close(outcome, Usage() if self._attempt is None else self._attempt.usage(), detail)
            self._body = ()
            self._log(hold.ticket, outcome, why)

    def _read_prompt(self) -> Prompt:
        encoding = self._exchange.head.first(b"content-encoding")
        return read_prompt(self._peek.path, self._body, encoding)

    def _opened(self, ticket: TicketId) -> Opened:
        peek, head, client = self._peek, self._exchange.head, self._exchange.client
        belongs = whose(head.first, self._wishes, client)
        return Opened(
            ticket=ticket,
            model=peek.model,
            light=peek.light,
            prefers=kinds_for(peek.path) if peek.light else frozenset(),
            job=belongs.job,
            pin=self._aim.pin,
            streamed=peek.streamed,
            brings_key=brings_key(head),
            client=client,
            priority=self._wishes.priority,
            session=belongs.session,
            flow=belongs.flow,
            prompt=self._prompt,
        )

    async def _try_until_decided(
        self, hold: Hold, dispatcher: Dispatcher, links: Links, silence: Silence
    ) -> None:
        try:
            async for attempt in AsyncRetrying(
                retry=retry_if_exception_type(AttemptEnded),
                stop=stop_never,
                wait=wait_none(),
                sleep=asyncio.sleep,
                reraise=True,
            ):
                with attempt:
                    dispatch = self._dispatch = await hold.lease()
                    node = dispatcher.scheduler.membership.nodes.get(dispatch.replica.node)
                    link = links.to_node(dispatch.replica.node)
                    headers = self._answer_headers(dispatch, "" if node is None else node.name)
                    # Only a `pair` node is told what was chosen; a bare engine gets the client's
                    # request and nothing else.
                    tell = node is not None and node.version != ""
                    head = b"" if link is None else self._head_bytes(dispatch, link, tell=tell)
                    learner = self._aim.learner(self._stickiness, dispatch.replica.node)
                    self._attempt = Attempt(
                        self._exchange, hold, silence, headers, self._aim, learner
                    )
                    await self._attempt.run(link, head, self._body)
                    # Not asked whether to go on, tenacity costs half (30 to 17 us, 2026-11-29).
                    return
        finally:
            # tenacity keeps what an attempt raised, whose traceback keeps this frame: with this
            # name in it that is a circle, and the request's body stays until the next full
            # garbage collection.
            attempt = None  # type: ignore[assignment]  # only to let go of it

    def _head_bytes(self, dispatch: Dispatch, link: Link, *, tell: bool) -> bytes:
        replica = dispatch.replica
        model = None if self._peek.model is None else replica.model
        head = self._exchange.head
        drop = _ENDS_HERE if head.first(b"origin") is not None else frozenset()
        add = (*choice_headers(replica.engine, model), (FROM, link.mark)) if tell else ()
        if link.credential is not None:
            replaced, key = link.credential.headers_for(head)
            drop, add = drop | replaced, (*add, *key)
        return request_bytes(
            head,
            authority=link.pool.authority,
            body_length=sum(map(len, self._body)),
            drop=drop,
            add=add,
            target=link.path + plain_target(head.target),
        )

    def _answer_headers(self, dispatch: Dispatch, node_name: str) -> tuple[Header, ...]:
        return answer_headers(
            node=node_name or dispatch.replica.node,
            attempts=dispatch.attempt,
            queued_s=dispatch.queued_s,
            reason=dispatch.reason,
            job=dispatch.job,
            request_id=self._request_id,
        )

    def _answer_refusal(self, refused: Refused) -> None:
        """Our own error, or the engine's own words where an engine had the last one."""
        spent = refused.refuse.kind is RefusalKind.ATTEMPTS_SPENT
        attempt, exchange, dialect = self._attempt, self._exchange, self._peek.dialect
        rejection = None if attempt is None or not spent else attempt.rejection
        answer = self._aim.refusal(refused.refuse)
        if exchange.ahead:
            status = answer.status if rejection is None else rejection.head.status
            body = answer.body if rejection is None else rejection.head.readable(rejection.body)
            exchange.finish(error_as_event(dialect, status, body))
        elif attempt is not None and rejection is not None:
            exchange.begin(rejection.head, attempt.headers)
            exchange.finish(rejection.body)
        else:
            headers = (*answer.headers, (REQUEST_ID, header_text(self._request_id)))
            exchange.answer(answer.status, headers, answer.body)

    def _end_broken(self, detail: str) -> None:
        """End so that nobody takes it for whole: a stream with an error event in the client's
        dialect, if one can still be put in, then, like everything else, a cut.
        """
        # Where the answer's length is fixed, or it is compressed, nothing can be put in.
        if self._attempt is not None and self._attempt.streams and self._exchange.open_ended:
            message = f"The answer broke off: {detail}"
            error = own_error(self._peek.dialect, 502, ENGINE_ERROR, message)
            self._exchange.send(last_event(self._peek.dialect, self._attempt.ends(), error))
        self._exchange.cut()

    def _answer_stopped(self, ticket: TicketId) -> None:
        """The drain's limit has passed: in the client's dialect, like every refusal."""
        words = shutting_down()
        refuse = Refuse(ticket, RefusalKind.SHUTTING_DOWN, words, STOPPED_RETRY_AFTER_S)
        self._answer_refusal(Refused(refuse))

    def _log(self, ticket: TicketId, outcome: Outcome, why: str) -> None:
        """One line a ticket. Not its detail, which may hold an engine's words and so the prompt."""
        dispatch = self._dispatch
        logger.info(
            "ticket=%s path=%.200s model=%s node=%s attempts=%s outcome=%s%s",
            ticket,
            self._peek.path,
            self._peek.model,
            None if dispatch is None else dispatch.replica.node,
            0 if dispatch is None else dispatch.attempt,
            outcome,
            f" why={why}" if why else "",
        )
