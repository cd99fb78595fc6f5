"""Who is built from what: the one place where the long-lived objects come together.

Everything is an async context manager and takes what it needs as arguments, so what is here reads
as the picture of a running proxy and a running node.
"""

from __future__ import annotations

import platform
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import pair
from pair.agent.service import Node
from pair.cli.addresses import resolved, tcp_address, within_machine
from pair.core.events import NodeSighted
from pair.core.names import NodeId
from pair.discovery.advertiser import Advertiser
from pair.discovery.browser import Browser, Reach
from pair.discovery.source import Listener, Source
from pair.proxy.memory import FILE_NAME, Memory
from pair.proxy.service import Proxy
from pair.settings import Settings
from pair.wire.advert import Advert, clean_name

FIRST_LOOK_S = 1.0
"""Longest wait for an engine before a node is announced; one that is there answers in 50 ms."""


class OwnNode:
    """A `Source` of the node in this very process: known before any mDNS record, or without."""

    def __init__(self, listener: Listener, sighting: NodeSighted) -> None:
        self._listener = listener
        self._sighting = sighting

    async def __aenter__(self) -> Self:
        self._listener(self._sighting)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing was opened."""


def make_proxy(
    settings: Settings, machine: NodeId, state: Path, own: NodeSighted | None = None
) -> Proxy:
    """A proxy, to be entered.

    Args:
        machine: the id of the machine that it runs on.
        state: the folder in which it keeps what it learns.
        own: the node in this process, None without one.
    """
    memory = Memory(state / FILE_NAME, save_every_s=settings.estimates.save_every_s)
    sources: list[Callable[[Listener], Source]] = []
    if settings.proxy.discovery:
        sources.append(lambda listener: Browser(listener, Reach.NETWORK))
    if own is not None:
        sources.append(lambda listener: OwnNode(listener, own))
    return Proxy(settings, proxy_id=machine, sources=sources, memory=memory)


def make_private_proxy(settings: Settings, machine: NodeId, house: str) -> Proxy:
    """A proxy that looks for nodes on this machine only and takes none but those of this house."""
    sources = [lambda listener: Browser(listener, Reach.MACHINE, house)]
    return Proxy(settings, proxy_id=machine, sources=sources)


@asynccontextmanager
async def running_node(settings: Settings, machine: NodeId, house: str = "") -> AsyncIterator[Node]:
    """A node that listens, watches its engines and is announced; it is not drained at the end.

    Args:
        house: whose node it is, "" for everybody's.

    Raises:
        SettingsError: an engine's URL or the embedded engine's model cannot be used.
        UnusableAddress: where it should listen, it cannot.
    """
    name = node_name(settings)
    async with AsyncExitStack() as stack:
        node = Node(settings, node_id=machine, name=name, version=pair.__version__)
        await stack.enter_async_context(node)
        address = tcp_address(node.address)
        literal = await resolved(address)
        await node.found_engine(FIRST_LOOK_S)
        advert = Advert(machine, name, house)
        await stack.enter_async_context(Advertiser(advert, literal, address.port))
        yield node


def own_sighting(settings: Settings, machine: NodeId, node: Node) -> NodeSighted:
    """The node in this process as its proxy is told of it."""
    url = f"http://{within_machine(tcp_address(node.address))}"
    return NodeSighted(machine, node_name(settings), (url,), fixed=True)


def node_name(settings: Settings) -> str:
    """What the node is called: the user's word, else the machine's name."""
    return clean_name(settings.node.name) or clean_name(platform.node()) or "node"
