"""Which kind of request is it: answered from memory, about `pair` itself, or a ticket.

Everything that the door answers by itself is made from memory and never queued, whatever the nodes
do.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from pair.core.names import NO_NAME, ModelName, Phase
from pair.errors import NodeFault, RequestFault
from pair.proxy.aim import aim
from pair.proxy.dispatcher import Dispatcher
from pair.proxy.forward import Forward, request_id
from pair.proxy.house_pages import HousePages
from pair.proxy.links import Links
from pair.proxy.silence import Silences
from pair.proxy.stickiness import Stickiness
from pair.relay.exchange import Exchange
from pair.relay.heads import Header, request_bytes
from pair.relay.passage import carry
from pair.relay.upstream_pool import UpstreamPool
from pair.wire.dialects import Dialect, dialect_of, may_generate, split_target
from pair.wire.errors import OwnAnswer, fault_answer, loop_answer, model_missing, own_answer
from pair.wire.headers import REQUEST_ID, VIA, header_text, read_wishes
from pair.wire.one_node_acts import act_by_query
from pair.wire.request_peek import peek

ADMIN_BODY_LIMIT_BYTES = 64 * 1024
"""Largest request body about `pair` itself."""

_NOTHING_READY = "No machine with a model is ready yet; `pair nodes` shows what is known."

_SHOWN_CHARS = 200
"""Of a path that does not exist, repeated in the error; a target may have 64 kB."""

_JSON: tuple[Header, ...] = ((b"content-type", b"application/json"),)
_TEXT: tuple[Header, ...] = ((b"content-type", b"text/plain; charset=utf-8"),)

_NOT_FORWARDED = frozenset(("/favicon.ico", "/robots.txt", "/pair"))
_NOT_FORWARDED_UNDER = ("/.well-known/", "/apple-touch-icon")
"""What browsers ask everybody; no engine has any of it."""


class FrontDoor:
    """Serves every exchange of the proxy's front."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        links: Links,
        silences: Silences,
        admin: UpstreamPool,
        *,
        body_limit_bytes: int,
        kept_ids_limit: int,
        started_at: float,
    ) -> None:
        self._dispatcher = dispatcher
        self._links = links
        self._silences = silences
        self._admin = admin
        self._body_limit_bytes = body_limit_bytes
        self._pages = HousePages(dispatcher.scheduler, started_at)
        self._stickiness = Stickiness(kept_ids_limit)

    async def serve(self, exchange: Exchange) -> None:
        """Answer one exchange."""
        head = exchange.head
        path, query = split_target(head.target)
        try:
            if head.first(VIA) is not None:
                loop = loop_answer(dialect_of(path))
                exchange.answer(loop.status, loop.headers, loop.body)
            elif (
                head.method in (b"GET", b"HEAD")
                and not head.protocol
                and act_by_query(head.method, path, query) is None
                and (answer := self._from_memory(path))
            ):
                exchange.answer(answer.status, answer.headers, answer.body)
            elif path == "/metrics" or path.startswith("/pair/"):
                await self._about_pair(exchange)
            elif path in _NOT_FORWARDED or path.startswith(_NOT_FORWARDED_UNDER):
                raise RequestFault(
                    404,
                    "no_such_path",
                    f"There is nothing at {path[:_SHOWN_CHARS]!r}: models are served under /v1 "
                    "and /api, pair itself under /pair/v1, /healthz and /metrics.",
                )
            else:
                await self._forward(exchange)
        except RequestFault as fault:
            answer = fault_answer(dialect_of(path), fault)
            mark = (REQUEST_ID, header_text(request_id(head.first)))
            exchange.answer(answer.status, (*answer.headers, mark), answer.body)

    def _from_memory(self, path: str) -> OwnAnswer | None:
        scheduler = self._dispatcher.scheduler
        match path:
            case "/healthz":
                state = "draining" if scheduler.desk.draining else "ok"
                return OwnAnswer(200, _JSON, json.dumps({"status": state}).encode())
            case "/health" | "/v1/health":
                return self._health()
            case "/":
                text = b"pair is running. Point base_url at /v1; see /pair/v1/snapshot.\n"
                return OwnAnswer(200, _TEXT, text)
            case _:
                page = self._pages.page(path)
                return None if page is None else OwnAnswer(200, _JSON, page)

    def _health(self) -> OwnAnswer:
        """What clients of engines ask before their first call: whether a model is there, or an
        engine that needs none. `/healthz` is about this process.
        """
        scheduler = self._dispatcher.scheduler
        models = scheduler.membership.any_in(Phase.READY) and self._names()
        if models or scheduler.fleet.without_models():
            return OwnAnswer(200, _JSON, b'{"status": "ok"}')
        return own_answer(Dialect.OPENAI, 503, "no_node", _NOTHING_READY)

    async def _forward(self, exchange: Exchange) -> None:
        head = exchange.head
        wishes = read_wishes(head.first)
        body = await exchange.read_body(self._body_limit_bytes)
        seen = peek(
            head.method,
            head.target,
            body,
            content_type=head.first(b"content-type"),
            content_encoding=head.first(b"content-encoding"),
        )
        if head.protocol:
            # A tunnel holds a slot for as long as it lasts, whatever its path costs else.
            seen = replace(seen, light=False)
        if seen.model is None and not seen.light:
            if may_generate(seen.path) or head.protocol:
                seen = replace(seen, model=self._only_model())
            else:  # whatever it is, it is not known to cost a generation
                seen = replace(seen, light=True)
        aimed = aim(self._dispatcher.scheduler, self._stickiness, seen, head.method, wishes.node)
        await Forward(exchange, aimed, wishes, body, self._stickiness).run(
            self._dispatcher, self._links, self._silences
        )

    def _only_model(self) -> ModelName:
        """What a generation that names no model means: the only one, where its engines' clients
        need name none. While nobody has answered yet it waits to see what that is.

        Raises:
            RequestFault: there are several, or an engine that wants a name.
        """
        fleet = self._dispatcher.scheduler.fleet
        if fleet.meant(NO_NAME) == NO_NAME and fleet.names():
            raise model_missing(self._names())
        return NO_NAME

    async def _about_pair(self, exchange: Exchange) -> None:
        """Relay to the aiohttp app on its private socket, like to any upstream."""
        body = await exchange.read_body(ADMIN_BODY_LIMIT_BYTES)
        head = request_bytes(
            exchange.head, authority=self._admin.authority, body_length=sum(map(len, body))
        )
        try:
            upstream, answer = await self._admin.ask(head, body)
            await carry(exchange, upstream, answer, _Deaf())
        except NodeFault as fault:
            if exchange.begun:
                exchange.cut()
            else:
                own = own_answer(dialect_of("/"), 502, "admin_failed", f"pair's own pages: {fault}")
                exchange.answer(own.status, own.headers, own.body)

    def _names(self) -> Sequence[str]:
        return self._dispatcher.scheduler.fleet.names()


class _Deaf:
    """A tap for answers about `pair` itself, which nobody counts."""

    def first_content(self) -> Sequence[Header]:
        return ()

    def body(self, piece: bytes) -> None:
        pass
