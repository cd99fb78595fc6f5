"""Issue 3, item 19: a request that becomes another protocol is a ticket, through nodes, too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace

import aiohttp
import aiohttp.web
import pytest

from pair.agent.service import Node
from pair.core.names import NodeId, Outcome
from pair.settings import FixedNode, NamedEngine, NodeSettings, RelaySettings, Settings
from tests.proxy.raw_engine import model_list, page
from tests.relay.wires import Upstream, Wire, client, eventually, upstream, within
from tests.support.house import House, house

HANG_UP_S = 0.5
"""The bound of issue 3."""

HANDSHAKE = (
    "Connection: keep-alive, Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Protocol: realtime",
)
SWITCHED = (
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
)
Tube = Callable[[Wire], Awaitable[None]]


async def echo(wire: Wire) -> None:
    """Switch, then say back whatever comes, up to its end."""
    await wire.send(SWITCHED)
    while piece := await wire.read():
        await wire.send(piece)


@dataclass
class Switching:
    """A house whose one engine switches.

    Attributes:
        tunnels: requests for another protocol that the engine has got, and not ended.
        nodes: what stands between, if anything.
    """

    home: House
    engine: Upstream
    tunnels: list[bytes]
    ended: asyncio.Event
    nodes: list[Node]

    @asynccontextmanager
    async def asked(
        self, *more: str, target: str = "/v1/realtime?model=raw"
    ) -> AsyncIterator[Wire]:
        """A client that has asked to switch."""
        async with client(self.home.proxy.addresses[0]) as wire:
            await wire.send(request(f"GET {target}", *HANDSHAKE, *more))
            yield wire

    @property
    def held(self) -> tuple[int, int]:
        """Slots that the proxy and the nodes count as taken."""
        admitted = sum(node.admission.total() for node in self.nodes)
        return self.home.snapshot().in_flight, admitted

    async def over(self, outcome: Outcome) -> None:
        """Wait until everything is given back, with this fate."""
        async with asyncio.timeout(HANG_UP_S):
            await self.ended.wait()
            while self.home.proxy.scheduler.desk.tickets or any(self.held):  # noqa: ASYNC110
                await asyncio.sleep(0.002)
        self.home.assert_books_are_clean()
        assert self.home.snapshot().closed.get(outcome) == 1


def request(line: str, *headers: str) -> bytes:
    return "\r\n".join([f"{line} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode()


@asynccontextmanager
async def switching(
    tube: Tube = echo, *, nodes: bool = False, settings: Settings | None = None
) -> AsyncIterator[Switching]:
    """Start it; with `nodes`, a `pair` node stands before the engine."""
    tunnels: list[bytes] = []
    ended = asyncio.Event()

    async def script(wire: Wire, told: Upstream) -> None:
        while True:
            head, _ = await wire.request()
            if b"\r\nupgrade: websocket" in head.lower():
                tunnels.append(head)
                try:
                    await tube(wire)
                finally:
                    ended.set()
                return
            known = head.startswith(b"GET /v1/models ")
            await wire.send(model_list("raw") if known else page(b"", 404))
            return

    async with AsyncExitStack() as stack:
        engine = await stack.enter_async_context(upstream(script))
        url, between = f"http://{engine.address}", []
        settings = settings or Settings()
        if nodes:
            mine = NodeSettings(
                listen="127.0.0.1:0", engines=(NamedEngine(url),), find_engines=False
            )
            node = Node(replace(settings, node=mine), node_id=NodeId("n"), name="n", version="test")
            between.append(await stack.enter_async_context(node))
            url = f"http://{node.address}"
        settings = replace(settings, nodes=(FixedNode(url),))
        home = await stack.enter_async_context(house(settings=settings))
        await home.until(lambda: bool(home.proxy.scheduler.fleet.names()))
        yield Switching(home, engine, tunnels, ended, between)


@pytest.mark.parametrize("nodes", [False, True])
async def test_19_websocket_is_a_ticket_for_as_long_as_it_lasts(nodes: bool) -> None:
    async with switching(nodes=nodes) as built:
        async with built.asked() as wire:
            head = await wire.until(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 101 ")
            for kept in (b"upgrade: websocket", b"connection: upgrade", b"s3pplmbitxaq9kygzzhzrbk"):
                assert kept in head.lower()
            assert b"x-pair-node: " in head
            asked = built.tunnels[0].lower()
            for line in HANDSHAKE[1:]:
                assert asked.count(line.lower().encode()) == 1
            assert asked.count(b"connection: upgrade\r\n") == 1
            assert built.held == (1, 1 if nodes else 0)
            for number in range(3):
                await wire.send(b"\x81 frame %d" % number)
                assert await wire.until(b"%d" % number) == b"\x81 frame %d" % number
            assert built.held == (1, 1 if nodes else 0)
            wire.writer.write_eof()
            assert await wire.rest() == b""
        await built.over(Outcome.ANSWERED)


@pytest.mark.parametrize("nodes", [False, True])
async def test_19_a_client_that_goes_ends_both_sides(nodes: bool) -> None:
    async with switching(nodes=nodes) as built, built.asked() as wire:
        await wire.until(b"\r\n\r\n")
        wire.reset()
        await built.over(Outcome.CLIENT_LEFT)


@pytest.mark.parametrize("nodes", [False, True])
async def test_19_an_engine_that_goes_ends_both_sides(nodes: bool) -> None:
    async def dies(wire: Wire) -> None:
        await wire.send(SWITCHED + b"first")
        await wire.read()
        wire.reset()

    async with switching(dies, nodes=nodes) as built, built.asked() as wire:
        await wire.until(b"first")
        await wire.send(b"die")
        assert b"first" not in await within(wire.rest(), HANG_UP_S)
        await built.over(Outcome.FAILED)


async def test_19_a_half_close_is_passed_on() -> None:
    async def counts(wire: Wire) -> None:
        await wire.send(SWITCHED)
        got = await wire.rest()
        await wire.send(b"%d bytes" % len(got))

    async with switching(counts) as built, built.asked() as wire:
        await wire.until(b"\r\n\r\n")
        await wire.send(b"x" * 1000)
        wire.writer.write_eof()
        assert await wire.rest() == b"1000 bytes"
        await built.over(Outcome.ANSWERED)


@pytest.mark.parametrize("nodes", [False, True])
async def test_19_what_comes_before_the_101_is_kept_in_order(nodes: bool) -> None:
    go = asyncio.Event()

    async def waits(wire: Wire) -> None:
        await go.wait()
        await echo(wire)

    sent = bytes(range(256)) * 2048  # twice what is held
    async with switching(waits, nodes=nodes) as built, built.asked() as wire:
        wire.writer.write(sent)
        await eventually(lambda: bool(built.tunnels))
        go.set()
        await wire.until(b"\r\n\r\n")
        assert await within(wire.reader.readexactly(len(sent))) == sent


@pytest.mark.parametrize("nodes", [False, True])
async def test_19_nothing_piles_up_behind_one_who_does_not_read(nodes: bool) -> None:
    """Back-pressure both ways: the sender is stopped, and goes on when the other one reads."""
    go = asyncio.Event()
    size = 24 * 1024 * 1024

    async def sleeps(wire: Wire) -> None:
        await wire.send(SWITCHED)
        reading = wire.writer.transport
        assert isinstance(reading, asyncio.Transport)
        reading.pause_reading()
        await go.wait()
        reading.resume_reading()
        await within(wire.reader.readexactly(size))
        wire.writer.write(b"y" * size)
        await within(wire.writer.drain())
        await wire.ended()

    async with switching(sleeps, nodes=nodes) as built, built.asked() as wire:
        await wire.until(b"\r\n\r\n")
        wire.writer.write(b"x" * size)
        await asyncio.wait_for(_stuck(wire), 10)
        assert wire.writer.transport.get_write_buffer_size() > size // 3
        go.set()
        await within(wire.reader.readexactly(size))


async def _stuck(wire: Wire) -> None:
    """Until nothing more leaves for some turns of the loop."""
    same, before = 0, -1
    while same < 200:
        now = wire.writer.transport.get_write_buffer_size()
        same, before = (same + 1 if now == before else 0), now
        await asyncio.sleep(0.0005)


@pytest.mark.parametrize("nodes", [False, True])
@pytest.mark.parametrize("resets", [True, False])
async def test_19_an_engine_that_takes_nothing_holds_no_slot_for_ever(
    resets: bool, nodes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client is not read from, so that its end would not be seen either."""
    monkeypatch.setattr("pair.relay.sweep.INTERVAL_S", 0.01)

    async def sleeps(wire: Wire) -> None:
        await wire.send(SWITCHED)
        reading = wire.writer.transport
        assert isinstance(reading, asyncio.Transport)
        reading.pause_reading()
        async with asyncio.timeout(10):
            while built.home.proxy.scheduler.desk.tickets:  # noqa: ASYNC110 - no bell
                await asyncio.sleep(0.002)

    settings = Settings(relay=RelaySettings(write_limit_s=9.0 if resets and not nodes else 0.3))
    async with switching(sleeps, nodes=nodes, settings=settings) as built, built.asked() as wire:
        await wire.until(b"\r\n\r\n")
        wire.writer.write(b"x" * (24 << 20))
        await asyncio.wait_for(_stuck(wire), 10)
        if resets:
            wire.reset()
        await within(built.ended.wait())
        await built.home.until(lambda: built.held == (0, 0))
        built.home.assert_books_are_clean()


