"""Which address of a node is used; nothing is kept of nodes and addresses that are gone."""

from __future__ import annotations

import asyncio

import pytest

from pair.bench.echo_engine.engine import EchoEngine
from pair.core.events import NodeSighted, ProbeMissed
from pair.core.names import NodeId
from pair.core.queue_depth import QueueDepth
from pair.core.scheduler import Scheduler
from pair.proxy.links import Link, Links
from pair.relay.limits import UpstreamLimits
from pair.settings import ProbingSettings, Settings
from tests.support.house import FAST

LIMITS = UpstreamLimits(
    connect_limit_s=1.0, head_limit_bytes=65536, idle_upstream_s=4.0, idle_upstream_limit=4
)
A = NodeId("a")


class Table:
    """The scheduler's table of nodes, filled by sightings, with the links over it."""

    def __init__(self, nodes_limit: int = 1024) -> None:
        settings = Settings(probing=ProbingSettings(nodes_limit=nodes_limit))
        self.scheduler = Scheduler(settings.limits(), QueueDepth(), 0.0)
        self.links = Links(LIMITS, self.scheduler.membership.nodes, {})
        self.now = 0.0

    def sight(self, node: str, *urls: str) -> None:
        self.now += 1.0
        self.scheduler.handle(NodeSighted(NodeId(node), node, urls), self.now)

    def miss(self, node: str) -> None:
        self.scheduler.handle(ProbeMissed(NodeId(node), False, None, "no connection"), self.now)


@pytest.mark.parametrize(
    ("url", "name", "authority", "path"),
    [
        ("http://192.168.1.20:7248", "192.168.1.20:7248", b"192.168.1.20:7248", b""),
        ("http://pc.local:80/", "pc.local:80", b"pc.local:80", b""),
        ("http://pc.local", "pc.local:80", b"pc.local:80", b""),
        ("http://[fe80::1%eth0]:7248", "[fe80::1%eth0]:7248", b"[fe80::1]:7248", b""),
        ("http://pc.local:8080/engine/", "pc.local:8080", b"pc.local:8080", b"/engine"),
    ],
)
def test_a_base_url_is_taken_apart(url: str, name: str, authority: bytes, path: bytes) -> None:
    link = Link(url, LIMITS, None, b"mark")
    assert (link.pool.name, link.pool.authority, link.path) == (name, authority, path)
    assert link.url == url.rstrip("/")


def test_an_unknown_node_has_no_address_and_no_link() -> None:
    links = Table().links
    assert links.urls(A) == []
    assert links.to_node(A) is None
    assert links.last_byte_at(A) is None


async def test_the_address_that_last_worked_comes_first() -> None:
    table = Table()
    one, two, three = "http://one:1", "http://two:2", "http://three:3"
    table.sight("a", one, two, three)
    assert table.links.urls(A) == [one, two, three]
    table.links.worked(A, two)
    assert table.links.urls(A) == [two, one, three]
    link = table.links.to_node(A)
    assert link is not None
    assert link.url == two
    table.sight("a", one, three)  # its record has changed
    assert table.links.urls(A) == [one, three]
    table.links.close()


async def test_an_address_has_one_link_and_keeps_it() -> None:
    table = Table()
    table.sight("a", "http://one:1")
    link = table.links.to_node(A)
    assert table.links.to_node(A) is link
    table.links.close()


async def test_what_the_scheduler_no_longer_knows_is_forgotten() -> None:
    async with EchoEngine(FAST) as engine:
        table = Table(nodes_limit=2)
        table.sight("a", engine.url)
        link = table.links.to_node(A)
        assert link is not None
        request = b"GET /v1/models HTTP/1.1\r\nHost: t\r\n\r\n"
        upstream, _ = await link.pool.ask(request, [])
        await upstream.read_all(65536)
        upstream.release()
        assert link.pool.idle == 1
        assert table.links.last_byte_at(A) == pytest.approx(asyncio.get_running_loop().time(), 1.0)
        table.sight("a", "http://elsewhere:1")
        assert table.links.last_byte_at(A) is None
        table.links.to_node(A)  # a new link makes room by closing the old one
        async with asyncio.timeout(5.0):
            while link.pool.idle:  # noqa: ASYNC110 - the end of a connection has no bell
                await asyncio.sleep(0)
        table.links.close()


def test_the_memory_of_addresses_is_bounded_by_the_table_of_nodes() -> None:
    table = Table(nodes_limit=3)
    for number in range(20):
        # Each new stranger pushes an older one out, and each answers at its second address.
        node = NodeId(f"n{number}")
        table.sight(node, f"http://{node}:1", f"http://{node}:2")
        table.links.worked(node, f"http://{node}:2")
        table.miss(node)
    table.sight("n0", "http://n0:1", "http://n0:2")
    assert table.links.urls(NodeId("n0")) == ["http://n0:1", "http://n0:2"]
    assert table.links.urls(NodeId("n19")) == ["http://n19:2", "http://n19:1"]
