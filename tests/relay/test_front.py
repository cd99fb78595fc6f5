"""Listening, and the orderly end."""

from __future__ import annotations

import asyncio
import socket
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest

from pair.errors import UnusableAddress
from pair.relay.exchange import Exchange, plain_answer
from pair.relay.front import Front
from tests.relay.relays import FRONT_LIMITS
from tests.relay.wires import client, eventually, within

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


def names_in(folder: Path) -> list[str]:
    """What is in there."""
    return [path.name for path in folder.iterdir()]


async def hello(exchange: Exchange) -> None:
    """Answers at once."""
    plain_answer(exchange, 200, f"hello {exchange.client}")


@pytest.mark.parametrize("address", ["127.0.0.1:0", "[::1]:0", "localhost:0"])
async def test_it_listens_on_ports_and_says_which(address: str) -> None:
    async with Front(hello, FRONT_LIMITS) as front:
        bound = await front.open(address)
        assert bound.rpartition(":")[0] == address.rpartition(":")[0]
        assert int(bound.rpartition(":")[2]) > 0
        async with client(bound) as wire:
            await wire.send(GET)
            port = wire.writer.get_extra_info("sockname")[1]
            assert (await wire.answer()).body.endswith(f":{port}\n".encode())


async def test_it_listens_on_a_unix_socket(tmp_path: Path) -> None:
    path = str(tmp_path / "pair.sock")
    async with Front(hello, FRONT_LIMITS) as front:
        assert await front.open(path) == path
        async with client(path) as wire:
            await wire.send(GET)
            assert (await wire.answer()).body == b"hello local\n"
    assert names_in(tmp_path) == []


async def test_a_unix_socket_is_not_taken_from_whoever_listens_there(tmp_path: Path) -> None:
    path = str(tmp_path / "pair.sock")
    async with Front(hello, FRONT_LIMITS) as front:
        await front.open(path)
        async with Front(hello, FRONT_LIMITS) as other:
            with pytest.raises(UnusableAddress, match=rf"^cannot listen on {path}: it is in use$"):
                await other.open(path)
        async with client(path) as wire:
            await wire.send(GET)
            assert (await wire.answer()).status == 200


async def test_a_stale_unix_socket_is_replaced_and_any_other_file_is_not(tmp_path: Path) -> None:
    stale, plain = tmp_path / "stale.sock", tmp_path / "plain"
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(stale))
    plain.write_text("kept")
    async with Front(hello, FRONT_LIMITS) as front:
        await front.open(str(stale))
        async with client(str(stale)) as wire:
            await wire.send(GET)
            assert (await wire.answer()).status == 200
        with pytest.raises(UnusableAddress, match=rf"^cannot listen on {plain}: it is in use$"):
            await front.open(str(plain))
    assert names_in(tmp_path) == ["plain"]


async def test_only_ones_own_unix_socket_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "pair.sock"
    async with Front(hello, FRONT_LIMITS) as later:
        async with Front(hello, FRONT_LIMITS) as front:
            await front.open(str(path))
            path.unlink()
            await later.open(str(path))
        async with client(str(path)) as wire:
            await wire.send(GET)
            assert (await wire.answer()).status == 200
    assert names_in(tmp_path) == []


async def test_an_address_in_use_is_named() -> None:
    async with Front(hello, FRONT_LIMITS) as front, Front(hello, FRONT_LIMITS) as other:
        bound = await front.open("127.0.0.1:0")
        with pytest.raises(UnusableAddress, match=rf"^cannot listen on {bound}: it is in use$"):
            await other.open(bound)


async def test_what_is_raised_within_comes_out_as_it_is() -> None:
    with pytest.raises(UnusableAddress):
        async with Front(hello, FRONT_LIMITS) as front:
            await front.open("nonsense")


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("203.0.113.1:1", "this machine has no such address"),
        ("/nowhere/at/all.sock", "its folder does not exist"),
    ],
)
async def test_an_address_that_is_not_ours_is_named(address: str, why: str) -> None:
    async with Front(hello, FRONT_LIMITS) as front:
        with pytest.raises(UnusableAddress, match=rf"^cannot listen on {address}: {why}$"):
            await front.open(address)


