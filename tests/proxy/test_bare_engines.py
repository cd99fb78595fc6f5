"""Engines named by their URL: recognised, asked, and recognised anew when they may be others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import aiohttp
import pytest
import pytest_asyncio

from pair.bench.echo_engine.engine import EchoEngine
from pair.bench.echo_engine.settings import EchoSettings, PersonaName
from pair.core.reports import NodeReport, ReplicaState
from pair.engines.known_engine import USELESS_LIMIT
from pair.errors import GarbledAnswer, SilentNode, UnreachableNode
from pair.proxy.bare_engines import BareEngines
from tests.proxy.raw_engine import MODELS, model_list, page, raw_engine
from tests.support.house import FAST

LIMIT_S = 5.0


@pytest_asyncio.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    """As the prober's: the limit is the caller's."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as opened:
        yield opened


def kinds(report: NodeReport) -> set[str]:
    return {replica.engine_kind for replica in report.replicas}


def at(engine: EchoEngine, persona: PersonaName) -> EchoSettings:
    """Another engine for the same address."""
    return replace(FAST, persona=persona, listen=engine.url.removeprefix("http://"))


@pytest.mark.parametrize("persona", ["llamacpp", "ollama", "lmstudio", "vllm", "sglang", "generic"])
async def test_every_kind_is_recognised_and_reports_under_its_url(
    session: aiohttp.ClientSession, persona: PersonaName
) -> None:
    async with EchoEngine(replace(FAST, persona=persona)) as engine:
        bare = BareEngines({})
        assert not bare.knows(engine.url)
        report = await bare.report(session, engine.url, LIMIT_S)
        assert bare.knows(engine.url)
        assert (report.node, report.name, report.version) == (engine.url, "", "")
        assert kinds(report) == {persona}
        assert {replica.model for replica in report.replicas} == {"echo"}


async def test_the_users_word_on_slots_beats_the_engines(session: aiohttp.ClientSession) -> None:
    async with EchoEngine(replace(FAST, slots=4)) as engine:
        told = await BareEngines({engine.url: 2}).report(session, engine.url, LIMIT_S)
        own = await BareEngines({engine.url: 0}).report(session, engine.url, LIMIT_S)
        assert [replica.slots for replica in (*told.replicas, *own.replicas)] == [2, 4]


async def test_it_is_recognised_once(session: aiohttp.ClientSession) -> None:
    async with EchoEngine(FAST) as engine:
        bare = BareEngines({})
        await bare.report(session, engine.url, LIMIT_S)
        asked = engine.journal.counters.requests_by_path["/api/tags"]
        for _ in range(3):
            await bare.report(session, engine.url, LIMIT_S)
        assert engine.journal.counters.requests_by_path["/api/tags"] == asked


async def test_nothing_there_is_not_the_same_as_silence_or_a_stranger(
    session: aiohttp.ClientSession,
) -> None:
    bare = BareEngines({})
    async with raw_engine(listening=False) as closed, raw_engine(pages={}) as stranger:
        with pytest.raises(UnreachableNode):
            await bare.report(session, closed.url, LIMIT_S)
        with pytest.raises(GarbledAnswer, match="not as any inference engine"):
            await bare.report(session, stranger.url, LIMIT_S)
    async with EchoEngine(FAST) as silent:
        silent.faults.set("black_hole,path=*")
        with pytest.raises(SilentNode, match=r"within 0\.1 s"):
            await bare.report(session, silent.url, 0.1)
        assert not bare.knows(silent.url)


async def test_what_comes_back_as_another_kind_is_recognised_anew(
    session: aiohttp.ClientSession,
) -> None:
    bare = BareEngines({})
    async with EchoEngine(FAST) as first:
        assert kinds(await bare.report(session, first.url, LIMIT_S)) == {"llamacpp"}
        url = first.url
    with pytest.raises(UnreachableNode):
        await bare.report(session, url, LIMIT_S)
    assert not bare.knows(url), "so that it is first asked whether it is a pair node now"
    async with EchoEngine(at(first, "ollama")):
        assert kinds(await bare.report(session, url, LIMIT_S)) == {"ollama"}
        assert bare.knows(url)


async def test_what_comes_back_as_it_was_keeps_its_models_while_it_loads(
    session: aiohttp.ClientSession,
) -> None:
    ready = {MODELS: model_list("m"), "/props": page(b'{"total_slots": 2}')}
    loading = page(b'{"error": {"message": "Loading model"}}', 503)
    bare = BareEngines({})
    async with raw_engine(pages=ready) as engine:
        await bare.report(session, engine.url, LIMIT_S)
        await engine.vanish()
        with pytest.raises(UnreachableNode):
            await bare.report(session, engine.url, LIMIT_S)
        engine.come_back({MODELS: loading, "/props": loading})
        (replica,) = (await bare.report(session, engine.url, LIMIT_S)).replicas
        assert (replica.model, replica.slots, replica.state) == ("m", 2, ReplicaState.LOADING)


async def test_another_kind_that_came_unseen_is_recognised_when_nothing_can_be_read(
    session: aiohttp.ClientSession,
) -> None:
    bare = BareEngines({})
    async with EchoEngine(replace(FAST, persona="ollama")) as first:
        await bare.report(session, first.url, LIMIT_S)
    async with EchoEngine(at(first, "generic")):
        reports = 0
        while kinds(await bare.report(session, first.url, LIMIT_S)) != {"generic"}:
            reports += 1
            assert reports <= 2 * USELESS_LIMIT
        assert reports >= USELESS_LIMIT, "a restart may say nonsense for a moment"


async def test_one_too_busy_to_say_what_it_is_stays_what_it_was(
    session: aiohttp.ClientSession,
) -> None:
    bare = BareEngines({})
    async with EchoEngine(FAST) as first:
        await bare.report(session, first.url, LIMIT_S)
    with pytest.raises(UnreachableNode):
        await bare.report(session, first.url, LIMIT_S)
    async with EchoEngine(at(first, "llamacpp")) as second:
        second.faults.set("black_hole,path=/props|/slots|/metrics")
        report = await bare.report(session, first.url, LIMIT_S)
        assert kinds(report) == {"llamacpp"}


async def test_an_engine_without_a_model_is_not_in_doubt(session: aiohttp.ClientSession) -> None:
    empty = {MODELS: page(b'{"object": "list", "data": []}')}
    async with raw_engine(pages=empty) as engine:
        bare = BareEngines({})
        for _ in range(USELESS_LIMIT + 1):
            assert (await bare.report(session, engine.url, LIMIT_S)).replicas == ()
        assert bare.knows(engine.url)


async def test_a_known_engine_is_asked_now_and_then_whether_pair_runs_there_by_now(
    session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = BareEngines({})
    async with EchoEngine(FAST) as engine:
        await bare.report(session, engine.url, LIMIT_S)
        assert bare.knows(engine.url)
        monkeypatch.setattr("pair.proxy.bare_engines.NODE_CHECK_S", 0.0)
        assert not bare.knows(engine.url)
        monkeypatch.undo()
        asked = engine.journal.counters.requests_by_path["/api/tags"]
        await bare.report(session, engine.url, LIMIT_S)
        assert bare.knows(engine.url)
        assert engine.journal.counters.requests_by_path["/api/tags"] == asked
