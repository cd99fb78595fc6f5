"""A switched connection without tickets: its ends, and what is no switch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from pair.errors import NodeFault
from pair.relay import tunnel
from pair.relay.exchange import Exchange, plain_answer
from pair.relay.front import Front
from pair.relay.heads import request_bytes
from pair.relay.passage import carry
from pair.relay.upstream_pool import UpstreamPool
from tests.relay.relays import FRONT_LIMITS, UPSTREAM_LIMITS, Tap
from tests.relay.wires import Upstream, Wire, client, upstream, within

ASK = b"GET /t HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: tube/1\r\n\r\n"
YES = b"HTTP/1.1 101 Yes\r\nConnection: Upgrade\r\nUpgrade: tube/1\r\n"


@asynccontextmanager
async def tube(address: str) -> AsyncIterator[tuple[Wire, UpstreamPool]]:
    """A client behind a bare relay to this address; a fault becomes a 502."""
    pool = UpstreamPool(address, UPSTREAM_LIMITS)

    async def serve(exchange: Exchange) -> None:
        switches = bool(exchange.head.protocol)
        head = request_bytes(exchange.head, authority=pool.authority, body_length=0)
        try:
            answer, answer_head = await pool.ask(head, [], switches=switches)
            await carry(exchange, answer, answer_head, Tap())
        except NodeFault as fault:
            if exchange.begun:
                exchange.cut()
            else:
                plain_answer(exchange, 502, str(fault))

    async with Front(serve, FRONT_LIMITS) as front, client(await front.open("127.0.0.1:0")) as wire:
        yield wire, pool
    pool.close()


async def test_what_comes_with_the_101_follows_it_and_a_length_means_nothing() -> None:
    async def script(wire: Wire, told: Upstream) -> None:
        told.requests.append(await wire.request())
        await wire.send(YES + b"Content-Length: 0\r\n\r\nhello")
        await wire.ended()

    async with upstream(script) as told, tube(told.address) as (wire, _):
        await wire.send(ASK)
        head = await wire.until(b"\r\n\r\n")
        assert b"content-length" not in head.lower()
        assert head.lower().count(b"upgrade: tube/1") == 1
        assert await within(wire.reader.readexactly(5)) == b"hello"
        assert b"\r\nConnection: Upgrade\r\nUpgrade: tube/1\r\n" in told.requests[0][0]


async def test_a_half_open_tunnel_is_closed_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that does not notice the client's end cannot hold its slot for ever."""
    monkeypatch.setattr(tunnel, "HALF_OPEN_S", 0.05)
    let_go = asyncio.Event()

    async def script(wire: Wire, told: Upstream) -> None:
        await wire.request()
        await wire.send(YES + b"\r\n")
        await wire.ended()
        await let_go.wait()

    async with upstream(script) as told, tube(told.address) as (wire, _):
        await wire.send(ASK)
        await wire.until(b"\r\n\r\n")
        wire.writer.write_eof()
        assert await wire.rest() == b""
        let_go.set()


async def test_a_switch_that_nobody_asked_for_is_no_http() -> None:
    async def script(wire: Wire, told: Upstream) -> None:
        await wire.request()
        await wire.send(YES + b"\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        await wire.ended()

    for request in (
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: tube/1\r\n\r\n",
        ASK.replace(b"tube/1", b"h2c"),
        ASK.replace(b"HTTP/1.1", b"HTTP/1.0"),
    ):
        async with upstream(script) as told, tube(told.address) as (wire, _):
            await wire.send(request)
            answer = await wire.answer()
            assert answer.status == 502
            assert b"another protocol" in answer.body


async def test_a_connection_that_was_asked_to_switch_serves_nobody_else() -> None:
    async def script(wire: Wire, told: Upstream) -> None:
        while True:
            told.requests.append(await wire.request())
            await wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno")

    async with upstream(script) as told, tube(told.address) as (wire, pool):
        plain = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        for request, connections, idle in ((plain, 1, 1), (ASK, 2, 1), (plain, 2, 1)):
            await wire.send(request)
            assert (await wire.answer()).body == b"no"
            assert (told.connections, pool.idle) == (connections, idle)
