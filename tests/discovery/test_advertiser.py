"""What a node says of itself on this machine's loopback; between machines: tests/lan."""

from __future__ import annotations

import pytest
from zeroconf import IPVersion
from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

from pair.core.events import NodeSighted
from pair.core.names import NodeId
from pair.discovery.advertiser import Advertiser
from pair.discovery.browser import Browser, Reach
from pair.errors import BookkeepingError
from pair.wire.advert import SERVICE_TYPE, Advert, instance_label
from tests.discovery.loopback import Inbox, new_id


async def test_the_record_holds_what_the_contract_says_and_no_more() -> None:
    advert = Advert(new_id(), "gaming-pc")
    async with (
        Advertiser(advert, "127.0.0.1", 7248),
        AsyncZeroconf(interfaces=["127.0.0.1"], ip_version=IPVersion.V4Only) as asking,
    ):
        record = AsyncServiceInfo(SERVICE_TYPE, f"{instance_label(advert)}.{SERVICE_TYPE}")
        assert await record.async_request(asking.zeroconf, 5000)
    assert record.port == 7248
    assert record.parsed_addresses() == ["127.0.0.1"]
    assert record.properties == {b"v": b"1", b"id": advert.node.encode(), b"name": b"gaming-pc"}


async def test_nodes_of_one_name_live_side_by_side() -> None:
    inbox, one, two = Inbox(), new_id(), new_id()
    async with (
        Browser(inbox, Reach.MACHINE),
        Advertiser(Advert(one, "raspberrypi"), "127.0.0.1", 7248),
        Advertiser(Advert(two, "raspberrypi"), "127.0.0.1", 7249),
    ):
        assert (await inbox.first(NodeSighted, one)).addresses == ("http://127.0.0.1:7248",)
        assert (await inbox.first(NodeSighted, two)).addresses == ("http://127.0.0.1:7249",)


async def test_an_address_that_this_machine_has_not_waits_for_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    inbox, node = Inbox(), new_id()
    async with (
        # Of the block for documentation (RFC 5737), which no network has.
        Advertiser(Advert(node, "moved"), "203.0.113.9", 7248),
        Browser(inbox, Reach.MACHINE),
        Advertiser(Advert(other := new_id(), "here"), "127.0.0.1", 7248),
    ):
        await inbox.first(NodeSighted, other)
    assert inbox.about(node) == []
    assert "no network of this machine has 203.0.113.9" in caplog.text


def test_only_a_bound_address_can_be_announced() -> None:
    with pytest.raises(BookkeepingError, match="gaming-pc"):
        Advertiser(Advert(NodeId("n1"), "x"), "gaming-pc", 7248)