async def test_a_name_that_is_not_known_is_named() -> None:
    async with Front(hello, FRONT_LIMITS) as front:
        with pytest.raises(UnusableAddress, match=r"^cannot listen on no-such-name\.invalid:1: "):
            await front.open("no-such-name.invalid:1")


async def test_draining_ends_idle_connections_and_lets_running_exchanges_finish() -> None:
    go_on, started = asyncio.Event(), asyncio.Event()

    async def serve(exchange: Exchange) -> None:
        if exchange.head.target == b"/slow":
            started.set()
            await go_on.wait()
        plain_answer(exchange, 200, "done")

    async with Front(serve, FRONT_LIMITS) as front:
        address = await front.open("127.0.0.1:0")
        async with client(address) as idle, client(address) as busy, asyncio.TaskGroup() as tasks:
            await idle.send(GET)
            await idle.answer()
            await busy.send(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
            await within(started.wait())
            draining = tasks.create_task(front.drain(10))
            assert await idle.rest() == b""
            with pytest.raises(OSError, match=r"refused|Connect call failed"):
                async with client(address):
                    pass
            assert not draining.done()
            go_on.set()
            got = await busy.answer()
            assert (got.body, got.values("connection")) == (b"done\n", ["close"])
            await within(draining)
            assert front.connections == 0


async def test_draining_cancels_what_takes_longer_and_says_so() -> None:
    cancelled: asyncio.Queue[bool] = asyncio.Queue()
    started = asyncio.Event()

    async def serve(exchange: Exchange) -> None:
        try:
            started.set()
            await asyncio.Event().wait()
        finally:
            cancelled.put_nowait(exchange.client_left)

    async with Front(serve, FRONT_LIMITS) as front, client(await front.open("127.0.0.1:0")) as wire:
        await wire.send(GET)
        await within(started.wait())
        await within(front.drain(0.05))
        assert await within(cancelled.get()) is False
        got = await wire.answer()
        assert (got.status, got.body) == (503, b"Shutting down.\n")
        assert front.connections == 0


async def test_leaving_ends_everything_at_once() -> None:
    ended: asyncio.Queue[bytes] = asyncio.Queue()

    async def serve(exchange: Exchange) -> None:
        try:
            if exchange.head.target == b"/after":
                plain_answer(exchange, 200, "early")
            started.release()
            await asyncio.Event().wait()
        finally:
            ended.put_nowait(exchange.head.target)

    started = asyncio.Semaphore(0)
    async with AsyncExitStack() as clients:
        async with Front(serve, FRONT_LIMITS) as front:
            address = await front.open("127.0.0.1:0")
            wire = await clients.enter_async_context(client(address))
            other = await clients.enter_async_context(client(address))
            await wire.send(GET)
            await other.send(b"GET /after HTTP/1.1\r\nHost: a\r\n\r\n")
            await within(started.acquire())
            await within(started.acquire())
        assert {ended.get_nowait(), ended.get_nowait()} == {b"/", b"/after"}
        await wire.ended()
        await other.ended()


@pytest.mark.parametrize("drain_s", [None, 0.02, 5.0])
async def test_ending_under_load_is_quiet(drain_s: float | None) -> None:
    """New requests and connections keep arriving while it ends; nothing of that is an error."""
    answered = 0

    async def hammer(address: str) -> None:
        nonlocal answered
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                async with client(address) as wire:
                    for _ in range(5):
                        await wire.send(GET * 3)
                        for _ in range(3):
                            await wire.answer()
                            answered += 1

    async with asyncio.TaskGroup() as tasks:
        async with Front(hello, FRONT_LIMITS) as front:
            address = await front.open("127.0.0.1:0")
            for _ in range(20):
                tasks.create_task(hammer(address))
            await eventually(lambda: answered > 200)
            if drain_s is not None:
                await front.drain(drain_s)
        # What was accepted in the very last moment is on its way out.
        await eventually(lambda: front.connections == 0)
