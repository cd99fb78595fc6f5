"""The proxy as a whole: where it listens, what it opens and closes, and its orderly end."""

from __future__ import annotations

import asyncio
import json
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp
import pytest

from pair.bench.echo_engine.engine import EchoEngine
from pair.bench.echo_engine.settings import EchoSettings
from pair.core.events import NodeSighted
from pair.core.names import NodeId, Outcome
from pair.discovery.source import Listener
from pair.errors import SettingsError, UnusableAddress
from pair.proxy.memory import Memory
from pair.proxy.service import Proxy
from pair.settings import FixedNode, ProxySettings, Settings
from tests.support.house import FAST, WAIT_S, House, chat, house

STEADY = EchoSettings(prefill_rate_tokens_per_s=1e9, decode_rate_tokens_per_s=100.0)
FREE = "127.0.0.1:0"


def listening_at(*addresses: str, **more: object) -> Settings:
    return replace(Settings(), proxy=ProxySettings(listen=addresses), **more)  # type: ignore[arg-type]


class Told:
    """A source of nodes that keeps a diary."""

    def __init__(
        self, name: str, diary: list[str], *sightings: NodeSighted, fails: bool = False
    ) -> None:
        self._name = name
        self._diary = diary
        self._sightings = sightings
        self._fails = fails
        self._listener: Listener | None = None

    def made(self, listener: Listener) -> Self:
        """What the proxy calls to make it."""
        self._listener = listener
        return self

    async def __aenter__(self) -> Self:
        self._diary.append(f"{self._name} enters")
        if self._fails:
            raise SettingsError("no such network")
        assert self._listener is not None
        for sighting in self._sightings:
            self._listener(sighting)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._diary.append(f"{self._name} leaves")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the proxy makes its private folder."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@contextmanager
def nothing_stays(temporary: Path) -> Iterator[None]:
    """No task, no folder and (warnings being errors) no socket."""
    tasks = asyncio.all_tasks()
    yield
    assert asyncio.all_tasks() == tasks
    assert list(temporary.iterdir()) == []


async def get(address: str, path: str) -> int:
    async with aiohttp.ClientSession() as client, client.get(f"http://{address}{path}") as answer:
        return answer.status


async def test_it_listens_at_every_address_that_it_is_told(temporary: Path) -> None:
    unix = str(temporary / "own.sock")
    async with Proxy(listening_at(FREE, FREE, unix), proxy_id="p") as proxy:
        first, second, third = proxy.addresses
        assert len({first, second}) == 2
        assert third == unix
        assert [await get(address, "/healthz") for address in (first, second)] == [200, 200]
        reader, writer = await asyncio.open_unix_connection(unix)
        writer.write(b"GET /pair/v1/snapshot HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200")
        writer.close()
        await writer.wait_closed()


async def test_a_port_in_use_is_one_clear_sentence_and_all_else_is_closed(temporary: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with socket.create_server(("127.0.0.1", 0)) as reserved:
            free = reserved.getsockname()[1]
        settings = listening_at(f"127.0.0.1:{free}", f"127.0.0.1:{port}")
        with nothing_stays(temporary), pytest.raises(UnusableAddress) as raised:
            async with Proxy(settings, proxy_id="p"):
                pass
    assert str(raised.value) == f"cannot listen on 127.0.0.1:{port}: it is in use"
    async with Proxy(listening_at(f"127.0.0.1:{free}"), proxy_id="p") as proxy:
        assert await get(proxy.addresses[0], "/healthz") == 200


@pytest.mark.parametrize(
    "settings",
    [
        listening_at("nonsense"),
        listening_at(FREE, nodes=(FixedNode("ftp://x:1"),)),
        listening_at(FREE, nodes=(FixedNode("http://x:1"), FixedNode("http://x:1/v1"))),
        replace(Settings(), proxy=ProxySettings(listen=(FREE,), strategy="dice")),
    ],
    ids=["address", "url", "twice", "strategy"],
)
async def test_settings_that_cannot_be_used_leave_nothing_open(
    settings: Settings, temporary: Path
) -> None:
    with nothing_stays(temporary), pytest.raises((SettingsError, UnusableAddress)):
        async with Proxy(settings, proxy_id="p"):
            pass


async def test_its_parts_are_there_only_once_it_is_entered() -> None:
    proxy = Proxy(listening_at(FREE), proxy_id="p")
    assert proxy.addresses == ()
    with pytest.raises(RuntimeError, match="not been entered"):
        _ = proxy.scheduler
    async with proxy:
        assert proxy.scheduler is proxy.dispatcher.scheduler
        assert proxy.addresses


async def test_sources_are_entered_and_left_in_turn_and_heard(temporary: Path) -> None:
    diary: list[str] = []
    async with EchoEngine(FAST) as engine:
        sighting = NodeSighted(NodeId(engine.url), "echo", (engine.url,), fixed=True)
        sources = (Told("one", diary), Told("two", diary, sighting))
        made: list[Callable[[Listener], Told]] = [source.made for source in sources]
        with nothing_stays(temporary):
            async with Proxy(listening_at(FREE), proxy_id="p", sources=made) as proxy:
                assert diary == ["one enters", "two enters"]
                assert set(proxy.scheduler.membership.nodes) == {engine.url}
        assert diary == ["one enters", "two enters", "two leaves", "one leaves"]


async def test_a_source_that_cannot_be_opened_closes_what_was(temporary: Path) -> None:
    diary: list[str] = []
    sources = [Told("one", diary).made, Told("two", diary, fails=True).made]
    with nothing_stays(temporary), pytest.raises(SettingsError, match="no such network"):
        async with Proxy(listening_at(FREE), proxy_id="p", sources=sources):
            pass
    assert diary == ["one enters", "two enters", "one leaves"]


async def test_an_error_inside_comes_out_as_it_was(temporary: Path) -> None:
    with nothing_stays(temporary), pytest.raises(LookupError, match="mine"):
        async with Proxy(listening_at(FREE), proxy_id="p"):
            raise LookupError("mine")


async def draining(built: House, limit_s: float, tasks: asyncio.TaskGroup) -> asyncio.Task[None]:
    """The proxy being drained, once it is seen to be."""
    task = tasks.create_task(built.proxy.drain(limit_s))
    await built.until(lambda: built.snapshot().draining)
    return task


async def test_a_stopping_proxy_lets_what_runs_and_what_waits_end_and_takes_nothing_new() -> None:
    async with house(STEADY) as built, asyncio.TaskGroup() as tasks:
        running = await built.raw()
        running.post(chat(tokens=20, stream=True))
        await running.until(b"data:")
        waiting = tasks.create_task(built.send(chat(tokens=2)))
        await built.until(lambda: built.snapshot().waiting == 1)
        uploading, idle = await built.raw(), await built.raw()
        body = json.dumps(chat()).encode()
        uploading.writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: t\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(body), body[:-1])
        )
        idle.writer.write(b"GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n")
        assert b'"ok"' in await idle.until(b"}")
        ending = await draining(built, WAIT_S, tasks)
        assert await idle.rest() == b"", "an idle connection is closed"
        with pytest.raises(ConnectionError):
            await asyncio.open_connection(*built.address)
        uploading.writer.write(body[-1:])
        refused = await uploading.rest()
        assert refused.startswith(b"HTTP/1.1 503")
        assert b"shutting_down" in refused
        assert b"retry-after" in refused.lower()
        assert b"[DONE]" in await running.rest()
        assert (await waiting).status == 200
        await ending
        closed = built.snapshot().closed
        assert (closed[Outcome.ANSWERED], closed[Outcome.REFUSED]) == (2, 1)
        built.assert_books_are_clean()


