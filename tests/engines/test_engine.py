"""What all kinds have in common, shown on one that has a list and an extra."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from pair.core.reports import ReplicaReport, ReplicaState
from pair.engines.engine import (
    UNREADABLE_LIMIT,
    Engine,
    EngineReport,
    Reading,
    engine_name,
    found,
    listed,
)
from pair.errors import GarbledAnswer, SilentNode, UnreachableNode
from pair.wire.engine_reports.openai_list import read_openai_list
from pair.wire.engine_reports.reading import EngineLoad
from pair.wire.engine_reports.recognition import Answers, Said
from tests.engines.scripted_engine import ScriptedEngine, never, report_of, session

MODELS = {"data": [{"id": "m"}]}
LOADING = (503, {"error": {"message": "Loading model"}})


class Sample(Engine):
    """A kind with one extra path, which says how much runs."""

    kind = "sample"

    def _lists(self) -> Sequence[str]:
        return ("/list",)

    def _extras(self) -> Sequence[str]:
        return ("/running",)

    def read(self, answers: Answers) -> Reading:
        running = found(answers, "/running")
        load = EngineLoad(slots=2, running=None if running is None else int(running))
        return Reading(read_openai_list(listed(answers, "/list")), load)


def states(report: EngineReport) -> list[tuple[str, ReplicaState, int | None]]:
    return [(replica.model, replica.state, replica.running) for replica in report.replicas]


async def test_a_report_has_the_list_and_the_extra() -> None:
    async with ScriptedEngine({"/list": MODELS, "/running": b"1"}) as scripted, session() as asking:
        engine = Sample(scripted.url)
        report = await engine.report(asking)
        assert scripted.methods == {"GET"}
    assert report.warnings == ()
    assert report.replicas == (
        ReplicaReport(
            engine=engine_name("sample", scripted.url),
            engine_kind="sample",
            model=report.replicas[0].model,
            slots=2,
            running=1,
        ),
    )


async def test_the_users_word_on_slots_is_the_last() -> None:
    report = await report_of(lambda url: Sample(url, slots=5), {"/list": MODELS})
    assert [replica.slots for replica in report.replicas] == [5]


async def test_an_extra_that_does_not_come_delays_nothing_for_long() -> None:
    async with asyncio.timeout(5.0):
        report = await report_of(Sample, {"/list": MODELS, "/running": never})
    assert states(report) == [("m", ReplicaState.READY, None)]


@pytest.mark.parametrize("status", [404, 405, 501])
async def test_an_extra_that_is_not_there_is_asked_for_once(status: int) -> None:
    pages = {"/list": MODELS, "/running": (status, b"")}
    async with ScriptedEngine(pages) as scripted, session() as asking:
        engine = Sample(scripted.url)
        for _ in range(3):
            await engine.report(asking)
    assert scripted.asked == {"/list": 3, "/running": 1}


async def test_an_extra_that_failed_is_asked_for_again() -> None:
    async with (
        ScriptedEngine({"/list": MODELS, "/running": (500, b"")}) as scripted,
        session() as asking,
    ):
        engine = Sample(scripted.url)
        await engine.report(asking)
        scripted.pages["/running"] = b"2"
        assert states(await engine.report(asking)) == [("m", ReplicaState.READY, 2)]


async def test_an_engine_that_is_not_there() -> None:
    async with ScriptedEngine() as scripted:
        url = scripted.url
    async with session() as asking:
        with pytest.raises(UnreachableNode):
            await Sample(url).report(asking)


async def test_an_engine_that_connects_and_says_nothing() -> None:
    async with ScriptedEngine({"/list": never}) as scripted, session(0.05) as asking:
        with pytest.raises(SilentNode):
            await Sample(scripted.url).report(asking)


@pytest.mark.parametrize("status", [401, 403])
async def test_it_wants_a_key(status: int) -> None:
    pages: dict[str, Any] = {"/list": MODELS, "/running": b"1"}
    async with ScriptedEngine(pages) as scripted, session() as asking:
        engine = Sample(scripted.url)
        await engine.report(asking)
        scripted.pages["/list"] = (status, b"no")
        report = await engine.report(asking)
    assert states(report) == [("m", ReplicaState.NEEDS_KEY, None)]
    assert "wants an API key" in report.warnings[0]


async def test_it_refuses_the_key_that_the_user_has_named() -> None:
    async with ScriptedEngine({"/list": (401, b"no")}) as scripted, session() as asking:
        report = await Sample(scripted.url, headers={"Authorization": "Bearer k"}).report(asking)
    assert "refuses the API key" in report.warnings[0]


async def test_it_loads() -> None:
    async with ScriptedEngine({"/list": LOADING}) as scripted, session() as asking:
        engine = Sample(scripted.url)
        before = await engine.report(asking)
        scripted.pages["/list"] = MODELS
        between = await engine.report(asking)
        scripted.pages["/list"] = LOADING
        after = await engine.report(asking)
    assert before == EngineReport((), (f"{engine.name}: is loading its model",))
    assert states(between) == [("m", ReplicaState.READY, None)]
    assert states(after) == [("m", ReplicaState.LOADING, None)]


async def test_a_model_that_loads_while_others_are_ready() -> None:
    rows = [{"id": "a", "status": {"value": "loading"}}, {"id": "b"}]
    report = await report_of(Sample, {"/list": {"data": rows}})
    assert states(report) == [("a", ReplicaState.LOADING, None), ("b", ReplicaState.READY, None)]


@pytest.mark.parametrize("nonsense", [b"<html>", b"", b"[]", (500, b"oops"), (404, b"")])
async def test_an_unreadable_list_is_a_warning_and_its_models_stay_for_a_while(
    nonsense: Any,
) -> None:
    async with ScriptedEngine({"/list": MODELS, "/running": b"1"}) as scripted, session() as asking:
        engine = Sample(scripted.url)
        await engine.report(asking)
        scripted.pages["/list"] = nonsense
        reports = [await engine.report(asking) for _ in range(UNREADABLE_LIMIT + 1)]
        scripted.pages["/list"] = MODELS
        again = await engine.report(asking)
    assert [len(report.replicas) for report in reports] == [1] * UNREADABLE_LIMIT + [0]
    assert states(reports[0]) == [("m", ReplicaState.READY, None)]
    assert "its list of models is unusable" in reports[0].warnings[0]
    assert states(again) == [("m", ReplicaState.READY, 1)]


async def test_warnings_say_whose_they_are() -> None:
    report = await report_of(Sample, {"/list": {"data": [{"id": "m"}, 3]}})
    assert report.warnings[0].startswith("sample:")
    assert report.warnings[0].endswith(": 1 of the listed models cannot be read and are left out")


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("http://127.0.0.1:8080", "k:8080"),
        ("http://localhost:8080", "k:8080"),
        ("http://[::1]:8080", "k:8080"),
        ("http://127.0.0.1", "k:80"),
        ("http://192.168.1.5:8080", "k:192.168.1.5:8080"),
        ("http://[fd00::5]:8080", "k:fd00::5:8080"),
        ("http://127.0.0.1:8080/engine", "k:8080/engine"),
    ],
)
def test_names_are_unique_on_a_node(url: str, name: str) -> None:
    assert engine_name("k", url) == name


def test_only_a_200_is_found_and_a_list_says_why_it_is_not() -> None:
    answers = {"/a": Said(200, b"x"), "/b": Said(500, b"y")}
    assert [found(answers, path) for path in ("/a", "/b", "/c")] == [b"x", None, None]
    assert listed(answers, "/a") == b"x"
    with pytest.raises(GarbledAnswer, match="status 500 to GET /b"):
        listed(answers, "/b")
    with pytest.raises(GarbledAnswer, match="no answer to GET /c"):
        listed(answers, "/c")
