"""Which engine stands where: by scripted answers, by the echo engine, and not by pair itself."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from pair.bench.echo_engine import EchoEngine, EchoModel, EchoSettings
from pair.bench.echo_engine.settings import PersonaName
from pair.core.names import NodeId
from pair.core.reports import NodeReport
from pair.engines.engine import Engine
from pair.engines.finder import (
    KINDS,
    USUAL_PORTS,
    EngineFinder,
    PairItself,
    recognise,
)
from pair.errors import GarbledAnswer, SilentNode, UnreachableNode
from pair.wire.node_report import encode_report
from tests.engines.scripted_engine import ScriptedEngine, never, session

LIST = {"data": [{"id": "m"}]}
PERSONAS: tuple[PersonaName, ...] = get_args(PersonaName)

OWN_PATHS: dict[str, dict[str, Any]] = {
    "ollama": {"/api/tags": {"models": [{"name": "m:1b"}]}},
    "lmstudio": {"/api/v0/models": {"data": [{"id": "m", "state": "loaded"}]}},
    "llamacpp": {"/props": {"total_slots": 1, "default_generation_settings": {}}},
    "vllm": {"/version": {"version": "0.11.0"}, "/v1/models": LIST},
    "sglang": {"/get_model_info": {"model_path": "m"}},
    "generic": {"/v1/models": LIST},
}


def shown(engines: tuple[Engine, ...]) -> list[tuple[str, str]]:
    return [(engine.kind, engine.url) for engine in engines]


@pytest.mark.parametrize("kind", OWN_PATHS)
async def test_each_kind_by_its_own_paths_alone(kind: str) -> None:
    async with ScriptedEngine(OWN_PATHS[kind]) as scripted, session() as asking:
        engine = await recognise(asking, scripted.url)
        assert scripted.methods == {"GET"}
        assert engine.name == f"{kind}:{scripted.port}"
    assert isinstance(engine, KINDS[kind])


@pytest.mark.parametrize("persona", PERSONAS)
async def test_each_persona_of_the_echo_engine(persona: PersonaName) -> None:
    settings = EchoSettings(persona=persona, slots=3, models=(EchoModel("m:1b", ("alias",)),))
    async with EchoEngine(settings) as echo, session() as asking:
        engine = await recognise(asking, echo.url)
        report = await engine.report(asking)
        assert not echo.journal.entries
    names = {name for r in report.replicas for name in (r.model, *r.aliases)}
    assert engine.kind == persona
    assert names == {"m:1b", "alias"}
    told = {"llamacpp": 3, "sglang": 3}
    assert {r.slots for r in report.replicas} == {told.get(persona, 1)}


async def test_llamacpp_while_it_loads() -> None:
    loading = (503, {"error": {"message": "Loading model", "type": "unavailable_error"}})
    async with ScriptedEngine(otherwise=loading) as scripted, session() as asking:
        engine = await recognise(asking, scripted.url)
    assert engine.kind == "llamacpp"


@pytest.mark.parametrize("written", ["", "/", "/v1", "/v1/"])
async def test_the_url_may_be_written_as_clients_have_it(written: str) -> None:
    async with ScriptedEngine({"/v1/models": LIST}) as scripted, session() as asking:
        engine = await recognise(asking, scripted.url + written)
    assert engine.url == scripted.url


async def test_an_engine_below_a_path() -> None:
    async with ScriptedEngine({"/llm/v1/models": LIST}) as scripted, session() as asking:
        engine = await recognise(asking, scripted.url + "/llm/v1")
        report = await engine.report(asking)
    assert [replica.model for replica in report.replicas] == ["m"]


async def test_the_users_word_on_slots_goes_with_the_engine() -> None:
    async with ScriptedEngine({"/v1/models": LIST}) as scripted, session() as asking:
        named = await recognise(asking, scripted.url, slots=7)
        (seen,) = await EngineFinder([scripted.port], slots=8).look(asking)
        assert (named.slots, seen.slots) == (7, 8)


@pytest.mark.parametrize(
    "pages",
    [
        {"/pair/v1/report": encode_report(NodeReport(NodeId("n"), "pc"))},
        {"/pair/v1/snapshot": {"v": 1, "pair": "0.1.0", "nodes": []}},
    ],
)
async def test_pair_itself_is_no_engine(pages: dict[str, Any]) -> None:
    behind = {**OWN_PATHS["ollama"], **OWN_PATHS["generic"]}
    async with ScriptedEngine({**behind, **pages}) as scripted, session() as asking:
        with pytest.raises(PairItself, match="name the engine behind it"):
            await recognise(asking, scripted.url)
        assert await EngineFinder([scripted.port]).look(asking) == ()


async def test_what_is_no_engine_is_said_to_be_none() -> None:
    async with ScriptedEngine(otherwise=b"<html>") as scripted, session() as asking:
        with pytest.raises(GarbledAnswer, match="not as any inference engine"):
            await recognise(asking, scripted.url)


async def test_nobody_there() -> None:
    async with ScriptedEngine() as scripted:
        url = scripted.url
    async with session() as asking:
        with pytest.raises(UnreachableNode):
            await recognise(asking, url)


async def test_one_path_that_hangs_hides_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pair.engines.finder.QUESTION_LIMIT_S", 0.05)
    pages = {**OWN_PATHS["ollama"], "/v1/models": never}
    async with ScriptedEngine(pages) as scripted, session() as asking:
        assert (await recognise(asking, scripted.url)).kind == "ollama"


async def test_an_engine_that_says_nothing_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pair.engines.finder.QUESTION_LIMIT_S", 0.05)
    async with ScriptedEngine(otherwise=never) as scripted, session() as asking:
        with pytest.raises(SilentNode):
            await recognise(asking, scripted.url)


async def test_closed_without_a_key_it_is_what_the_user_says_it_is() -> None:
    async with ScriptedEngine(otherwise=(401, b"")) as scripted, session() as asking:
        engine = await recognise(asking, scripted.url)
        report = await engine.report(asking)
        assert engine.kind == "generic"
        assert "wants an API key" in report.warnings[0]
        assert await EngineFinder([scripted.port]).look(asking) == ()


async def test_closed_without_a_key_on_the_port_of_a_kind_that_shows_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with ScriptedEngine(otherwise=(401, b"")) as scripted, session() as asking:
        monkeypatch.setattr("pair.engines.finder.USUAL_PORTS", {scripted.port: "sglang"})
        assert shown(await EngineFinder([scripted.port]).look(asking)) == [("sglang", scripted.url)]
        monkeypatch.setattr("pair.engines.finder.USUAL_PORTS", {scripted.port: "vllm"})
        assert await EngineFinder([scripted.port]).look(asking) == ()


async def test_a_look_finds_what_is_there_and_not_known() -> None:
    async with (
        ScriptedEngine(OWN_PATHS["ollama"]) as first,
        ScriptedEngine(OWN_PATHS["vllm"]) as second,
        ScriptedEngine() as gone,
        session() as asking,
    ):
        await gone.__aexit__(None, None, None)
        finder = EngineFinder([first.port, second.port])
        both = await finder.look(asking)
        assert shown(both) == [("ollama", first.url), ("vllm", second.url)]
        asked = first.asked.total()
        known = [first.url.replace("127.0.0.1", "localhost"), "http://192.168.1.5:1"]
        assert shown(await finder.look(asking, known)) == [("vllm", second.url)]
        assert first.asked.total() == asked


async def test_an_engine_that_starts_later_is_found_then() -> None:
    async with ScriptedEngine() as scripted, session() as asking:
        finder = EngineFinder([scripted.port])
        scripted.otherwise = never
        monkey = pytest.MonkeyPatch()
        monkey.setattr("pair.engines.finder.QUESTION_LIMIT_S", 0.05)
        assert await finder.look(asking) == ()
        monkey.undo()
        scripted.pages = dict(OWN_PATHS["ollama"])
        scripted.otherwise = (404, b"")
        assert shown(await finder.look(asking)) == [("ollama", scripted.url)]


async def test_a_stranger_is_left_alone_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ScriptedEngine(otherwise=b"<html>") as scripted, session() as asking:
        finder = EngineFinder([scripted.port])
        await finder.look(asking)
        asked = scripted.asked.total()
        await finder.look(asking)
        assert scripted.asked.total() == asked
        monkeypatch.setattr("pair.engines.finder.STRANGER_PAUSE_S", -1.0)
        impatient = EngineFinder([scripted.port])
        await impatient.look(asking)
        await impatient.look(asking)
        assert scripted.asked.total() == 3 * asked


async def test_the_usual_ports_are_those_of_the_kinds() -> None:
    assert set(USUAL_PORTS) == {11434, 1234, 8080, 8000, 30000}
    assert set(USUAL_PORTS.values()) < set(KINDS)
    async with session() as asking:
        found = await EngineFinder().look(asking)
    assert {engine.url for engine in found} <= {f"http://127.0.0.1:{port}" for port in USUAL_PORTS}
