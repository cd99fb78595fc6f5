from __future__ import annotations

import asyncio

from pair.cli.wiring import (
    OwnNode,
    make_private_proxy,
    node_name,
    own_sighting,
    running_node,
)
from pair.core.events import NodeSighted, NodeWithdrawn
from pair.core.names import NodeId
from pair.settings import NodeSettings, ProxySettings, Settings

QUIET = NodeSettings(name="attic", listen="127.0.0.1:0", find_engines=False)


def test_a_node_has_a_name_whatever_the_user_says() -> None:
    assert node_name(Settings(node=NodeSettings(name="attic\x07"))) == "attic"
    assert node_name(Settings())


async def test_its_own_node_is_told_at_once() -> None:
    heard: list[NodeSighted | NodeWithdrawn] = []
    sighting = NodeSighted(NodeId("id"), "attic", ("http://127.0.0.1:1",), fixed=True)
    async with OwnNode(heard.append, sighting):
        assert heard == [sighting]
    assert heard == [sighting]


async def test_a_node_is_found_by_mdns_on_loopback_but_no_stranger() -> None:
    wanted, stranger = NodeId("a" * 32), NodeId("b" * 32)
    settings = Settings(node=QUIET)
    private = Settings(proxy=ProxySettings(listen=("127.0.0.1:0",)))
    async with asyncio.timeout(20):
        async with (
            running_node(settings, stranger),
            running_node(settings, wanted, "test") as node,
            make_private_proxy(private, NodeId("c" * 32), "test") as proxy,
        ):
            assert own_sighting(settings, wanted, node).addresses == (f"http://{node.address}",)
            nodes = proxy.scheduler.membership.nodes
            while wanted not in nodes:  # noqa: ASYNC110 - the books have no bell
                await asyncio.sleep(0.002)
            assert list(nodes) == [wanted]
