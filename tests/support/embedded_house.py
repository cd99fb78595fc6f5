"""A house on a real engine: embedded llama.cpp nodes of one thread each, found by real mDNS on
loopback, and the proxy.

The engines run in processes of their own, as they do at home; nodes and proxy share this one.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

import pair
from pair.agent.service import Node
from pair.core.names import ModelName, NodeId
from pair.discovery.advertiser import Advertiser
from pair.discovery.browser import Browser, Reach
from pair.engines.embedded import EmbeddedEngine, EmbeddedOptions
from pair.engines.embedded_process import PROMPT_CACHE_MIB
from pair.engines.model_file import small_model_path
from pair.proxy.service import Proxy
from pair.settings import NodeSettings, ProxySettings, Settings
from pair.wire.advert import Advert

READY_S = 60.0


@dataclass(frozen=True)
class EmbeddedHouse:
    """The running parts; `engines` are the real engines' own URLs by node name."""

    proxy: Proxy
    base_url: str
    model: str
    engines: dict[str, str]


@asynccontextmanager
async def embedded_house(
    nodes: int,
    *,
    strategy: str | None = None,
    cache_mib: int = PROMPT_CACHE_MIB,
    slots: int = 1,
) -> AsyncIterator[EmbeddedHouse]:
    """Entered when every node has been found and is ready.

    Args:
        strategy: of the proxy, None for the default.
        cache_mib: what each engine may take for prompts of earlier requests.
        slots: of each engine, which all share its one thread.
    """
    # Names of its own: loopback is shared with whatever else announces itself on this machine.
    mark = secrets.token_hex(3)
    model = f"smollm2-{mark}"
    async with AsyncExitStack() as stack:
        engines = {}
        for number in range(nodes):
            options = EmbeddedOptions(small_model_path(), model, slots, 2048, 1, cache_mib)
            engine = EmbeddedEngine(options)
            name = f"node-{number}-{mark}"
            engines[name] = engine.url
            node_id = NodeId(secrets.token_hex(16))
            node = Node(
                Settings(node=NodeSettings(name=name, listen="127.0.0.1:0", find_engines=False)),
                node_id=node_id,
                name=name,
                version=pair.__version__,
                embedded=engine,
            )
            await stack.enter_async_context(node)
            await node.ready()
            port = int(node.address.rpartition(":")[2])
            advertiser = Advertiser(Advert(node_id, name, mark), "127.0.0.1", port)
            await stack.enter_async_context(advertiser)
        face = ProxySettings(listen=("127.0.0.1:0",))
        settings = Settings(proxy=replace(face, strategy=strategy) if strategy else face)
        sources = [lambda listener: Browser(listener, Reach.MACHINE, mark)]
        proxy = await stack.enter_async_context(Proxy(settings, proxy_id="test", sources=sources))
        fleet, name = proxy.scheduler.fleet, ModelName(model)
        async with asyncio.timeout(READY_S):
            while len(fleet.free(name)) < nodes:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        yield EmbeddedHouse(proxy, f"http://{proxy.addresses[0]}/v1", model, engines)
