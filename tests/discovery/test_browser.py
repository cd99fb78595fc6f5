"""What a browser makes of the records on this machine's loopback; between machines: tests/lan."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest
from zeroconf import DNSOutgoing, IPVersion  # type: ignore[attr-defined] # public by its documentation
from zeroconf.asyncio import AsyncZeroconf

from pair.core.events import NodeSighted, NodeWithdrawn
from pair.discovery import browser
from pair.discovery.advertiser import Advertiser
from pair.discovery.browser import INCOMPLETE_LIMIT, Browser, Reach
from pair.wire.advert import Advert
from tests.discovery.loopback import Inbox, hears, new_id, record

_ANSWER = 0x8400


@pytest.fixture
async def sender() -> AsyncIterator[AsyncZeroconf]:
    """Something on loopback that may announce anything."""
    async with AsyncZeroconf(interfaces=["127.0.0.1"], ip_version=IPVersion.V4Only) as service:
        await service.zeroconf.async_wait_for_start()
        yield service


async def test_a_node_is_sighted_when_it_comes_and_withdrawn_when_it_goes() -> None:
    inbox, node = Inbox(), new_id()
    async with Browser(inbox, Reach.MACHINE):
        async with Advertiser(Advert(node, "gaming-pc"), "127.0.0.1", 7248):
            sighting = await inbox.first(NodeSighted, node)
            assert sighting == NodeSighted(node, "gaming-pc", ("http://127.0.0.1:7248",))
        await inbox.first(NodeWithdrawn, node)


async def test_a_node_that_was_there_before_is_sighted_too() -> None:
    inbox, node = Inbox(), new_id()
    async with (
        Advertiser(Advert(node, "gaming-pc"), "127.0.0.1", 7248),
        Browser(early := Inbox(), Reach.MACHINE),
    ):
        await early.first(NodeSighted, node)
        async with Browser(inbox, Reach.MACHINE):
            await inbox.first(NodeSighted, node)
    assert NodeWithdrawn(node) not in inbox.events


async def test_nothing_is_told_after_the_browser_is_left() -> None:
    inbox, node = Inbox(), new_id()
    async with Advertiser(Advert(node, "gaming-pc"), "127.0.0.1", 7248):
        async with Browser(inbox, Reach.MACHINE):
            await inbox.first(NodeSighted, node)
        told = len(inbox.events)
        other = Inbox()
        async with Browser(other, Reach.MACHINE):
            await other.first(NodeSighted, node)
    assert len(inbox.events) == told


async def test_an_error_in_the_block_comes_out_as_it_is() -> None:
    with pytest.raises(LookupError):
        async with Browser(Inbox(), Reach.MACHINE):
            raise LookupError


async def test_a_record_whose_id_changes_is_another_node(sender: AsyncZeroconf) -> None:
    inbox, first, second = Inbox(), new_id(), new_id()
    said = record(first, {b"v": b"1", b"id": first.encode(), b"name": b"x"})
    async with Browser(inbox, Reach.MACHINE):
        await sender.async_register_service(said, cooperating_responders=True)
        await inbox.first(NodeSighted, first)
        changed = record(first, {b"v": b"1", b"id": second.encode(), b"name": b"x"})
        await sender.async_update_service(changed)
        await inbox.first(NodeSighted, second)
        assert inbox.about(first)[-1] == NodeWithdrawn(first)


async def test_the_rest_of_a_record_in_pieces_is_asked_for(sender: AsyncZeroconf) -> None:
    inbox, node = Inbox(), new_id()
    said = record(node, {b"v": b"1", b"id": node.encode(), b"name": b"x"})
    async with Browser(inbox, Reach.MACHINE):
        await hears(inbox)
        sender.zeroconf.registry.async_add(said)
        packet = DNSOutgoing(_ANSWER)
        packet.add_answer_at_time(said.dns_pointer(), 0)
        sender.zeroconf.async_send(packet)
        await inbox.first(NodeSighted, node)


async def test_names_without_a_record_are_forgotten_at_a_bound(sender: AsyncZeroconf) -> None:
    inbox, node = Inbox(), new_id()
    async with Browser(inbox, Reach.MACHINE) as watching:
        await hears(inbox)
        for number in range(2 * INCOMPLETE_LIMIT):
            packet = DNSOutgoing(_ANSWER)
            packet.add_answer_at_time(record(f"{node}-{number}", {}).dns_pointer(), 0)
            sender.zeroconf.async_send(packet)
        said = record(node, {b"v": b"1", b"id": node.encode(), b"name": b"x"})
        await sender.async_register_service(said, cooperating_responders=True)
        await inbox.first(NodeSighted, node)
        assert 0 < watching.incomplete <= INCOMPLETE_LIMIT


async def test_records_that_cannot_be_used_are_warned_of_once_and_not_told(
    sender: AsyncZeroconf, caplog: pytest.LogCaptureFixture
) -> None:
    inbox, good = Inbox(), new_id()
    caplog.set_level(logging.WARNING, logger=browser.__name__)
    async with Browser(inbox, Reach.MACHINE):
        for label, properties, port in (
            ("newer", {b"v": b"2", b"id": b"newer"}, 7248),
            ("nameless", {b"v": b"1"}, 7248),
            ("portless", {b"v": b"1", b"id": b"portless"}, 0),
        ):
            wrong = record(f"{good}-{label}", properties, port)
            await sender.async_register_service(wrong, cooperating_responders=True)
            await sender.async_update_service(wrong)
        said = record(good, {b"v": b"1", b"id": good.encode(), b"name": b"x"})
        await sender.async_register_service(said, cooperating_responders=True)
        await inbox.first(NodeSighted, good)
    assert {event.node for event in inbox.events}.isdisjoint({"newer", "portless"})
    warnings = [entry.getMessage() for entry in caplog.records if good in entry.getMessage()]
    assert len(warnings) == 3
    assert "version 2" in warnings[0]
    assert "no usable id" in warnings[1]
    assert "no port" in warnings[2]


async def test_only_nodes_of_the_own_house_are_told_of() -> None:
    ours, theirs, everybodys = new_id(), new_id(), new_id()
    heard: list[NodeSighted | NodeWithdrawn] = []
    async with (
        Advertiser(Advert(theirs, "demo", "demo-1"), "127.0.0.1", 7248),
        Advertiser(Advert(everybodys, "real"), "127.0.0.1", 7248),
        Browser(heard.append, Reach.MACHINE, "demo-2"),
        Advertiser(Advert(ours, "demo", "demo-2"), "127.0.0.1", 7248),
    ):
        async with asyncio.timeout(10):
            while not heard:  # noqa: ASYNC110 - a list has no bell
                await asyncio.sleep(0.01)
    assert {event.node for event in heard} == {ours}
