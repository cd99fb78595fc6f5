"""Which kind of request is it: answered from memory, about `pair` itself, or a ticket.

Everything that the door answers by itself is made from memory and never queued, whatever the nodes
do.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from pair.core.names import ModelName, Phase
from pair.errors import NodeFault, RequestFault
from pair.proxy.catalogue import listed_models
from pair.proxy.dispatcher import Dispatcher
from pair.proxy.forward import Forward, request_id
from pair.proxy.links import Links
from pair.proxy.silence import Silences
from pair.relay.exchange import Exchange
from pair.relay.heads import Header, request_bytes
from pair.relay.passage import carry
from pair.relay.upstream_pool import UpstreamPool
from pair.wire.dialects import Dialect, dialect_of, model_in_path, split_target
from pair.wire.errors import OwnAnswer, fault_answer, loop_answer, model_missing, own_answer
from pair.wire.headers import REQUEST_ID, VIA, header_text, read_wishes
from pair.wire.model_lists import ollama_tags, openai_list, openai_model
from pair.wire.request_peek import peek

ADMIN_BODY_LIMIT_BYTES = 64 * 1024
"""Largest request body about `pair` itself."""

_NOTHING_READY = "No machine with a model is ready yet; `pair nodes` shows what is known."

_SHOWN_CHARS = 200
"""Of a path that does not exist, repeated in the error; a target may have 64 kB."""

_JSON: tuple[Header, ...] = ((b"content-type", b"application/json"),)
_TEXT: tuple[Header, ...] = ((b"content-type", b"text/plain; charset=utf-8"),)

_ROOT_PATHS = frozenset(
    (
        "/apply-template",
        "/audio/transcriptions",
        "/chat/completions",
        "/chat/completions/input_tokens",
        "/completion",
        "/completions",
        "/detokenize",
        "/embedding",
        "/embeddings",
        "/infill",
        "/lora-adapters",
        "/models",
        "/props",
        "/rerank",
        "/reranking",
        "/responses",
        "/responses/input_tokens",
        "/slots",
        "/tokenize",
        "/version",
    )
)
"""Paths that engines serve without a prefix; clients probe them or are pointed at the bare port."""

_FORWARDED_PREFIXES = ("/v1/", "/api/", "/slots/")


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
        started_at: float,
    ) -> None:
        self._dispatcher = dispatcher
        self._links = links
        self._silences = silences
        self._admin = admin
        self._body_limit_bytes = body_limit_bytes
        self._started_at = started_at

    async def serve(self, exchange: Exchange) -> None:
        """Answer one exchange."""
        head = exchange.head
        path, _ = split_target(head.target)
        try:
            if head.first(VIA) is not None:
                loop = loop_answer(dialect_of(path))
                exchange.answer(loop.status, loop.headers, loop.body)
            elif head.method in (b"GET", b"HEAD") and (answer := self._from_memory(path)):
                exchange.answer(answer.status, answer.headers, answer.body)
            elif path == "/metrics" or path.startswith("/pair/"):
                await self._about_pair(exchange)
            elif path.startswith(_FORWARDED_PREFIXES) or path in _ROOT_PATHS:
                await self._forward(exchange)
            else:
                raise RequestFault(
                    404,
                    "no_such_path",
                    f"There is nothing at {path[:_SHOWN_CHARS]!r}: models are served under /v1 "
                    "and /api, pair itself under /pair/v1, /healthz and /metrics.",
                )
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
            case "/v1/models" | "/models":
                return OwnAnswer(
                    200, _JSON, openai_list(listed_models(scheduler), self._started_at)
                )
            case "/api/tags":
                return OwnAnswer(
                    200, _JSON, ollama_tags(listed_models(scheduler), self._started_at)
                )
            case _ if path.startswith("/v1/models/"):
                return self._one_model(path)
            case "/":
                text = b"pair is running. Point base_url at /v1; see /pair/v1/snapshot.\n"
                return OwnAnswer(200, _TEXT, text)
            case _:
                return None

    def _one_model(self, path: str) -> OwnAnswer | None:
        """What is in the list can be asked for by itself, also where its engine has no such path;
        None where it is not in the list.
        """
        name = model_in_path(b"GET", path)
        for listed in listed_models(self._dispatcher.scheduler):
            if listed.name == name:
                return OwnAnswer(200, _JSON, openai_model(listed, self._started_at))
        return None

    def _health(self) -> OwnAnswer:
        """What clients of engines ask before their first call: whether a model is there. `/healthz`
        is about this process.
        """
        scheduler = self._dispatcher.scheduler
        if scheduler.membership.any_in(Phase.READY) and self._names():
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
        if seen.model is None and not seen.light:
            if seen.path.startswith(_FORWARDED_PREFIXES):
                raise model_missing(self._names())
            seen = replace(seen, model=self._only_model())
        await Forward(exchange, seen, wishes, body).run(
            self._dispatcher, self._links, self._silences
        )

    def _only_model(self) -> ModelName:
        """What a request that names no model means at one of llama.cpp's own paths: its clients
        name none, because it holds but one.

        Raises:
            RequestFault: there are several, or none yet.
        """
        scheduler = self._dispatcher.scheduler
        models = {replica.id.model for replica in scheduler.fleet.everyone()}
        if len(models) != 1:
            raise model_missing(self._names())
        return models.pop()

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
