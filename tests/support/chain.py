"""The whole way in one process: the production proxy, a node in front of each engine, echo engines.

Nodes are named by their URL, so that nothing depends on multicast.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from pair.agent.service import Node
from pair.bench.echo_engine.engine import EchoEngine
from pair.bench.echo_engine.settings import EchoSettings
from pair.core.names import NodeId
from pair.settings import FixedNode, NamedEngine, NodeSettings, Settings
from tests.support.house import House, house


@dataclass
class Chain:
    """A house whose nodes run `pair`.

    Attributes:
        house: the proxy and its clients; its `engines` are those behind the nodes, in their order.
    """

    house: House
    nodes: list[Node]

    def admitted(self) -> int:
        """Requests that the nodes count as running, over all of them."""
        return sum(node.admission.total() for node in self.nodes)

    def leased(self) -> int:
        """The same by the proxy's count."""
        return self.house.snapshot().in_flight

    def assert_books_are_clean(self) -> None:
        """Every count is back at zero, at the proxy and at each node."""
        self.house.assert_books_are_clean()
        assert [node.admission.total() for node in self.nodes] == [0] * len(self.nodes)


@asynccontextmanager
async def chain(*engines: EchoSettings, settings: Settings | None = None) -> AsyncIterator[Chain]:
    """Start engines, nodes and proxy; entered when the proxy finds every node ready."""
    async with AsyncExitStack() as stack:
        running = [await stack.enter_async_context(EchoEngine(each)) for each in engines]
        nodes = []
        for number, engine in enumerate(running):
            mine = NodeSettings(
                listen="127.0.0.1:0", engines=(NamedEngine(engine.url),), find_engines=False
            )
            node = Node(
                replace(settings or Settings(), node=mine),
                node_id=NodeId(f"id-{number}"),
                name=f"node-{number}",
                version="test",
            )
            nodes.append(await stack.enter_async_context(node))
        named = tuple(FixedNode(f"http://{node.address}") for node in nodes)
        behind = replace(settings or Settings(), nodes=named)
        built = await stack.enter_async_context(house(settings=behind))
        built.engines.extend(running)
        membership = built.proxy.scheduler.membership
        await built.until(
            lambda: sum(bool(node.replicas) for node in membership.nodes.values()) == len(running)
        )
        await built.ready(len(running))
        yield Chain(built, nodes)
