"""An engine whose place another may take, and one too busy to say what it is."""

from __future__ import annotations

from typing import Any

import pytest

from pair.core.reports import ReplicaState
from pair.engines import known_engine
from pair.engines.finder import recognise
from pair.engines.known_engine import USELESS_LIMIT, KnownEngine
from tests.engines.scripted_engine import ScriptedEngine, never, session

LLAMACPP = {
    "/v1/models": {"data": [{"id": "m", "owned_by": "llamacpp"}]},
    "/props": {"total_slots": 4, "default_generation_settings": {"n_ctx": 2048}},
}
ANONYMOUS = {"/v1/models": {"data": [{"id": "m"}]}}
OLLAMA = {"/api/tags": {"models": [{"name": "m", "model": "m"}]}, **ANONYMOUS}


async def kinds(before: dict[str, Any], *after: dict[str, Any]) -> list[str]:
    """What it is taken for, first and after each change of its answers."""
    async with ScriptedEngine(before) as scripted, session(1.0) as asking:
        known = KnownEngine(await recognise(asking, scripted.url, limit_s=0.1))
        taken = [known.engine.kind]
        for pages in after:
            scripted.pages = dict(pages)
            await known.report(asking, 0.5)
            await known.report(asking, 0.5)
            taken.append(known.engine.kind)
        return taken


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_engine, "UNSURE_S", 0.0)


@pytest.mark.usefixtures("at_once")
async def test_one_too_busy_to_say_what_it_is_is_recognised_when_it_does() -> None:
    busy = {**ANONYMOUS, "/props": never}
    answering = {**ANONYMOUS, "/props": LLAMACPP["/props"]}
    assert await kinds(busy, busy, answering) == ["generic", "generic", "llamacpp"]


async def test_llamacpp_is_known_by_its_list_while_it_answers_nothing_else() -> None:
    assert await kinds({**LLAMACPP, "/props": never}) == ["llamacpp"]


async def test_one_that_says_what_it_is_is_not_asked_again() -> None:
    async with ScriptedEngine(ANONYMOUS) as scripted, session() as asking:
        known = KnownEngine(await recognise(asking, scripted.url))
        for _ in range(5):
            await known.report(asking)
        assert not known.doubtful
        assert scripted.asked["/props"] == 1


async def test_another_kind_that_comes_unseen_is_known_by_what_it_does_not_answer() -> None:
    assert await kinds(LLAMACPP, ANONYMOUS) == ["llamacpp", "generic"]


@pytest.mark.usefixtures("at_once")
async def test_a_busy_moment_does_not_make_a_known_kind_a_nameless_one() -> None:
    busy = {"/v1/models": ANONYMOUS["/v1/models"], "/api/tags": (404, b""), "/props": never}
    async with ScriptedEngine(LLAMACPP) as scripted, session(1.0) as asking:
        known = KnownEngine(await recognise(asking, scripted.url))
        known.engine.estranged = True
        scripted.pages = busy
        await known.report(asking, 0.5)
        assert known.engine.kind == "llamacpp"


async def test_an_ollama_whose_place_another_takes_is_doubted_after_a_while() -> None:
    async with ScriptedEngine(OLLAMA) as scripted, session() as asking:
        known = KnownEngine(await recognise(asking, scripted.url))
        assert (await known.report(asking)).replicas
        scripted.pages = dict(LLAMACPP)
        reports = 0
        while known.engine.kind == "ollama":
            await known.report(asking)
            reports += 1
            assert reports <= 2 * USELESS_LIMIT
        assert {one.state for one in (await known.report(asking)).replicas} == {ReplicaState.READY}
