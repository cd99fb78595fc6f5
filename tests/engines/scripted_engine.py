"""An engine that is a table of answers: what a kind says, without the kind."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

import aiohttp
from aiohttp import web

from pair.engines.engine import EngineReport
from pair.engines.question import question_session

Page = Any
"""A value for JSON, bytes as they are, a status and one of these, or a coroutine function."""


class ScriptedEngine:
    """Listens on loopback while entered; every path that is not in the table is `otherwise`.

    Attributes:
        pages: by path; may be changed at any time.
        asked: how often each path was asked.
        methods: all methods that were used.
    """

    def __init__(
        self, pages: Mapping[str, Page] | None = None, *, otherwise: Page = (404, b"")
    ) -> None:
        self.pages = dict(pages or {})
        self.otherwise = otherwise
        self.asked: Counter[str] = Counter()
        self.methods: set[str] = set()
        self.url = ""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=0.01
        )

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._runner.cleanup()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._runner.addresses[0][1])

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.asked[request.path] += 1
        self.methods.add(request.method)
        page = self.pages.get(request.path, self.otherwise)
        if callable(page):
            page = await page()
        status, content = page if isinstance(page, tuple) else (200, page)
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        return web.Response(status=status, body=body)


async def never() -> Page:
    """A page that is not answered."""
    await asyncio.Event().wait()


def session(limit_s: float = 10.0) -> aiohttp.ClientSession:
    """One as the agent's: whoever asks has a limit."""
    return question_session(limit_s)


async def report_of(
    kind: Callable[[str], Any], pages: Mapping[str, Page], *, otherwise: Page = (404, b"")
) -> EngineReport:
    """What an engine of this kind reports that answers so."""
    async with ScriptedEngine(pages, otherwise=otherwise) as scripted, session() as asking:
        report: EngineReport = await kind(scripted.url).report(asking)
        return report
