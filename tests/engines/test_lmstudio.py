from __future__ import annotations

from typing import Any

from pair.engines.lmstudio import LMStudio
from tests.engines.scripted_engine import ScriptedEngine, report_of, session

NEW: dict[str, Any] = {
    "models": [
        {"key": "a", "loaded_instances": [{"id": "a", "config": {"parallel": 4}}]},
        {"key": "b", "loaded_instances": [], "max_context_length": 4096},
    ]
}
OLD: dict[str, Any] = {"data": [{"id": "a", "state": "loaded", "max_context_length": 2048}]}
ODD = {"error": "Unexpected endpoint or method."}


async def test_the_new_list_gives_slots() -> None:
    report = await report_of(LMStudio, {"/api/v1/models": NEW, "/api/v0/models": OLD})
    assert [(r.model, r.slots, r.resident, r.context_tokens) for r in report.replicas] == [
        ("a", 4, True, None),
        ("b", 1, False, 4096),
    ]


async def test_an_older_one_is_asked_as_it_is_used_to() -> None:
    pages = {"/api/v0/models": OLD, "/v1/models": {"data": [{"id": "a"}]}}
    async with ScriptedEngine(pages, otherwise=ODD) as scripted, session() as asking:
        engine = LMStudio(scripted.url)
        reports = [await engine.report(asking) for _ in range(3)]
    assert [[(r.model, r.slots) for r in report.replicas] for report in reports] == [[("a", 1)]] * 3
    assert scripted.asked == {"/api/v1/models": 1, "/api/v0/models": 3, "/v1/models": 3}


async def test_one_that_was_updated_is_noticed() -> None:
    async with ScriptedEngine({"/api/v0/models": OLD}) as scripted, session() as asking:
        engine = LMStudio(scripted.url)
        await engine.report(asking)
        scripted.pages = {"/api/v1/models": NEW}
        await engine.report(asking)
        report = await engine.report(asking)
    assert [replica.slots for replica in report.replicas] == [4, 1]


async def test_what_cannot_be_loaded_on_demand_is_not_offered() -> None:
    pages = {"/api/v1/models": NEW, "/v1/models": {"data": [{"id": "a"}]}}
    report = await report_of(LMStudio, pages)
    assert [replica.model for replica in report.replicas] == ["a"]
    report = await report_of(LMStudio, {**pages, "/v1/models": ODD})
    assert [replica.model for replica in report.replicas] == ["a", "b"]


async def test_saying_200_to_everything_is_not_having_a_list() -> None:
    report = await report_of(LMStudio, {}, otherwise=ODD)
    assert report.replicas == ()
    assert "unusable" in report.warnings[0]
