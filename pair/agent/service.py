"""A node as one thing that can be started and stopped: builds the parts and ties them together."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from pair.agent.admission import Admission
from pair.agent.app import App
from pair.agent.engine_book import EngineBook
from pair.agent.engine_watch import EngineWatch
from pair.agent.report_feed import ReportFeed
from pair.core.names import NodeId
from pair.core.reports import NodeReport
from pair.engines.embedded import EmbeddedEngine, EmbeddedOptions
from pair.engines.finder import EngineFinder
from pair.errors import SettingsError
from pair.relay.addresses import is_base_url
from pair.relay.front import Front
from pair.settings import NodeSettings, Settings


class Node:
    """Listens and watches its engines while it is entered.

    Args:
        node_id: the lasting id of this machine.
        name: for people.
        version: of this `pair`.
        embedded: an engine of its own, not entered yet, None for the one that the settings say.

    Raises:
        SettingsError: the URL or the key of an engine, or the model to be embedded, cannot be used.

    Attributes:
        address: where it listens, with the real port, once entered.
        admission: what runs here, for reading.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        node_id: NodeId,
        name: str,
        version: str,
        embedded: EmbeddedEngine | None = None,
    ) -> None:
        for engine in settings.node.engines:
            if not is_base_url(engine.url):
                raise SettingsError(
                    "node.engines (--engine) takes URLs such as http://127.0.0.1:8080;"
                    f" {engine.url!r} is none"
                )
        self.address = ""
        self._settings = settings
        self._node_id = node_id
        self._name = name
        self._version = version
        self._process = secrets.token_hex(8)
        self._feed = ReportFeed()
        self.admission = Admission(self._feed.changed)
        self._book = EngineBook(self.admission)
        self._embedded = embedded or _embedded(settings.node)
        self._watch = EngineWatch(
            self._book,
            self.admission,
            settings.upstream_limits(),
            settings.node,
            left_grace_s=settings.retry.left_grace_s,
            engines=() if self._embedded is None else (self._embedded,),
            finder=EngineFinder() if settings.node.find_engines else None,
            changed=self._feed.changed,
        )
        self._app = App(
            node=node_id,
            book=self._book,
            admission=self.admission,
            report=self.report,
            feed=self._feed,
            body_limit_bytes=settings.proxy.body_limit_bytes,
        )
        self._front = Front(self._app.serve, settings.front_limits())
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Listen; raises UnusableAddress where that is not possible."""
        async with AsyncExitStack() as stack:
            if self._embedded is not None:
                await stack.enter_async_context(self._embedded)
            await stack.enter_async_context(self._front)
            self.address = await self._front.open(self._settings.node.listen)
            tasks = asyncio.TaskGroup()
            await tasks.__aenter__()
            watching = tasks.create_task(self._watch.run(), name="the watch over engines")

            async def stop_watching() -> None:
                watching.cancel()
                # Without the error that we are left by: the group would wrap it.
                await tasks.__aexit__(None, None, None)

            stack.push_async_callback(stop_watching)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    async def found_engine(self, limit_s: float) -> None:
        """Wait until some engine has answered, for `limit_s` at most: a node that is announced
        sooner would say that it holds nothing, and calls for its models would be refused.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._watch.found.wait()

    async def ready(self) -> None:
        """Wait until the embedded engine, where there is one, has loaded its model.

        Raises:
            SettingsError: it can't be loaded; the text says why.
            UnreachableNode: its process ended for another reason.
        """
        if self._embedded is not None:
            await self._embedded.ready()

    def report(self, proxy: str | None = None) -> NodeReport:
        """What this node says of itself now, from memory; to the proxy of this mark."""
        return NodeReport(
            node=self._node_id,
            name=self._name,
            version=self._version,
            draining=self._app.draining,
            replicas=self._book.replicas(proxy),
            warnings=(*self._watch.warnings(), *self._book.warnings()),
            process=self._process,
            number=self._feed.number,
        )

    async def drain(self, limit_s: float) -> None:
        """Take nothing new, let what runs end for `limit_s`, then end it.

        The report is served until then, so that proxies see a node that drains and not one that is
        lost with their work.
        """
        self._app.draining = True
        self._feed.changed()
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + limit_s
        with suppress(TimeoutError):
            async with asyncio.timeout_at(ends_at):
                await self._app.idle.wait()
        self._feed.close()
        await self._front.drain(max(0.0, ends_at - loop.time()))


def _embedded(settings: NodeSettings) -> EmbeddedEngine | None:
    """The engine for the user's own model file, None without one."""
    if not settings.model:
        return None
    return EmbeddedEngine(
        EmbeddedOptions(
            file=Path(settings.model).expanduser(),
            name="",
            slots=max(settings.slots, 1),
            context_tokens=settings.context_tokens,
            threads=settings.threads,
        )
    )
