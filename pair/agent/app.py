"""What a node answers on its face: its report from memory, and its engines' own paths, relayed.

Separate from the watching of engines (`service.py`) because this runs once a request and waits for
nothing but the client's bytes and the engine's. It relays to the engines of this machine only; a
request that has been through a node is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from pair.agent.admission import Admission
from pair.agent.engine_book import Choice, EngineBook
from pair.agent.report_feed import ReportFeed
from pair.agent.visit import Visit
from pair.core.names import NodeId
from pair.core.reports import NodeReport, ReplicaReport
from pair.errors import NodeFault, NoSocketsLeft, RequestFault
from pair.relay.exchange import Exchange
from pair.relay.heads import Header, request_bytes
from pair.relay.passage import carry
from pair.wire.dialects import dialect_of, may_generate, plain_target, split_target
from pair.wire.errors import (
    MODEL_NOT_FOUND,
    NODE_BUSY,
    NODE_DRAINING,
    OwnAnswer,
    fault_answer,
    loop_answer,
    model_missing,
    models_sentence,
    own_answer,
)
from pair.wire.headers import VIA, header_text, read_choice, read_from
from pair.wire.node_report import REPORT_PATH, REPORTS_PATH, encode_report
from pair.wire.request_peek import peek

ENGINE_UNREACHABLE = "engine_unreachable"

BUSY_RETRY_AFTER_S = 1
"""The smallest whole second; a slot may come free at any moment."""

_JSON: tuple[Header, ...] = ((b"Content-Type", b"application/json"),)


class App:
    """The node's `serve`, handed to the relay's front.

    Attributes:
        draining: nothing new is taken; what runs, runs on.
        idle: set while no request is under way, save for the node's own pages.
    """

    def __init__(
        self,
        *,
        node: NodeId,
        book: EngineBook,
        admission: Admission,
        report: Callable[[str | None], NodeReport],
        feed: ReportFeed,
        body_limit_bytes: int,
    ) -> None:
        self._book = book
        self._admission = admission
        self._report = report
        self._feed = feed
        self._body_limit_bytes = body_limit_bytes
        self._mark: tuple[Header, ...] = ((VIA, header_text(node)),)
        self.draining = False
        self.idle = asyncio.Event()
        self.idle.set()
        self._under_way = 0

    async def serve(self, exchange: Exchange) -> None:
        """Answer one request; what is raised beyond this is our own mistake."""
        path, _ = split_target(exchange.head.target)
        if exchange.head.first(b"origin") is not None:
            _refuse_page(exchange, path)
            return
        if path == "/pair" or path.startswith("/pair/"):
            await self._answer_own_page(exchange, path)
            return
        visit = Visit(exchange, path)
        self._under_way += 1
        self.idle.clear()
        try:
            await self._serve(visit)
        except RequestFault as fault:
            visit.answer(fault_answer(visit.dialect, fault))
        finally:
            self._under_way -= 1
            if not self._under_way:
                self.idle.set()
            visit.log()

    async def _answer_own_page(self, exchange: Exchange, path: str) -> None:
        method, proxy = exchange.head.method, read_from(exchange.head.first)
        if path == REPORT_PATH and method in (b"GET", b"HEAD"):
            exchange.answer(200, _JSON, encode_report(self._report(proxy)))
            return
        if path == REPORTS_PATH and method == b"GET":
            await self._feed.serve(exchange, partial(self._report, proxy))
            return
        words = (
            f"A node has only GET {REPORT_PATH} and {REPORTS_PATH} under /pair/;"
            " the rest is the proxy's."
        )
        answer = own_answer(dialect_of(path), 404, "not_found", words)
        exchange.answer(answer.status, answer.headers, answer.body)

    async def _serve(self, visit: Visit) -> None:
        """Refuse by the headers where a proxy has chosen, so that a full node never reads a body;
        take the slot after it, so that a slow upload never holds one.
        """
        head = visit.exchange.head
        if head.first(VIA) is not None:
            visit.answer(loop_answer(visit.dialect))
            return
        if self.draining:
            visit.answer(self._later(visit, NODE_DRAINING, "This node is being stopped."))
            return
        choice = self._chosen(visit)
        if choice is not None and (full := self._full(visit, choice)) is not None:
            visit.choice = choice
            visit.answer(self._busy(visit, full))
            return
        pieces = await visit.exchange.read_body(self._body_limit_bytes)
        # Again, for an upload takes its time and an engine may have gone or changed in it.
        choice = self._chosen(visit) or self._choose(visit, pieces)
        await self._admit(visit, choice, pieces)

    def _chosen(self, visit: Visit) -> Choice | None:
        """What a proxy has chosen, None if it has not; raises RequestFault if that is not here."""
        engine, model = read_choice(visit.exchange.head.first)
        if engine is None or (model is None and not visit.light):
            return None
        choice = self._book.named(engine, model)
        if choice is None:
            raise self._not_here(model or engine)
        return choice

    def _choose(self, visit: Visit, pieces: Sequence[bytes]) -> Choice:
        """Where a request goes for which no proxy has chosen a replica."""
        book, head = self._book, visit.exchange.head
        engine, _ = read_choice(head.first)
        seen = peek(
            head.method,
            head.target,
            pieces,
            content_type=head.first(b"content-type"),
            content_encoding=head.first(b"content-encoding"),
        )
        if seen.model is not None:
            choice = (
                book.with_model(seen.model) if engine is None else book.named(engine, seen.model)
            )
            if choice is None:
                raise self._not_here(seen.model)
            return choice
        if not head.protocol and not may_generate(seen.path):
            visit.light = True  # as at the proxy
        if not visit.light:
            choice = book.only_replica()
        elif engine is None:
            choice = book.for_path(seen.path)
        else:
            choice = book.named(engine, None)
        if choice is not None:
            return choice
        if visit.light:
            raise RequestFault(404, "no_engine", "No engine has been found on this machine yet.")
        raise model_missing(book.models())

    def _full(self, visit: Visit, choice: Choice) -> ReplicaReport | None:
        """The replica, if all its slots are taken and the request would need one."""
        replica = choice.replica
        if visit.light or replica is None:
            return None
        key, proxy = (replica.engine, replica.model), read_from(visit.exchange.head.first)
        return replica if self._admission.full(key, replica.slots, proxy) else None

    async def _admit(self, visit: Visit, choice: Choice, pieces: list[bytes]) -> None:
        """Relay under a slot, unless the request costs none; whatever happens, the slot comes
        back.
        """
        visit.choice = choice
        replica = choice.replica
        if visit.light or replica is None:
            await self._relay(visit, choice, pieces)
            return
        key, proxy = (replica.engine, replica.model), read_from(visit.exchange.head.first)
        admitted = self._admission.admit(key, replica.slots, proxy)
        if admitted is None:
            visit.answer(self._busy(visit, replica))
            return
        left_at = None
        try:
            await self._relay(visit, choice, pieces)
        except asyncio.CancelledError:
            # The client left. What cannot count stops at its next token, if it had got so far.
            if self._admission.counts(admitted.key) or not visit.exchange.begun:
                left_at = asyncio.get_running_loop().time()
                choice.engine.look.set()
            raise
        finally:
            self._admission.settle(admitted, left_at=left_at)

    async def _relay(self, visit: Visit, choice: Choice, pieces: list[bytes]) -> None:
        exchange = visit.exchange
        engine = choice.engine
        drop, add = frozenset[bytes](), self._mark
        if engine.credential is not None:
            drop, key = engine.credential.headers_for(exchange.head)
            add = (*add, *key)
        request = request_bytes(
            exchange.head,
            authority=engine.pool.authority,
            body_length=sum(map(len, pieces)),
            drop=drop,
            add=add,
            target=engine.path + plain_target(exchange.head.target),
        )
        try:
            switches = bool(exchange.head.protocol)
            upstream, head = await engine.pool.ask(
                request, pieces, fresh=visit.once, switches=switches
            )
            visit.status = head.status
            exchange.let_body_go()  # the engine has it, and is asked once
            await carry(exchange, upstream, head, visit, at_once=visit.light)
        except NoSocketsLeft as fault:
            # Ours, and it passes: no reason to think ill of the engine.
            visit.fault = str(fault)
            visit.answer(self._later(visit, NODE_BUSY, f"This node has no room: {fault}."))
        except NodeFault as fault:
            visit.fault = str(fault)
            engine.look.set()
            if exchange.begun:
                exchange.cut()  # nobody may take this for the end; a proxy words it for its client
            else:
                words = f"The engine {engine.name} on this node gave no answer: {fault}"
                visit.answer(own_answer(visit.dialect, 502, ENGINE_UNREACHABLE, words))

    def _busy(self, visit: Visit, replica: ReplicaReport) -> OwnAnswer:
        words = f"All {replica.slots} slots of {replica.model} on this node are taken."
        return self._later(visit, NODE_BUSY, words)

    def _later(self, visit: Visit, code: str, words: str) -> OwnAnswer:
        return own_answer(visit.dialect, 503, code, words, retry_after_s=BUSY_RETRY_AFTER_S)

    def _not_here(self, name: str) -> RequestFault:
        words = f"{name!r} is not on this node. {models_sentence(self._book.models())}"
        return RequestFault(404, MODEL_NOT_FOUND, words, param="model")


def _refuse_page(exchange: Exchange, path: str) -> None:
    """A browser has no business here: a proxy drops what its pages say of their origin, so this is
    a page that tries this machine's ports.
    """
    words = "A node answers proxies, not web pages; a page asks its proxy (port 7247)."
    answer = own_answer(dialect_of(path), 403, "foreign_origin", words)
    exchange.answer(answer.status, answer.headers, answer.body)
