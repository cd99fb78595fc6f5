"""A node's face over echo engines, without the watch: what a test of the app stands on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from pair.agent.admission import Admission
from pair.agent.app import App
from pair.agent.engine_book import EngineBook, LocalEngine
from pair.agent.report_feed import ReportFeed
from pair.bench.echo_engine import EchoEngine
from pair.core.names import EngineName, ModelName, NodeId
from pair.core.reports import NodeReport, ReplicaReport
from pair.relay.front import Front
from pair.settings import Settings

SOON_S = 10.0
"""What should happen at once has this long on a busy machine; no test waits for it to pass."""

BODY_LIMIT_BYTES = 1024 * 1024

UPSTREAM = Settings().upstream_limits()
FRONT = Settings().front_limits()


def local(name: str, url: str, *models: str, kind: str = "llamacpp", slots: int = 1) -> LocalEngine:
    """An engine as the watch would enter it."""
    engine = LocalEngine(EngineName(name), kind, url, UPSTREAM)
    engine.replicas = tuple(
        ReplicaReport(EngineName(name), kind, ModelName(model), slots=slots) for model in models
    )
    return engine


async def until(condition: Callable[[], bool]) -> None:
    """Wait until this holds; for what no event tells of, such as another task's bookkeeping."""
    async with asyncio.timeout(SOON_S):
        while not condition():  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.001)


@dataclass(slots=True)
class Face:
    """A listening node; `address` is NAME:PORT."""

    address: str
    app: App
    book: EngineBook
    admission: Admission
    feed: ReportFeed
    client: aiohttp.ClientSession

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def running(self, engine: str, model: str) -> int:
        return self.admission.running((EngineName(engine), ModelName(model)))

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A bare connection, for what no client library does."""
        name, _, port = self.address.rpartition(":")
        return await asyncio.open_connection(name, int(port))


@asynccontextmanager
async def face(*engines: LocalEngine) -> AsyncIterator[Face]:
    """A node that holds these engines."""
    feed = ReportFeed()
    admission = Admission(feed.changed)
    book = EngineBook(admission)
    for engine in engines:
        assert book.add(engine)
    node = NodeId("this-node")
    app = App(
        node=node,
        book=book,
        admission=admission,
        report=lambda proxy: NodeReport(
            node,
            "pc",
            draining=app.draining,
            replicas=book.replicas(proxy),
            warnings=book.warnings(),
            number=feed.number,
        ),
        feed=feed,
        body_limit_bytes=BODY_LIMIT_BYTES,
    )
    async with Front(app.serve, FRONT) as front:
        address = await front.open("127.0.0.1:0")
        async with aiohttp.ClientSession(auto_decompress=False) as client:
            yield Face(address, app, book, admission, feed, client)
        for engine in engines:
            engine.pool.close()


def of(engine: EchoEngine, name: str = "llamacpp:1", *, slots: int = 1) -> LocalEngine:
    """A running echo engine as an engine of the node."""
    models = [model.name for model in engine.settings.models]
    return local(name, engine.url, *models, kind=engine.settings.persona, slots=slots)


def chat(model: str | None = "echo", **more: Any) -> bytes:
    """The body of a chat request."""
    fields = {"messages": [{"role": "user", "content": "How are you?"}], **more}
    if model is not None:
        fields["model"] = model
    return json.dumps(fields).encode()


def chosen(engine: str = "llamacpp:1", model: str = "echo") -> dict[str, str]:
    """The headers by which a proxy says what it has chosen."""
    return {"x-pair-engine": engine, "x-pair-model": model}
