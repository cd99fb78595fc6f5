"""What is asked of a TCP socket, and that a reset is one."""

from __future__ import annotations

import asyncio
import resource
import socket
from pathlib import Path
from typing import Any, cast

import pytest

from pair.relay.exchange import Exchange, plain_answer
from pair.relay.front import Front
from pair.relay.sockets import (
    FILES_ASIDE,
    KEEPALIVE_IDLE_S,
    UNSENT_BYTES,
    WRITE_HIGH_BYTES,
    WRITE_LOW_BYTES,
    connections_that_fit,
    reset,
    tune,
    unacknowledged_bytes,
)
from tests.relay.relays import FRONT_LIMITS
from tests.relay.wires import Wire, client, upstream, within


async def hello(exchange: Exchange) -> None:
    """Answers at once."""
    plain_answer(exchange, 200, "hello")


async def test_small_packets_leave_at_once_and_dead_connections_are_found() -> None:
    async def script(wire: Wire, told: Any) -> None:
        await wire.ended()

    async with upstream(script) as up:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(asyncio.Protocol, "127.0.0.1", up.port)
        tune(transport)
        connected = transport.get_extra_info("socket")
        assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == KEEPALIVE_IDLE_S
        assert transport.get_write_buffer_limits() == (WRITE_LOW_BYTES, WRITE_HIGH_BYTES)
        transport.abort()


async def test_a_reset_is_no_orderly_end() -> None:
    accepted: asyncio.Queue[asyncio.Transport] = asyncio.Queue()

    class Accepting(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport) or hasattr(transport, "abort")
            accepted.put_nowait(transport)  # type: ignore[arg-type]

    listening = await asyncio.get_running_loop().create_server(Accepting, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    async with client(f"127.0.0.1:{port}") as wire:
        reset(await within(accepted.get()))
        with pytest.raises(ConnectionResetError):
            await wire.read()
    listening.close()


async def test_a_unix_socket_is_left_alone(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    async with Front(hello, FRONT_LIMITS) as front:
        await front.open(path)
        async with client(path) as wire:
            await wire.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert (await wire.answer()).body == b"hello\n"


async def test_no_more_clients_than_there_are_files_for(monkeypatch: pytest.MonkeyPatch) -> None:
    files = FILES_ASIDE + 20
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    assert [connections_that_fit(limit) for limit in (5, 10, 11, 4096)] == [5, 10, 10, 10]
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    assert connections_that_fit(4096) == 4096


async def test_what_the_other_side_has_not_taken_is_known_and_bounded() -> None:
    loop = asyncio.get_running_loop()
    accepted: asyncio.Queue[asyncio.Transport] = asyncio.Queue()

    class Accepting(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            accepted.put_nowait(cast("asyncio.Transport", transport))

    listening = await loop.create_server(Accepting, "127.0.0.1", 0)
    with socket.create_connection(listening.sockets[0].getsockname()):
        transport = await within(accepted.get())
        tune(transport)
        assert unacknowledged_bytes(transport) == 0
        piece = bytes(UNSENT_BYTES)
        for _ in range(100):  # 6 MiB: more than the kernel would take
            transport.write(piece)
            await asyncio.sleep(0)
        assert 0 < unacknowledged_bytes(transport) < 8 * UNSENT_BYTES
        transport.abort()
    listening.close()
