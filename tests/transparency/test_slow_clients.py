"""Item 7: clients that read slowly, never, or have closed one half, at the production proxy."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from pair.settings import RelaySettings, Settings
from tests.proxy.raw_engine import Call
from tests.relay.wires import Wire, eventually, within
from tests.transparency.edges import Edge, edge, post

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
PIECE = b"1000\r\n" + b"d" * 4096 + b"\r\n"
AT_ONCE_S = 0.5
HELD_LIMIT_BYTES = 1024 * 1024
WRITE_LIMIT_S = 1.0
BUFFER_BYTES = 32 * 1024
"""Of a client's own socket, so that what it has not read is known."""
TINY_BUFFER_BYTES = 2 * 1024
"""With it the other side hears of each little that it reads."""


@pytest.fixture
async def door(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Edge]:
    monkeypatch.setattr("pair.relay.sweep.INTERVAL_S", 0.05)
    async with edge(Settings(relay=RelaySettings(write_limit_s=WRITE_LIMIT_S))) as opened:
        yield opened


@dataclass
class Stream:
    """An answer that its engine sends as fast as it is taken.

    Attributes:
        sent_bytes: has left the engine's program.
    """

    call: Call
    client: socket.socket
    sent_bytes: int = 0

    async def pour(self) -> None:
        """Until the connection ends."""
        writer = self.call.wire.writer
        writer.transport.set_write_buffer_limits(high=0)
        own = writer.get_extra_info("socket")
        own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
        writer.write(HEAD)
        try:
            while True:
                writer.write(PIECE)
                await writer.drain()
                self.sent_bytes += len(PIECE)
        except ConnectionError:
            return

    async def stalled(self) -> int:
        """How much has left the engine once no more does."""
        seen = -1
        async with asyncio.timeout(10):
            while seen != self.sent_bytes or not self.sent_bytes:
                seen = self.sent_bytes
                await asyncio.sleep(0.1)
        return seen


async def streaming(door: Edge, buffer_bytes: int = BUFFER_BYTES) -> Stream:
    """A call whose answer is about to begin, by a client with a small buffer."""
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    plain.setblocking(False)
    loop = asyncio.get_running_loop()
    name, _, port = door.address.rpartition(":")
    await within(loop.sock_connect(plain, (name, int(port))))
    await within(loop.sock_sendall(plain, post()))
    return Stream(await door.engine.next_call(), plain)


async def test_07_a_client_that_never_reads_is_cut_and_its_engine_stopped(door: Edge) -> None:
    stream = await streaming(door)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(stream.pour())
        await stream.call.until_hung_up()
    await eventually(lambda: door.house.snapshot().in_flight == 0)
    stream.client.close()


async def test_07_a_client_that_reads_slowly_is_not_cut_and_holds_little(door: Edge) -> None:
    """It takes three times the write limit, in which the kernel takes nothing more from us, since
    it wants a good part of what it holds to leave first; all that is held between the engine and
    the client, here and in the kernel, stays below the bound.
    """
    stream = await streaming(door, TINY_BUFFER_BYTES)
    loop = asyncio.get_running_loop()
    read_bytes = 0
    most_held_bytes = 0
    async with asyncio.TaskGroup() as tasks:
        pouring = tasks.create_task(stream.pour())
        ends_at = loop.time() + 3 * WRITE_LIMIT_S
        while loop.time() < ends_at:
            piece = await within(loop.sock_recv(stream.client, 512))
            assert piece, "cut"
            read_bytes += len(piece)
            most_held_bytes = max(most_held_bytes, stream.sent_bytes - read_bytes)
            await asyncio.sleep(0.025)  # 20 KiB/s; a slower one only takes longer to show it
        assert not pouring.done()
        assert 0 < most_held_bytes < HELD_LIMIT_BYTES
        stream.client.close()
        await stream.call.until_hung_up()


async def test_07_the_engine_waits_for_a_client_that_does_not_read(door: Edge) -> None:
    stream = await streaming(door)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(stream.pour())
        assert await stream.stalled() < HELD_LIMIT_BYTES
        stream.client.close()
        await stream.call.until_hung_up()


@pytest.mark.parametrize("begun", [False, True], ids=["before the answer", "in the middle"])
async def test_07_a_client_that_closes_its_sending_half_has_hung_up(
    door: Edge, begun: bool
) -> None:
    """From here it looks like one that has closed, as clients do who cancel: see
    docs/http-api.md.
    """
    stream = await streaming(door)
    wire: Wire = stream.call.wire
    if begun:
        await wire.send(HEAD + PIECE)
        loop = asyncio.get_running_loop()
        assert await within(loop.sock_recv(stream.client, 4096))
    stream.client.shutdown(socket.SHUT_WR)
    async with asyncio.timeout(AT_ONCE_S):
        await stream.call.until_hung_up()
    await eventually(lambda: door.house.snapshot().in_flight == 0)
    stream.client.close()


async def test_07_a_hang_up_is_seen_behind_any_amount_of_pipelined_requests(door: Edge) -> None:
    stream = await streaming(door)
    loop = asyncio.get_running_loop()
    # More than the kernel holds, so most of it has been read over there when it has left.
    await within(loop.sock_sendall(stream.client, post() * ((1 << 24) // len(post()))))
    stream.client.close()
    async with asyncio.timeout(AT_ONCE_S):
        await stream.call.until_hung_up()
    assert not door.engine.has_call
