"""A node as a whole: named engines, its report, its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from pair.agent.service import Node
from pair.bench.echo_engine import EchoEngine, EchoSettings
from pair.core.names import NodeId
from pair.core.reports import ReplicaState
from pair.engines.model_file import small_model_path
from pair.errors import SettingsError, UnusableAddress
from pair.settings import NamedEngine, NodeSettings, Settings
from pair.wire.node_report import decode_report
from tests.agent.face import SOON_S, chat, until

CHAT = "/v1/chat/completions"
QUICK = NodeSettings(busy_look_s=0.02, idle_look_s=0.05, find_s=0.05, find_engines=False)


def node(*engines: str, listen: str = "127.0.0.1:0", slots: int = 0) -> Node:
    named = tuple(map(NamedEngine, engines))
    settings = replace(QUICK, listen=listen, engines=named, slots=slots)
    return Node(Settings(node=settings), node_id=NodeId("n1"), name="pc", version="9.9")


@asynccontextmanager
async def ready(engine: EchoEngine) -> AsyncIterator[tuple[Node, aiohttp.ClientSession]]:
    async with node(engine.url) as started, aiohttp.ClientSession() as client:
        await until(lambda: len(started.report().replicas) == 1)
        yield started, client


async def test_a_node_reports_and_serves() -> None:
    async with EchoEngine(EchoSettings(answer_tokens=2)) as engine, ready(engine) as (pc, client):
        url = f"http://{pc.address}"
        async with client.get(url + "/pair/v1/report") as answer:
            report = decode_report(await answer.read())
        assert (report.node, report.name, report.version) == ("n1", "pc", "9.9")
        (replica,) = report.replicas
        assert replica.model == "echo"
        headers = {"x-pair-engine": replica.engine, "x-pair-model": replica.model}
        async with client.post(url + CHAT, data=chat(), headers=headers) as answer:
            assert answer.status == 200
        assert engine.journal.counters.fates == {"done": 1}


async def test_an_engine_that_is_missing_is_a_warning() -> None:
    async with node("http://127.0.0.1:9") as pc:
        await until(lambda: pc.report().warnings != ())
        assert "http://127.0.0.1:9" in pc.report().warnings[0]
        assert pc.report().replicas == ()


async def test_a_draining_node_says_so_finishes_and_ends() -> None:
    slow = EchoSettings(decode_rate_tokens_per_s=50, answer_tokens=20)
    async with EchoEngine(slow) as engine, ready(engine) as (pc, client):
        url = f"http://{pc.address}"
        async with client.post(url + CHAT, data=chat(stream=True)) as running:
            await running.content.readuntil(b"\n\n")
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(pc.drain(SOON_S))
                await until(lambda: pc.report().draining)
                async with client.get(url + "/pair/v1/report") as answer:
                    assert decode_report(await answer.read()).draining
                assert (await running.read()).endswith(b"data: [DONE]\n\n")
        with pytest.raises(aiohttp.ClientConnectorError):
            await client.get(url + "/pair/v1/report")


async def test_what_does_not_end_in_time_is_ended() -> None:
    endless = EchoSettings(decode_rate_tokens_per_s=50, answer_tokens=1_000_000)
    async with EchoEngine(endless) as engine, ready(engine) as (pc, client):
        async with client.post(f"http://{pc.address}{CHAT}", data=chat(stream=True)) as running:
            await running.content.readuntil(b"\n\n")
            await pc.drain(0.01)
            with pytest.raises(aiohttp.ClientError):
                await running.read()
        journal = engine.journal
        await journal.until(lambda: journal.counters.fates["hung_up"] == 1, SOON_S)


@pytest.mark.engine
async def test_a_node_runs_the_model_that_it_is_given() -> None:
    settings = replace(
        QUICK,
        listen="127.0.0.1:0",
        model=str(small_model_path()),
        context_tokens=512,
        slots=2,
        threads=1,
    )
    started = Node(Settings(node=settings), node_id=NodeId("n1"), name="pc", version="9.9")
    async with started, aiohttp.ClientSession() as client:
        await until(lambda: [r.state for r in started.report().replicas] == [ReplicaState.LOADING])
        await until(lambda: [r.state for r in started.report().replicas] == [ReplicaState.READY])
        (replica,) = started.report().replicas
        assert (replica.engine, replica.slots, replica.context_tokens) == ("embedded", 2, 512)
        body = chat(replica.model, max_tokens=3)
        async with client.post(f"http://{started.address}{CHAT}", data=body) as answer:
            assert answer.status == 200
            assert (await answer.json())["usage"]["completion_tokens"] == 3


def test_a_model_file_that_is_none_is_said_at_once(tmp_path: Path) -> None:
    settings = NodeSettings(model=str(tmp_path / "none.gguf"))
    with pytest.raises(SettingsError, match=r"none\.gguf"):
        Node(Settings(node=settings), node_id=NodeId("n1"), name="pc", version="9.9")


async def test_two_nodes_cannot_listen_at_one_address() -> None:
    async with node() as first:
        with pytest.raises(UnusableAddress, match="in use"):
            async with node(listen=first.address):
                pass


@pytest.mark.parametrize(
    "url",
    ["127.0.0.1:8080", "https://127.0.0.1:8080", "http://", "http://a:99999", "http://a:0", ""],
)
def test_an_engine_is_named_by_its_url(url: str) -> None:
    with pytest.raises(SettingsError, match="--engine"):
        node(url)
