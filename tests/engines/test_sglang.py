from __future__ import annotations

from typing import Any

import pytest

from pair.engines.sglang import SGLang
from tests.engines.scripted_engine import ScriptedEngine, report_of, session

LIST = {"data": [{"id": "q", "owned_by": "sglang", "root": "q", "max_model_len": 4096}]}
SETTINGS = {"internal_states": [{"effective_max_running_requests_per_dp": 52}]}
LOADS = {"loads": [{"num_running_reqs": 3, "num_waiting_reqs": 1}]}
METRICS = b'sglang:num_running_reqs{tp_rank="0"} 2.0\nsglang:num_queue_reqs{tp_rank="0"} 0.0\n'


async def test_a_new_one_is_asked_by_the_new_names_only() -> None:
    pages: dict[str, Any] = {
        "/v1/models": LIST,
        "/server_info": SETTINGS,
        "/get_server_info": SETTINGS,
        "/v1/loads": LOADS,
        "/metrics": METRICS,
    }
    async with ScriptedEngine(pages) as scripted, session() as asking:
        engine = SGLang(scripted.url)
        reports = [await engine.report(asking) for _ in range(3)]
    assert [(r.replicas[0].slots, r.replicas[0].running) for r in reports] == [(52, 3)] * 3
    assert scripted.asked == {
        "/v1/models": 3,
        "/server_info": 3,
        "/get_server_info": 1,
        "/v1/loads": 3,
        "/metrics": 1,
    }


async def test_an_old_one_is_asked_by_the_old_names_only() -> None:
    pages = {
        "/v1/models": LIST,
        "/get_server_info": {"max_running_requests": 8, "context_length": 2048},
        "/metrics": METRICS,
    }
    async with ScriptedEngine(pages) as scripted, session() as asking:
        engine = SGLang(scripted.url)
        reports = [await engine.report(asking) for _ in range(3)]
    assert [(r.replicas[0].slots, r.replicas[0].running) for r in reports] == [(8, 2)] * 3
    assert scripted.asked["/server_info"] == scripted.asked["/v1/loads"] == 1


async def test_its_health_is_never_asked_because_that_generates() -> None:
    async with ScriptedEngine({"/v1/models": LIST}) as scripted, session() as asking:
        await SGLang(scripted.url).report(asking)
    assert not [path for path in scripted.asked if "health" in path or "generate" in path]


@pytest.mark.parametrize("settings", [b"<html>", [], (500, b"")])
async def test_odd_settings_cost_the_slots_only(settings: Any) -> None:
    report = await report_of(SGLang, {"/v1/models": LIST, "/server_info": settings})
    assert [(r.model, r.slots, r.context_tokens) for r in report.replicas] == [("q", 1, 4096)]
