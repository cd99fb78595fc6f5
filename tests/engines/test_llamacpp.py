from __future__ import annotations

from typing import Any

import pytest

from pair.core.reports import ReplicaState
from pair.engines import llamacpp
from pair.engines.llamacpp import LlamaCpp
from tests.engines.scripted_engine import ScriptedEngine, never, report_of, session

LIST = {"data": [{"id": "m", "aliases": ["m", "n"], "meta": {"n_ctx": 8192}}]}
PROPS = {"total_slots": 4, "default_generation_settings": {"n_ctx": 2048}}
SLOTS = [{"id": 0, "is_processing": True}, {"id": 1, "is_processing": False}]
METRICS = b"llamacpp:requests_processing 3\nllamacpp:requests_deferred 2\n"
PAGES: dict[str, Any] = {
    "/v1/models": LIST,
    "/props": PROPS,
    "/slots": SLOTS,
    "/metrics": (501, {"error": {"message": "This server does not support metrics endpoint."}}),
}


@pytest.fixture
def asked_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llamacpp, "LOAD_SPACING_S", 0.0)


async def test_slots_context_and_load() -> None:
    report = await report_of(LlamaCpp, PAGES)
    (replica,) = report.replicas
    assert (replica.slots, replica.running, replica.waiting) == (4, 1, None)
    assert (set(replica.aliases), replica.resident) == ({"n"}, True)
    # The list's number may be that of all slots together.
    assert replica.context_tokens == 2048


@pytest.mark.usefixtures("asked_each_time")
async def test_with_metrics_the_slots_are_left_in_peace() -> None:
    async with ScriptedEngine({**PAGES, "/metrics": METRICS}) as scripted, session() as asking:
        engine = LlamaCpp(scripted.url)
        reports = [await engine.report(asking) for _ in range(3)]
    assert [(r.replicas[0].running, r.replicas[0].waiting) for r in reports] == [(3, 2)] * 3
    assert (scripted.asked["/metrics"], scripted.asked["/slots"]) == (3, 1)


@pytest.mark.usefixtures("asked_each_time")
async def test_a_sleeping_model_is_not_woken() -> None:
    pages = {**PAGES, "/props": {**PROPS, "is_sleeping": True}}
    async with ScriptedEngine(pages) as scripted, session() as asking:
        engine = LlamaCpp(scripted.url)
        reports = [await engine.report(asking) for _ in range(3)]
    assert [report.replicas[0].resident for report in reports] == [False] * 3
    assert scripted.asked["/slots"] == 1


async def test_the_load_is_asked_for_less_often_than_the_rest() -> None:
    async with ScriptedEngine(PAGES) as scripted, session() as asking:
        engine = LlamaCpp(scripted.url)
        reports = [await engine.report(asking) for _ in range(3)]
    assert [report.replicas[0].running for report in reports] == [1, None, None]
    assert [report.replicas[0].slots for report in reports] == [4, 4, 4]
    assert scripted.asked == {"/v1/models": 3, "/props": 3, "/slots": 1, "/metrics": 1}


async def test_one_that_wants_a_key_still_lists_its_model() -> None:
    closed = (401, {"error": {"message": "Invalid API Key"}})
    report = await report_of(LlamaCpp, {"/v1/models": LIST}, otherwise=closed)
    assert [(r.model, r.state, r.slots) for r in report.replicas] == [
        ("m", ReplicaState.NEEDS_KEY, 1)
    ]


async def test_one_without_a_model_of_its_own_knows_of_each_where_it_is() -> None:
    rows = [
        {"id": "a", "status": {"value": "loaded"}},
        {"id": "b", "status": {"value": "unloaded"}},
        {"id": "c", "status": {"value": "loading"}},
    ]
    pages = {"/v1/models": {"data": rows}, "/props": {"role": "router", "max_instances": 4}}
    report = await report_of(LlamaCpp, pages)
    assert [(r.model, r.state, r.resident) for r in report.replicas] == [
        ("a", "ready", True),
        ("b", "ready", False),
        ("c", "loading", None),
    ]


@pytest.mark.parametrize("props", [b"<html>", {"error": "x"}, (500, b"")])
async def test_odd_props_cost_the_slots_only(props: Any) -> None:
    report = await report_of(LlamaCpp, {**PAGES, "/props": props})
    (replica,) = report.replicas
    assert (replica.slots, replica.running, replica.resident) == (1, 1, None)


async def test_one_with_a_single_model_takes_any_name_also_while_it_is_too_busy_to_say_so() -> None:
    several = {"data": [*LIST["data"], {"id": "o"}]}
    states = [PAGES, {**PAGES, "/props": (500, b"")}, {**PAGES, "/v1/models": several}]
    pages: dict[str, Any] = {}
    said = []
    async with ScriptedEngine(pages) as scripted, session() as asking:
        engine = LlamaCpp(scripted.url)
        for state in [*states, {**PAGES, "/props": {"role": "router"}}]:
            scripted.pages.update(state)
            said.append({r.any_name for r in (await engine.report(asking)).replicas})
    assert said == [{True}, {True}, {False}, {False}]


class Clock:
    """The load's clock, told by the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        monkeypatch.setattr(llamacpp, "now_s", lambda: self.now_s)


async def test_an_idle_one_is_left_alone_for_ever_longer_so_that_it_can_go_to_sleep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    idle = {**PAGES, "/slots": [{"id": 0, "is_processing": False}]}
    asked_at = []
    async with ScriptedEngine(idle) as scripted, session() as asking:
        engine = LlamaCpp(scripted.url)
        for second in range(1000):
            before = scripted.asked["/slots"]
            clock.now_s = 1000.0 + second
            if second in (0, 2, 4, 8, 16, 31, 32, 64, 127, 128, 256, 511, 512):
                await engine.report(asking)
            if scripted.asked["/slots"] > before:
                asked_at.append(second)
        assert asked_at == [0, 2, 4, 8, 16, 32, 64, 128, 256, 512]
        engine.in_use = True
        for second in range(4):
            clock.now_s = 3000.0 + 2 * second
            await engine.report(asking)
        assert scripted.asked["/slots"] == len(asked_at) + 4


async def test_one_with_others_work_is_asked_at_its_usual_pace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    async with ScriptedEngine(PAGES) as scripted, session() as asking:
        engine = LlamaCpp(scripted.url)
        for second in range(0, 40, 2):
            clock.now_s = 1000.0 + second
            assert (await engine.report(asking)).replicas[0].running == 1
    assert scripted.asked["/slots"] == 20


async def test_what_it_said_of_its_slots_holds_while_it_computes() -> None:
    async with ScriptedEngine(PAGES) as scripted, session() as asking:
        engine = LlamaCpp(scripted.url)
        await engine.report(asking)
        scripted.pages = {"/v1/models": LIST, "/props": never}
        (replica,) = (await engine.report(asking)).replicas
        assert (replica.slots, replica.context_tokens, replica.state) == (4, 2048, "ready")


async def test_a_list_does_not_make_it_ready_while_the_rest_says_that_it_loads() -> None:
    loading = (503, {"error": {"message": "Loading model", "code": 503}})
    report = await report_of(LlamaCpp, {"/v1/models": LIST}, otherwise=loading)
    assert [(r.model, r.state) for r in report.replicas] == [("m", ReplicaState.LOADING)]
