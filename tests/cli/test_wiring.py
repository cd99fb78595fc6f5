from __future__ import annotations

import asyncio

import pytest

from pair.cli.wiring import (
    OwnNode,
    is_loopback,
    make_private_proxy,
    node_name,
    own_sighting,
    resolved,
    running_node,
    tcp_address,
    within_machine,
)
from pair.core.events import NodeSighted, NodeWithdrawn
from pair.core.names import NodeId
from pair.errors import UnusableAddress
from pair.settings import NodeSettings, ProxySettings, Settings

QUIET = NodeSettings(name="attic", listen="127.0.0.1:0", find_engines=False)


@pytest.mark.parametrize(
    ("text", "loopback", "within"),
    [
        ("127.0.0.1:1", True, "127.0.0.1:1"),
        ("[::1]:1", True, "[::1]:1"),
        ("localhost:1", True, "localhost:1"),
        ("0.0.0.0:1", False, "127.0.0.1:1"),
        ("[::]:1", False, "[::1]:1"),
        ("[fe80::1%eth0]:1", False, "[fe80::1%eth0]:1"),
        ("attic.local:1", False, "attic.local:1"),
    ],
)
def test_who_can_reach_an_address_and_how_this_machine_does(
    text: str, loopback: bool, within: str
) -> None:
    assert is_loopback(tcp_address(text)) is loopback
    assert str(within_machine(tcp_address(text))) == within


def test_a_path_is_no_address_for_a_node() -> None:
    with pytest.raises(UnusableAddress, match="is a path"):
        tcp_address("/run/pair.sock")


async def test_a_name_to_listen_on_becomes_a_literal() -> None:
    assert await resolved(tcp_address("localhost:1")) in ("127.0.0.1", "::1")
    assert await resolved(tcp_address("[::1]:1")) == "::1"
    with pytest.raises(UnusableAddress, match=r"no-such-name\.invalid is no address"):
        await resolved(tcp_address("no-such-name.invalid:1"))


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
            running_node(settings, wanted) as node,
            make_private_proxy(private, NodeId("c" * 32), [wanted]) as proxy,
        ):
            assert own_sighting(settings, wanted, node).addresses == (f"http://{node.address}",)
            nodes = proxy.scheduler.membership.nodes
            while wanted not in nodes:  # noqa: ASYNC110 - the books have no bell
                await asyncio.sleep(0.002)
            assert list(nodes) == [wanted]
