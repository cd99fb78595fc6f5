"""Issue 3, items 11 and 13: sick nodes, busy engines, and what probes may ask."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any, get_args

import pytest

from pair.agent.service import Node as PairNode
from pair.bench.echo_engine import EchoEngine, EchoSettings
from pair.bench.echo_engine.faults import STATUS_PATHS
from pair.bench.echo_engine.settings import PersonaName
from pair.core.membership import Node
from pair.core.names import NodeId, Phase
from pair.core.reports import ReplicaState
from pair.engines.finder import recognise
from pair.engines.known_engine import KnownEngine
from pair.settings import (
    FixedNode,
    NamedEngine,
    NodeSettings,
    ProbingSettings,
    RelaySettings,
    Settings,
)
from tests.engines.scripted_engine import ScriptedEngine, never, session
from tests.proxy.raw_engine import SILENCE, raw_engine
from tests.support.house import FAST, House, chat, house

QUICK = ProbingSettings(
    interval_s=0.03, suspect_interval_s=0.03, limit_s=0.1, lost_interval_s=0.1, forget_s=3600.0
)
BUSY = EchoSettings(prefill_rate_tokens_per_s=1e9, decode_rate_tokens_per_s=100.0)
TOKENS = 100
"""A call of one second, many times what may be missed."""

BLOCKED = f"black_hole,path={STATUS_PATHS}|/pair/*|/model_info|/api/v1/models"
PERSONAS: tuple[PersonaName, ...] = get_args(PersonaName)


def node_at(built: House, url: str) -> Node:
    """The entry of the node that was named by this URL."""
    return built.proxy.scheduler.membership.nodes[NodeId(url)]


def pair_node(engine_url: str) -> PairNode:
    """A node in front of this engine, which looks at it often and gives up soon."""
    mine = NodeSettings(
        listen="127.0.0.1:0",
        engines=(NamedEngine(engine_url),),
        find_engines=False,
        look_limit_s=0.05,
        busy_look_s=0.02,
        idle_look_s=0.02,
        gone_s=0.2,
    )
    return PairNode(Settings(node=mine), node_id=NodeId("n"), name="pc", version="9")


# --- 11: engines that answer nothing while they compute -----------------------------------------


@pytest.mark.parametrize("persona", ["llamacpp", "ollama", "generic"])
async def test_11_an_engine_silent_while_it_computes_keeps_its_node(persona: PersonaName) -> None:
    settings = EchoSettings(
        persona=persona, prefill_rate_tokens_per_s=1e9, decode_rate_tokens_per_s=100.0
    )
    async with house(settings, settings=Settings(probing=QUICK)) as built:
        (engine,) = built.engines
        node = node_at(built, engine.url)
        engine.faults.set(BLOCKED)
        phases: set[Phase] = set()
        async with asyncio.TaskGroup() as tasks:
            call = tasks.create_task(built.send(chat(tokens=TOKENS)))
            await built.until(lambda: node.misses > QUICK.misses_until_lost)
            while not call.done():
                phases.add(node.phase)
                await asyncio.sleep(0.005)
        assert call.result().status == 200
        assert Phase.LOST not in phases
        engine.faults.clear()
        await built.ready(1)
        assert (await built.send(chat())).status == 200


async def test_11_a_node_keeps_an_engine_that_is_silent_while_it_works_for_us() -> None:
    """For longer than `gone_s`, and the proxy keeps the node."""
    async with AsyncExitStack() as stack:
        engine = await stack.enter_async_context(EchoEngine(BUSY))
        pair = await stack.enter_async_context(pair_node(engine.url))
        named = Settings(nodes=(FixedNode(f"http://{pair.address}"),), probing=QUICK)
        built = await stack.enter_async_context(house(settings=named))
        await built.until(lambda: any(n.replicas for n in known(built)))
        await built.ready(1)
        engine.faults.set(BLOCKED)
        states: set[ReplicaState] = set()
        async with asyncio.TaskGroup() as tasks:
            call = tasks.create_task(built.send(chat(tokens=TOKENS)))
            await built.until(lambda: built.snapshot().in_flight == 1)
            while not call.done():
                replicas = pair.report().replicas
                assert replicas, "the engine was taken out"
                states |= {replica.state for replica in replicas}
                await asyncio.sleep(0.005)
        assert call.result().status == 200
        assert states == {ReplicaState.READY}
        assert {n.phase for n in known(built)} == {Phase.READY}


def known(built: House) -> list[Node]:
    """All nodes in the proxy's table."""
    return list(built.proxy.scheduler.membership.nodes.values())