async def test_a_stopping_proxy_that_has_waited_long_enough_ends_the_rest() -> None:
    async with house(STEADY) as built, asyncio.TaskGroup() as tasks:
        running, waiting = await built.raw(), await built.raw()
        running.post(chat(tokens=100_000, stream=True))
        await running.until(b"data:")
        waiting.post(chat(tokens=2))
        await built.until(lambda: built.snapshot().waiting == 1)
        await (await draining(built, 0.05, tasks))
        cut = await running.rest()
        assert b"[DONE]" not in cut
        assert not cut.endswith(b"0\r\n\r\n")
        assert (await waiting.rest()).startswith(b"HTTP/1.1 503")
        await built.quiet()
        assert built.snapshot().closed[Outcome.FAILED] == 2
        built.assert_books_are_clean()
        journal = built.engines[0].journal
        await journal.until(lambda: journal.counters.running == 0, WAIT_S)


async def test_left_in_the_middle_of_everything_it_leaves_nothing(temporary: Path) -> None:
    with nothing_stays(temporary):
        async with EchoEngine(STEADY) as engine:
            settings = listening_at(FREE, nodes=(FixedNode(engine.url),))
            async with Proxy(settings, proxy_id="p") as proxy:
                name, _, port = proxy.addresses[0].rpartition(":")
                reader, writer = await asyncio.open_connection(name, int(port))
                body = json.dumps(chat(tokens=100_000, stream=True)).encode()
                head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: t\r\n"
                writer.write(head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
                await reader.readuntil(b"data:")
            writer.transport.abort()
            await engine.journal.until(lambda: engine.journal.counters.running == 0, WAIT_S)
    assert proxy.scheduler.desk.closed_count[Outcome.FAILED] == 1
    assert not proxy.scheduler.desk.tickets


async def test_what_is_learned_of_the_house_survives_a_restart(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "learned.json", save_every_s=3600.0)
    async with EchoEngine(STEADY) as engine:
        settings = listening_at(FREE, nodes=(FixedNode(engine.url, name="one"),))
        async with (
            Proxy(settings, proxy_id="p", memory=memory) as proxy,
            aiohttp.ClientSession(f"http://{proxy.addresses[0]}") as client,
        ):
            question = chat(tokens=20)
            async with client.post("/v1/chat/completions", json=question) as answer:
                assert answer.status == 200
                await answer.read()
            learned = proxy.scheduler.matching.outlook.estimates.learned()
        again = Memory(tmp_path / "learned.json", save_every_s=3600.0)
        async with Proxy(settings, proxy_id="p", memory=again) as proxy:
            known = proxy.scheduler.matching.outlook.estimates
            (replica,) = learned.replicas
            before, speed = replica.tpots_s[0][1], known.speed(replica.replica)
            assert speed is not None
            assert speed.tpot_s == pytest.approx(before.value)
            assert speed.tpot_s == pytest.approx(0.01, rel=0.2)
