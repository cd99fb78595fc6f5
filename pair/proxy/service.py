"""The proxy as one thing that can be started and stopped: builds the parts and ties them
together.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from pair.core.events import DrainRequested
from pair.core.scheduler import Scheduler
from pair.core.strategies import strategy_named
from pair.discovery.fixed_list import FixedList, base_url
from pair.discovery.source import Listener, Source
from pair.proxy.admin import Admin
from pair.proxy.bare_engines import BareEngines
from pair.proxy.dispatcher import Dispatcher
from pair.proxy.front_door import FrontDoor
from pair.proxy.gate import Gate
from pair.proxy.links import Links
from pair.proxy.memory import Memory
from pair.proxy.prober import Prober
from pair.proxy.report_streams import ReportStreams
from pair.proxy.silence import Silences
from pair.relay.credentials import credential_of
from pair.relay.front import Front
from pair.relay.upstream_pool import UpstreamPool
from pair.settings import Settings


class Proxy:
    """Listens while it is entered.

    Args:
        proxy_id: lasting id of this proxy, for its snapshot.
        sources: makers of sources of nodes besides the user's own list, such as an mDNS browser.
        memory: where what is learned of the house is kept, None to forget it.

    Attributes:
        addresses: where it listens, with real ports, once entered.
        scheduler: for reading.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        proxy_id: str,
        sources: Sequence[Callable[[Listener], Source]] = (),
        memory: Memory | None = None,
    ) -> None:
        self.addresses: tuple[str, ...] = ()
        self._settings = settings
        self._proxy_id = proxy_id
        self._makers = sources
        self._memory = memory
        self._stack = AsyncExitStack()
        self._front: Front | None = None
        self._dispatcher: Dispatcher | None = None

    @property
    def scheduler(self) -> Scheduler:
        return self.dispatcher.scheduler

    @property
    def dispatcher(self) -> Dispatcher:
        """The owner of the scheduler."""
        if self._dispatcher is None:
            raise RuntimeError("the proxy has not been entered")
        return self._dispatcher

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await self._build(stack)
            self._stack = stack.pop_all()
        return self

    async def _build(self, stack: AsyncExitStack) -> None:
        settings, loop = self._settings, asyncio.get_running_loop()
        scheduler = Scheduler(
            settings.limits(), strategy_named(settings.proxy.strategy), loop.time()
        )
        if self._memory is not None:
            estimates = scheduler.matching.outlook.estimates
            await stack.enter_async_context(self._memory.kept(estimates))
        upstream_limits = settings.upstream_limits()
        keys = {
            base_url(node.url): key
            for node in settings.nodes
            if (key := credential_of(node)) is not None
        }
        links = Links(upstream_limits, scheduler.membership.nodes, keys)
        stack.callback(links.close)
        bare = BareEngines({base_url(node.url): node.slots for node in settings.nodes}, keys)
        streams = ReportStreams(links, bare, scheduler.membership.nodes)
        prober = Prober(links, bare, streams)
        dispatcher = self._dispatcher = Dispatcher(scheduler, loop, prober.probe)
        stack.callback(dispatcher.stop)
        await stack.enter_async_context(streams.open(dispatcher.feed))
        await stack.enter_async_context(prober.open(dispatcher.feed))
        admin = Admin(scheduler, dispatcher.feed, proxy_id=self._proxy_id)
        await stack.enter_async_context(admin)
        admin_pool = UpstreamPool(admin.address, upstream_limits)
        stack.callback(admin_pool.close)
        door = FrontDoor(
            dispatcher,
            links,
            Silences(settings.streams),
            admin_pool,
            body_limit_bytes=settings.proxy.body_limit_bytes,
            kept_ids_limit=settings.proxy.kept_ids_limit,
            started_at=time.time(),
        )
        gate = Gate(door.serve, origins=settings.proxy.cors_origins, names=settings.proxy.names)
        self._front = await stack.enter_async_context(Front(gate.serve, settings.front_limits()))
        self.addresses = tuple([await self._front.open(a) for a in settings.proxy.listen])
        await stack.enter_async_context(
            FixedList(dispatcher.feed, [(node.url, node.name) for node in settings.nodes])
        )
        for make in self._makers:
            await stack.enter_async_context(make(dispatcher.feed))

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    async def sound(self) -> None:
        """Never returns; raises BookkeepingError when this proxy cannot go on (a bug of ours)."""
        await self.dispatcher.sound()

    async def drain(self, limit_s: float) -> None:
        """Take nothing new, let what is open end for `limit_s`, then end it."""
        self.dispatcher.feed(DrainRequested())
        if self._front is not None:
            await self._front.drain(limit_s)
