"""Looking names up: a hung one is in nobody's way."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from pair.relay import names
from pair.relay.names import Names

BOUND_S = 10.0


class Resolver:
    """The system's, but that names with `hangs` in them are not answered until it is let go.

    Attributes:
        asked: how often, by name.
    """

    def __init__(self, system: Any) -> None:
        self._system = system
        self.let_go = threading.Event()
        self.asked: Counter[str] = Counter()

    def __call__(self, name: str, port: int, **options: Any) -> Any:
        self.asked[name] += 1
        if "hangs" in name:
            self.let_go.wait(BOUND_S)
            raise socket.gaierror(socket.EAI_AGAIN, "nobody answers")
        return self._system(name, port, **options)


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolver]:
    made = Resolver(socket.getaddrinfo)
    monkeypatch.setattr(socket, "getaddrinfo", made)
    yield made
    made.let_go.set()


async def test_many_names_that_hang_hold_up_none_that_is_known(resolver: Resolver) -> None:
    looking = Names()
    ended: list[str] = []

    async def hang(name: str) -> None:
        with pytest.raises(socket.gaierror):
            await looking.look_up(name, 80)
        ended.append(name)

    async with asyncio.timeout(BOUND_S), asyncio.TaskGroup() as tasks:
        for number in range(40):
            tasks.create_task(hang(f"hangs-{number}"))
        found = await looking.look_up("localhost", 80)
        assert {where[4][1] for where in found} == {80}
        assert not ended
        resolver.let_go.set()
    assert len(ended) == 40


async def test_a_name_that_hangs_has_one_thread_however_often_it_is_given_up(
    resolver: Resolver,
) -> None:
    looking = Names()
    for _ in range(5):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await looking.look_up("hangs", 80)
    assert resolver.asked["hangs"] == 1


async def test_there_is_an_end_to_the_threads(
    resolver: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names, "THREADS_LIMIT", 2)
    looking = Names()
    for name in ("hangs-1", "hangs-2"):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await looking.look_up(name, 80)
    with pytest.raises(socket.gaierror, match="too many names"):
        await looking.look_up("localhost", 80)


async def test_what_is_no_name_is_not_known() -> None:
    with pytest.raises(socket.gaierror):
        await Names().look_up("a" * 64 + ".b", 80)
