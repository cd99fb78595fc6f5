"""One request from its head to the end of its answer.

The order of things is the same for every dialect and persona: read the body, apply the scripted
fault, check the key and the model, wait for a slot, send. However it ends, the journal gets exactly
one fate.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from aiohttp import web

from pair.bench.echo_engine.dialect import JSON, Dialect
from pair.bench.echo_engine.faults import (
    AnyFault,
    BlackHole,
    CloseAfterHead,
    FaultBook,
    Garbage,
    IdleClose,
    Nonsense,
    Reset,
    Script,
    Status,
    WaitUntilIdle,
    kind_of,
)
from pair.bench.echo_engine.generation import Call, Generation, Refusal, Workbench
from pair.bench.echo_engine.journal import Entry, Fate
from pair.bench.echo_engine.pace import sleep_until
from pair.bench.echo_engine.personas import Persona
from pair.bench.echo_engine.reply import Reply, ReplyBroken, Sent
from pair.bench.echo_engine.status_pages import names, openai_model
from pair.errors import SettingsError

FAULT_HEADER = "x-echo-fault"
REQUEST_ID_HEADER = "x-request-id"

# What a scripted status says where the script gives no words: (kind, message).
_WORDS = {
    400: ("invalid_request", "The request is not valid."),
    401: ("unauthorized", "The key is not valid."),
    404: ("model_not_found", "The model was not found."),
    413: ("too_large", "The request body is too large."),
    429: ("rate_limited", "Too many requests."),
    500: ("server_error", "The engine failed."),
    502: ("server_error", "What is behind this engine did not answer."),
    503: ("busy", "The engine is busy."),
}


@dataclass(frozen=True, slots=True)
class Premises:
    """What all exchanges of one engine share.

    Attributes:
        stopping: whether the engine is going; then a cancelled handler does not mean that its
            client left.
        close_when_idle: closes a connection unless a further request comes on it in time.
    """

    bench: Workbench
    persona: Persona
    faults: FaultBook
    stopping: Callable[[], bool]
    close_when_idle: Callable[[web.BaseRequest, float], None]


class Exchange:
    """One request and its answer; `run` once."""

    def __init__(self, premises: Premises, request: web.Request, *, reused: bool) -> None:
        self._premises = premises
        self._bench = premises.bench
        self._persona = premises.persona
        self._request = request
        self._reused = reused
        self._dialect = self._find_dialect()
        self._entry = self._open_entry()
        self._fault: AnyFault | None = None
        self._reply = Reply(request, self._entry, premises.persona.headers)

    async def run(self) -> Sent:
        """Answer, and return what aiohttp needs to know about it."""
        fate: Fate = "stopped"
        try:
            fate = await self._answered()
        except ReplyBroken:
            fate = "faulted"
        except ConnectionError:
            fate = "hung_up"
        except asyncio.CancelledError:
            fate = "stopped" if self._premises.stopping() else "hung_up"
            raise
        finally:
            if self._dialect is not None:
                self._bench.journal.close(self._entry, fate)
        if isinstance(self._fault, IdleClose):
            self._premises.close_when_idle(self._request, self._fault.after_s)
        return self._reply.sent()

    def _find_dialect(self) -> Dialect | None:
        if self._request.method != "POST":
            return None
        return self._persona.work.get(self._request.path)

    def _open_entry(self) -> Entry:
        """A journal entry; one that is not kept for what asks for no work."""
        journal, request = self._bench.journal, self._request
        journal.seen(request.path)
        if self._dialect is None:
            return Entry(0, "", request.path, journal.now_s())
        request_id = request.headers.get(REQUEST_ID_HEADER, "")
        return journal.open(request.path, request_id, request.raw_headers)

    async def _answered(self) -> Fate:
        try:
            body = await self._read()
            self._choose_fault()
            if not await self._apply_fault():
                await self._answer(body)
                return "done"
        except Refusal as refusal:
            await self._refuse(refusal)
            if not isinstance(self._fault, Status):
                return "refused"
        except RecursionError:
            await self._refuse(Refusal(400, "invalid_request", "The request is nested too deeply."))
            return "refused"
        return "faulted"

    async def _read(self) -> bytes:
        try:
            body = await self._request.read()
        except web.HTTPRequestEntityTooLarge:
            raise Refusal(413, "too_large", "The request body is too large.") from None
        except web.RequestPayloadError:
            raise Refusal(400, "invalid_request", "The request body broke off.") from None
        if self._dialect is not None:
            self._entry.request_sha256 = hashlib.sha256(body).hexdigest()
        return body

    # --- faults ------------------------------------------------------------------------------

    def _choose_fault(self) -> None:
        header = self._request.headers.get(FAULT_HEADER)
        try:
            self._fault = self._premises.faults.pick(
                self._request.path,
                header,
                for_work=self._dialect is not None,
                reused=self._reused,
            )
        except SettingsError as error:
            raise Refusal(400, "invalid_request", str(error)) from None
        if self._fault is not None:
            self._entry.fault = kind_of(self._fault)
            self._reply.fault = self._fault

    async def _apply_fault(self) -> bool:
        """Carry out a fault that replaces the answer; True if it did."""
        match self._fault:
            case Status() as fault:
                kind, message = _WORDS.get(fault.status, ("server_error", "The engine failed."))
                message = message if fault.message is None else fault.message
                raise Refusal(fault.status, kind, message, retry_after_s=fault.retry_after_s)
            case Reset():
                self._reply.reset()
            case BlackHole():
                await asyncio.Event().wait()
            case Garbage(content=content):
                self._reply.garble(content)
            case Nonsense(body=body):
                await self._reply.whole(200, JSON, body.encode())
            case Script() as script:
                await self._play(script)
            case WaitUntilIdle():
                counters = self._bench.journal.counters
                await self._bench.journal.until(lambda: counters.running == 0, None)
                return False
            case _:
                return False
        return True

    async def _play(self, script: Script) -> None:
        began_s = time.monotonic()
        length = sum(len(piece.content) for piece in script.pieces)
        if script.pieces:
            await sleep_until(began_s + script.pieces[0].at_s)
        await self._reply.begin(
            script.status, script.content_type, script.framing, length, script.headers
        )
        for piece in script.pieces:
            await sleep_until(began_s + piece.at_s)
            self._reply.send_part(piece.content)
        self._reply.end()

    # --- regular answers ---------------------------------------------------------------------

    async def _answer(self, body: bytes) -> None:
        self._check_key()
        if self._dialect is not None:
            await self._do_work(self._dialect, body)
        else:
            await self._show_page(body)

    def _check_key(self) -> None:
        key = self._bench.settings.api_key
        if not key or self._request.path in self._persona.open_paths:
            return
        headers = self._request.headers
        shown = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")
        if not secrets.compare_digest(shown.encode(), key.encode()):
            raise Refusal(401, "unauthorized", "Invalid API key.")

    async def _show_page(self, body: bytes) -> None:
        request = self._request
        method = "GET" if request.method == "HEAD" else request.method
        page = self._persona.status.get((method, request.path))
        if not self._persona.holds_while_loading and not request.path.endswith("/models"):
            self._refuse_while_loading()
        prefix = self._persona.model_pages
        if page is not None:
            shown = page(self._bench, body)
        elif prefix and method == "GET" and request.path.startswith(prefix):
            shown = openai_model(self._bench, request.path.removeprefix(prefix))
        else:
            shown = self._persona.unknown_path
        await self._reply.whole(shown.status, shown.content_type, shown.body)

    async def _do_work(self, dialect: Dialect, body: bytes) -> None:
        call = self._understand(dialect, body)
        self._entry.model, self._entry.stream = call.model, call.stream
        await self._wait_for_model()
        reply, at_once = self._reply, self._persona.head_at_once
        if call.stream and (at_once or isinstance(self._fault, CloseAfterHead)):
            await reply.begin(200, dialect.stream_type)
        elif isinstance(self._fault, CloseAfterHead):
            await reply.begin(200, JSON, "length")
        async with self._bench.generate(call, self._entry, self._fault) as generation:
            if call.stream:
                await self._stream(dialect, call, generation)
            else:
                await generation.first_token()
                if generation.outcome.text:
                    self._note_first_token()
                await generation.last_token()
                await reply.whole(200, JSON, dialect.whole(call, generation.outcome))

    async def _stream(self, dialect: Dialect, call: Call, generation: Generation) -> None:
        words = dialect.stream(call, generation.outcome)
        opening: bytes | None = words.opening()
        while tokens := await generation.next_tokens():
            if opening is not None:
                self._note_first_token()
                if not self._reply.begun:
                    await self._reply.begin(200, dialect.stream_type)
            self._reply.send([words.token(token) for token in tokens], opening or b"")
            opening = None
        self._reply.end(words.closing())

    def _note_first_token(self) -> None:
        self._entry.first_token_s = self._bench.journal.now_s()

    def _understand(self, dialect: Dialect, body: bytes) -> Call:
        """The call in `body`, its model checked; raises Refusal."""
        call = dialect.read(body)
        models = self._bench.settings.models
        if not call.model:
            return replace(call, model=models[0].name)
        answers_to_all = self._persona.any_model and len(models) == 1
        if answers_to_all or any(call.model in names(model) for model in models):
            return call
        raise Refusal(404, "model_not_found", f"model '{call.model}' not found")

    async def _wait_for_model(self) -> None:
        if not self._persona.holds_while_loading:
            self._refuse_while_loading()
        elif (left_s := self._bench.loading_s) > 0:
            self._entry.load_s = left_s
            await sleep_until(time.monotonic() + left_s)

    def _refuse_while_loading(self) -> None:
        if self._bench.loading_s > 0:
            raise Refusal(503, "loading", "Loading model")

    async def _refuse(self, refusal: Refusal) -> None:
        words = (self._dialect or self._persona.errors).refusal(refusal)
        if self._reply.begun:
            self._reply.end(b"data: " + words + b"\n\n")
            return
        headers = []
        if refusal.retry_after_s is not None:
            headers.append(("Retry-After", str(math.ceil(refusal.retry_after_s))))
        await self._reply.whole(refusal.status, JSON, words, headers)