# --- 11: sick nodes beside a healthy one --------------------------------------------------------


@pytest.fixture
def names_hang(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A name server that never answers for names with `hangs` in them, as one that is cut off."""
    let_go = threading.Event()
    system = socket.getaddrinfo

    def look_up(name: Any, *rest: Any, **options: Any) -> Any:
        if "hangs" in str(name):
            let_go.wait(30)
            raise socket.gaierror(socket.EAI_AGAIN, "nobody answers")
        return system(name, *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    yield
    let_go.set()


async def latency_s(built: House) -> float:
    """The median of some calls, each on its own."""
    loop = asyncio.get_running_loop()
    spent = []
    for _ in range(25):
        started_at = loop.time()
        assert (await built.send(chat())).status == 200
        spent.append(loop.time() - started_at)
    return sorted(spent)[len(spent) // 2]


@pytest.mark.usefixtures("names_hang")
async def test_11_no_sick_node_slows_a_healthy_one() -> None:
    """A black hole, a SYN drop, a refused port and forty names that hang, all at once. The healthy
    one has a name, too.
    """
    async with AsyncExitStack() as stack:
        engine = await stack.enter_async_context(EchoEngine(FAST))
        hole = await stack.enter_async_context(raw_engine(pages={}))
        hole.pages = dict.fromkeys(("/v1/models", "/pair/v1/report"), SILENCE)
        drop = await stack.enter_async_context(raw_engine())
        await drop.jam()
        refused = await stack.enter_async_context(raw_engine(listening=False))
        healthy = FixedNode(engine.url.replace("127.0.0.1", "localhost"))
        sick = [FixedNode(each.url) for each in (hole, drop, refused)]
        sick += [FixedNode(f"http://hangs-{number}.invalid:1") for number in range(40)]
        alone = await stack.enter_async_context(
            house(settings=Settings(nodes=(healthy,), probing=QUICK))
        )
        among = await stack.enter_async_context(
            house(settings=Settings(nodes=(healthy, *sick), probing=QUICK))
        )
        for built in (alone, among):
            await built.ready(1)
        await among.until(lambda: sum(n.misses > 1 for n in known(among)) == len(sick))
        best_alone, best_among = await latency_s(alone), await latency_s(among)
        assert best_among < best_alone + 0.02
        assert node_at(among, healthy.url).phase is Phase.READY


async def test_11_calls_to_a_node_that_no_longer_accepts_go_elsewhere_within_the_limit() -> None:
    """A node that was ready a moment ago drops connections; the others do not wait for it."""
    assert RelaySettings().connect_limit_s == 3.0
    settings = Settings(relay=RelaySettings(connect_limit_s=0.2), nodes=())
    async with raw_engine("echo") as drop:
        beside = Settings(relay=settings.relay, nodes=(FixedNode(drop.url),))
        async with house(FAST, settings=beside) as built:
            await built.ready(2)
            await drop.jam()
            loop = asyncio.get_running_loop()
            started_at = loop.time()
            async with asyncio.TaskGroup() as tasks:
                calls = [tasks.create_task(built.send(chat())) for _ in range(8)]
            assert {call.result().status for call in calls} == {200}
            assert loop.time() - started_at < 2.0


# --- 13: what probes ask ------------------------------------------------------------------------

READ_ONLY = {
    *STATUS_PATHS.split("|"),
    "/pair/v1/report",
    "/pair/v1/snapshot",
    "/model_info",
    "/server_info",
    "/api/v1/models",
    "/v1/loads",
}
"""All that may be asked of an engine that has no call."""


@pytest.mark.parametrize("persona", PERSONAS)
async def test_13_probes_only_read_status_paths(persona: PersonaName) -> None:
    """By a proxy and by a node, from finding it to losing it."""
    settings = EchoSettings(persona=persona)
    async with AsyncExitStack() as stack:
        engine = await stack.enter_async_context(EchoEngine(settings))
        pair = await stack.enter_async_context(pair_node(engine.url))
        named = Settings(nodes=(FixedNode(engine.url),), probing=QUICK)
        built = await stack.enter_async_context(house(settings=named))
        await built.ready(1)
        await built.until(lambda: bool(pair.report().replicas))
        seen = engine.journal.counters.requests_by_path
        before = seen.total()
        await built.until(lambda: seen.total() > before + 30)
        assert set(seen) <= READ_ONLY - {"/health"}, "SGLang's /health generates a token"
        assert not engine.journal.entries, "that would be a request for work"


OWN: dict[str, dict[str, Any]] = {
    "ollama": {"/api/tags": {"models": [{"name": "m", "model": "m"}]}},
    "lmstudio": {"/api/v1/models": {"models": [{"key": "m", "loaded_instances": []}]}},
    "llamacpp": {
        "/v1/models": {"data": [{"id": "m", "owned_by": "llamacpp"}]},
        "/props": {"total_slots": 2, "default_generation_settings": {"n_ctx": 512}},
    },
    "vllm": {"/v1/models": {"data": [{"id": "m", "owned_by": "vllm"}]}},
    "sglang": {"/v1/models": {"data": [{"id": "m"}]}, "/model_info": {"model_path": "m"}},
    "generic": {"/v1/models": {"data": [{"id": "m"}]}},
}
AROUND: dict[str, Any] = {
    "404": (404, b""),
    "401": (401, {"error": {"message": "Unauthorized"}}),
    "500": (500, b"oops"),
    "a web page": (200, b"<!doctype html><title>Welcome</title>"),
    "JSON": (200, {"error": "Unexpected endpoint or method."}),
    "nothing": never,
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("kind", OWN)
async def test_13_each_kind_is_recognised_with_only_its_own_paths(kind: str, around: str) -> None:
    async with ScriptedEngine(OWN[kind], otherwise=AROUND[around]) as engine:
        probing = ProbingSettings(interval_s=0.05, suspect_interval_s=0.05, limit_s=1.0)
        settings = Settings(nodes=(FixedNode(engine.url),), probing=probing)
        async with house(settings=settings) as built:
            await built.until(lambda: bool(node_at(built, engine.url).replicas))
            replicas = node_at(built, engine.url).replicas.values()
            assert [(r.report.engine_kind, r.report.model) for r in replicas] == [(kind, "m")]
            assert engine.methods == {"GET"}


async def test_13_a_refusal_without_a_key_means_up_and_needs_a_key() -> None:
    async with ScriptedEngine(otherwise=AROUND["401"]) as engine:
        settings = Settings(nodes=(FixedNode(engine.url),))
        async with house(settings=settings) as built:
            await built.ready(1)
            assert any("API key" in words for words in node_at(built, engine.url).warnings)


@pytest.mark.parametrize("persona", PERSONAS)
async def test_13_a_key_opens_every_kind(persona: PersonaName) -> None:
    locked = EchoSettings(persona=persona, api_key="secret")
    async with EchoEngine(locked) as engine, session() as asking:
        found = await recognise(asking, engine.url, headers={"Authorization": "Bearer secret"})
        assert found.kind == persona
        report = await KnownEngine(found).report(asking)
        assert {r.state for r in report.replicas} == {ReplicaState.READY}
