"""Connecting: several addresses behind a name, and in words why there is no connection."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pair.errors import NoSocketsLeft, UnreachableNode
from pair.relay.addresses import TcpAddress, parse_address
from pair.relay.dialing import STAGGER_S, Dialer, Resolved
from pair.relay.names import Names
from tests.relay.wires import Upstream, Wire, upstream, within


async def held(wire: Wire, told: Upstream) -> None:
    """A script: keep the connection until it is closed."""
    await wire.ended()


async def dial(address: str, limit_s: float = 3.0) -> asyncio.Protocol:
    """One connection."""
    return await within(Dialer(parse_address(address), limit_s).dial(asyncio.Protocol))


@contextmanager
def black_hole(name: str = "127.0.0.1") -> Iterator[int]:
    """A port that neither accepts nor refuses: its queue is full."""
    family = socket.AF_INET6 if ":" in name else socket.AF_INET
    with socket.socket(family) as listening:
        listening.bind((name, 0))
        listening.listen(0)
        where = listening.getsockname()
        waiting = []
        for _ in range(3):
            one = socket.socket(family)
            one.setblocking(False)
            one.connect_ex(where)
            waiting.append(one)
        try:
            yield where[1]
        finally:
            for one in waiting:
                one.close()


async def test_a_refused_port() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(UnreachableNode) as caught:
            await dial(f"127.0.0.1:{port}")
    assert str(caught.value) == (
        f"127.0.0.1:{port} refused the connection, so nothing listens there"
    )


async def test_a_port_that_does_not_answer() -> None:
    with black_hole() as port:
        started = asyncio.get_running_loop().time()
        with pytest.raises(UnreachableNode) as caught:
            await dial(f"127.0.0.1:{port}", 0.1)
        assert asyncio.get_running_loop().time() - started < 1
    assert str(caught.value) == f"127.0.0.1:{port} did not answer within 0.1 s"


async def test_a_name_that_is_not_known() -> None:
    with pytest.raises(UnreachableNode) as caught:
        await dial("no-such-name.invalid:80", 9.0)
    assert str(caught.value) == "no-such-name.invalid:80 cannot be reached, its name is not known"


async def test_a_network_without_a_route() -> None:
    with pytest.raises(UnreachableNode, match=r"^\[fe80::1%lo\]:9 cannot be reached"):
        await dial("[fe80::1%lo]:9", 1.0)


async def test_a_unix_socket_that_is_not_there() -> None:
    with pytest.raises(UnreachableNode, match=r"^/nowhere/s does not exist$"):
        await dial("/nowhere/s")


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost"])
async def test_literals_and_names(address: str) -> None:
    async with upstream(held) as up:
        protocol = await dial(f"{address}:{up.port}")
        assert isinstance(protocol, asyncio.Protocol)
        assert up.connections == 1


async def test_an_ipv6_literal() -> None:
    listening = await asyncio.start_server(lambda _, writer: writer.close(), "::1", 0)
    port = listening.sockets[0].getsockname()[1]
    assert isinstance(await dial(f"[::1]:{port}"), asyncio.Protocol)
    listening.close()


class House:
    """A name with several addresses, which no machine's own settings can be relied on to have."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *looked_up: list[str]) -> None:
        self.looked_up = list(looked_up)
        monkeypatch.setattr("pair.relay.dialing.look_up", self.look_up)

    async def look_up(self, address: TcpAddress, _: Names) -> list[Resolved]:
        """The next of what it is to find."""
        names = self.looked_up.pop(0)
        return [
            (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, (name, address.port))
            for name in names
        ]


async def test_an_address_that_is_silent_does_not_hold_up_the_next_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The one that worked is tried first from then on."""
    loop = asyncio.get_running_loop()
    house = House(monkeypatch, ["127.0.0.1", "127.0.0.2"])
    with black_hole() as port:
        listening = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.2", port)
        dialer = Dialer(TcpAddress("two.test", port), 3.0)
        spent = []
        for _ in range(3):
            started = loop.time()
            await within(dialer.dial(asyncio.Protocol))
            spent.append(loop.time() - started)
        listening.close()
    assert STAGGER_S * 0.9 < spent[0] < STAGGER_S + 0.75
    assert max(spent[1:]) < STAGGER_S
    assert house.looked_up == []


async def test_an_address_that_refuses_is_passed_over_at_once_and_a_moved_name_looked_up_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    house = House(
        monkeypatch, ["127.0.0.3", "127.0.0.2"], ["127.0.0.4"], ["127.0.0.5", "127.0.0.6"]
    )
    first = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.2", 0)
    port = first.sockets[0].getsockname()[1]
    dialer = Dialer(TcpAddress("two.test", port), 3.0)
    started = loop.time()
    await within(dialer.dial(asyncio.Protocol))
    assert loop.time() - started < STAGGER_S
    first.close()
    moved = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.4", port)
    await within(dialer.dial(asyncio.Protocol))
    moved.close()
    with pytest.raises(UnreachableNode, match=rf"^two\.test:{port} refused the connection"):
        await within(dialer.dial(asyncio.Protocol))
    assert house.looked_up == []


async def test_of_two_that_connect_at_once_one_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first is slow enough for the second to be tried beside it; both are there in the end."""
    monkeypatch.setattr("pair.relay.dialing.STAGGER_S", 0.0)
    House(monkeypatch, ["127.0.0.1", "127.0.0.1"])
    async with upstream(held) as up:
        await within(Dialer(TcpAddress("two.test", up.port), 3.0).dial(asyncio.Protocol))
        assert up.connections in (1, 2)


async def test_a_lack_of_our_own_is_not_blamed_on_the_address() -> None:
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with upstream(held) as up:
        dialer = Dialer(TcpAddress("127.0.0.1", up.port), 3.0)
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, most))
        try:
            with pytest.raises(NoSocketsLeft, match="Too many open files on this machine"):
                await within(dialer.dial(asyncio.Protocol))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))
        await within(dialer.dial(asyncio.Protocol))