async def test_19_a_refused_upgrade_is_an_answer_and_leaves_a_clean_connection() -> None:
    """No bytes of the client reach an engine that has not switched."""
    seen: list[bytes] = []

    async def refuses(wire: Wire) -> None:
        await wire.send(b"HTTP/1.1 426 Upgrade Required\r\nContent-Length: 2\r\n\r\nno")
        with suppress(ConnectionError):
            seen.append(await wire.read())

    async with switching(refuses) as built, built.asked() as wire:
        await wire.send(request("GET /v1/models") + request("GET /healthz"))
        first = await wire.answer()
        assert (first.status, first.body) == (426, b"no")
        assert b'"raw"' in (await wire.answer()).body
        assert (await wire.answer()).body == b'{"status": "ok"}'
        await built.over(Outcome.ANSWERED)
    assert seen == [b""]


async def test_19_h2c_is_an_offer_that_is_not_taken() -> None:
    async with switching() as built, client(built.home.proxy.addresses[0]) as wire:
        offer = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")
        for _ in range(2):
            await wire.send(request("GET /v1/models", *offer))
            assert (await wire.answer()).status == 200
    assert not built.tunnels


async def test_19_a_tunnel_waits_for_a_slot() -> None:
    async with switching() as built, built.asked() as one:
        await one.until(b"\r\n\r\n")
        async with built.asked(target="/v1/anything?model=raw") as two:
            await built.home.until(lambda: built.home.snapshot().waiting == 1)
            assert len(built.tunnels) == 1
            one.reset()
            assert (await two.until(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
            assert built.held == (1, 0)


async def test_19_an_engine_that_cannot_is_retried_like_any_call() -> None:
    tries: list[int] = []

    async def busy_once(wire: Wire) -> None:
        tries.append(1)
        if len(tries) == 1:
            await wire.send(page(b"busy", 503))
        else:
            await echo(wire)

    async with switching(busy_once) as built, built.asked() as wire:
        head = await wire.until(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 ")
        assert len(tries) == 2


async def test_19_a_stopping_proxy_cuts_tunnels_at_its_limit() -> None:
    async with switching() as built, built.asked() as wire:
        await wire.until(b"\r\n\r\n")
        await within(built.home.proxy.drain(0.1))
        assert await wire.rest() == b"<reset>"
        await built.over(Outcome.FAILED)


async def test_19_real_websockets_pass() -> None:
    """With aiohttp at both ends, with its ping, its messages of 1 MiB and its goodbye."""

    async def realtime(request: aiohttp.web.Request) -> aiohttp.web.StreamResponse:
        socket = aiohttp.web.WebSocketResponse(protocols=("realtime",))
        await socket.prepare(request)
        async for message in socket:
            await socket.send_bytes(message.data)
        return socket

    async def models(_: aiohttp.web.Request) -> aiohttp.web.StreamResponse:
        return aiohttp.web.json_response({"object": "list", "data": [{"id": "raw"}]})

    app = aiohttp.web.Application()
    app.add_routes(
        [aiohttp.web.get("/v1/realtime", realtime), aiohttp.web.get("/v1/models", models)]
    )
    runner = aiohttp.web.AppRunner(app)
    await runner.setup()
    try:
        site = aiohttp.web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with house(settings=replace(Settings(), nodes=(FixedNode(url),))) as home:
            await home.until(lambda: bool(home.proxy.scheduler.fleet.names()))
            async with home.client.ws_connect(
                "/v1/realtime?model=raw", protocols=("realtime",)
            ) as socket:
                assert socket.protocol == "realtime"
                for size in (1, 125, 70_000, 1 << 20):
                    await socket.send_bytes(b"z" * size)
                    assert await socket.receive_bytes(timeout=10) == b"z" * size
                await socket.close()
            await home.quiet()
            home.assert_books_are_clean()
            assert home.snapshot().closed[Outcome.ANSWERED] == 1
    finally:
        await runner.cleanup()
