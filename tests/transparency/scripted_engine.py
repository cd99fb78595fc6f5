"""An engine whose whole API is a table: by method and path, status and body. What is not in it is a
404, as engines say it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from pair.settings import FixedNode

Pages = dict[tuple[str, str], tuple[int, Any]]

_LOOKS = frozenset(("/v1/models", "/v1/loads"))
"""Read to watch an engine."""

LACKING = {"detail": "Not Found"}


@dataclass
class ScriptedEngine:
    """It listens while entered.

    Attributes:
        pages: the table; an answer that is bytes goes out as an event stream, and a status of 0
            is a reset.
        asked: method and path of all requests for work, and of what is read under /v1.
        held: while clear, no answer from the table is finished.
    """

    pages: Pages
    url: str = ""
    asked: list[str] = field(default_factory=list)
    held: asyncio.Event = field(default_factory=asyncio.Event)
    runner: web.AppRunner | None = None

    def node(self, name: str) -> FixedNode:
        """It as a node of a house."""
        return FixedNode(self.url, name=name)

    async def stop(self) -> None:
        """Listen no more."""
        self.held.set()
        if self.runner is not None:
            await self.runner.cleanup()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Look it up."""
        await request.read()
        path = request.rel_url.raw_path
        if request.method != "GET" or (path.startswith("/v1/") and path not in _LOOKS):
            self.asked.append(f"{request.method} {path}")
        status, body = self.pages.get((request.method, path), (404, LACKING))
        if not status and request.transport is not None:
            request.transport.abort()
        if not isinstance(body, bytes):
            return web.json_response(body, status=status)
        stream = web.StreamResponse(status=status, headers={"content-type": "text/event-stream"})
        await stream.prepare(request)
        await stream.write(body)
        await self.held.wait()
        await stream.write_eof()
        return stream


@asynccontextmanager
async def scripted(
    model: str = "m", *, ollama: bool = False, pages: Mapping[tuple[str, str], tuple[int, Any]] = {}
) -> AsyncIterator[ScriptedEngine]:
    """One that lists this model, in the way of Ollama or as no engine in particular."""
    listed: Pages = {("GET", "/v1/models"): (200, {"object": "list", "data": [{"id": model}]})}
    if ollama:
        entry = {"name": model, "model": model, "size": 5, "digest": "d" * 64, "details": {}}
        listed |= {
            ("GET", "/api/version"): (200, {"version": "0.12.0"}),
            ("GET", "/api/tags"): (200, {"models": [entry]}),
            ("GET", "/api/ps"): (200, {"models": [{**entry, "context_length": 4096}]}),
        }
    engine = ScriptedEngine({**listed, **pages})
    engine.held.set()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", engine.answer)
    runner = engine.runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    engine.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield engine
    finally:
        await engine.stop()


def event(value: object) -> bytes:
    """One event of a stream."""
    return b"data: " + json.dumps(value).encode() + b"\n\n"
