"""Runs of a workload through the real client, against a house and against engines themselves."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from pair.bench.echo_engine.engine import EchoEngine
from pair.bench.echo_engine.settings import EchoSettings
from pair.bench.runner import Answer, FailedCall, Run, Target, run_directly, run_through
from pair.bench.workload import Workload
from pair.core.names import Outcome
from tests.support.house import FAST, house

STEADY = EchoSettings(prefill_rate_tokens_per_s=1e9, decode_rate_tokens_per_s=200.0)
TOKENS = 8
SIX = Workload("echo", calls=6, output_tokens=TOKENS)
CALL_S = TOKENS / 200.0


@asynccontextmanager
async def target(url: str, **headers: str) -> AsyncIterator[Target]:
    """A target at `/v1` there, closed at the end."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    opened = Target(f"{url}/v1", named)
    try:
        yield opened
    finally:
        await opened.close()


async def test_all_calls_are_sent_at_once_and_told_as_they_end() -> None:
    told: list[Answer] = []
    async with house(STEADY, STEADY) as built, target(built.base_url, x_pair_job="team") as proxy:
        run = await run_through(proxy, SIX, told.append)
        async with built.client.get("/pair/v1/jobs/team") as answer:
            job = await answer.json()
    assert [answer.number for answer in run.answers] == list(range(6))
    assert sorted(told, key=lambda answer: answer.number) == list(run.answers)
    assert [answer.output_events for answer in run.answers] == [TOKENS] * 6
    assert {answer.node for answer in run.answers} == {"node-0", "node-1"}
    assert max(answer.started_s for answer in run.answers) < 1.0
    for each in run.answers:
        assert 0 <= each.started_s < each.first_content_s < each.done_s
    assert (job["calls_total"], job["answered"], job["waves"]) == (6, 6, 3)
    assert run.makespan_s >= 3 * CALL_S
    assert run.makespan_s == pytest.approx(job["makespan_s"], abs=0.5)


async def test_a_client_that_drives_the_engines_itself_sends_one_call_at_a_time_to_each() -> None:
    wide = replace(STEADY, slots=4)
    told: list[Answer] = []
    async with (
        EchoEngine(wide) as one,
        EchoEngine(wide) as two,
        target(one.url) as first,
        target(two.url) as second,
    ):
        run = await run_directly({"one": first, "two": second}, SIX, told.append)
        counts = [engine.journal.counters for engine in (one, two)]
        assert [each.max_running for each in counts] == [1, 1]
        assert sum(each.fates["done"] for each in counts) == 6
        for name, each in zip(("one", "two"), counts, strict=True):
            assert sum(answer.node == name for answer in run.answers) == each.fates["done"]
    assert sorted(answer.number for answer in run.answers) == list(range(6))
    assert len(told) == 6


async def test_the_faster_engine_gets_more_calls() -> None:
    slow = replace(STEADY, decode_rate_tokens_per_s=50.0)
    async with (
        EchoEngine(STEADY) as one,
        EchoEngine(slow) as two,
        target(one.url) as first,
        target(two.url) as second,
    ):
        run = await run_directly({"fast": first, "slow": second}, SIX, lambda answer: None)
    fast = sum(answer.node == "fast" for answer in run.answers)
    assert fast > 6 - fast


async def test_the_first_call_that_fails_ends_the_run_and_all_others() -> None:
    async with house(STEADY, STEADY) as built, target(built.base_url) as proxy:
        built.engines[0].faults.set("status,status=400,message=not like this")
        long = replace(SIX, output_tokens=10_000)
        with pytest.raises(ExceptionGroup) as raised:
            await run_through(proxy, long, lambda answer: None)
        assert raised.group_contains(FailedCall, match=r"call \d failed: .*not like this")
        await built.quiet()
        snapshot = built.snapshot()
        assert snapshot.closed[Outcome.CLIENT_LEFT] > 0
        assert sum(snapshot.closed.values()) == snapshot.opened
        built.assert_books_are_clean()


def script(stream: bytes, framing: str = "length") -> str:
    pieces = [{"at_s": 0, "content": base64.b64encode(stream).decode()}]
    return json.dumps({"kind": "script", "framing": framing, "pieces": pieces})


CONTENT = b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}\n\n'
FAULTS = {
    "cut": ("cut,after_events=3", "incomplete"),
    "cut within a chunk": ("cut,after_events=3,how=mid_chunk", "incomplete"),
    "reset": ("reset", "[Cc]onnection"),
    "not HTTP": ("garbage", "[Cc]onnection"),
    "an error": ("status,status=500,message=on fire", "on fire"),
    "an error event": (script(b'data: {"error":{"message":"torn"}}\n\n'), "torn"),
    "no end": (script(CONTENT), "ended before the answer did"),
    "no end, whole": (script(CONTENT + b"data: [DONE]\n\n"), "ended before the answer did"),
    "nothing": (script(b"", "close"), "ended before the answer did"),
    "no JSON": (script(b"data: {oops\n\n"), "no JSON"),
}


@pytest.mark.parametrize("kind", FAULTS)
async def test_a_call_without_a_whole_answer_has_failed_in_words(kind: str) -> None:
    fault, words = FAULTS[kind]
    async with EchoEngine(FAST) as engine, target(engine.url) as asked:
        engine.faults.set(fault)
        with pytest.raises(FailedCall, match=f"call 4 failed: .*{words}"):
            await asked.call(SIX, 4, 0.0)
        assert engine.journal.counters.requests_by_path["/v1/chat/completions"] == 1


async def test_nobody_there_is_a_failed_call() -> None:
    async with EchoEngine(FAST) as engine:
        url = engine.url
    async with target(url) as asked:
        with pytest.raises(FailedCall, match=r"[Cc]onnect"):
            await asked.call(SIX, 0, 0.0)


async def test_retries_are_the_clients_where_they_are_asked_for() -> None:
    async with EchoEngine(FAST) as engine:
        engine.faults.set("reset,first=1")
        asked = Target(f"{engine.url}/v1", retries=1)
        answer = await asked.call(SIX, 0, 0.0)
        await asked.close()
        assert answer.output_events == TOKENS
        assert engine.journal.counters.requests_by_path["/v1/chat/completions"] == 2


async def test_a_proxy_of_the_environment_does_not_capture_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with EchoEngine(FAST) as engine:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")
        async with target(engine.url) as asked:
            assert (await asked.call(SIX, 0, 0.0)).output_events == TOKENS


def test_figures_of_a_run() -> None:
    answers = (
        Answer(0, "a", started_s=1.0, first_content_s=1.5, done_s=3.0, output_events=1),
        Answer(1, "b", started_s=1.25, first_content_s=2.75, done_s=4.5, output_events=1),
        Answer(2, "a", started_s=2.0, first_content_s=2.25, done_s=4.0, output_events=1),
    )
    run = Run(answers)
    assert run.makespan_s == 3.5
    assert run.ttft_s_p50 == 0.5


async def test_leaving_in_the_middle_stops_the_engine() -> None:
    slow = replace(STEADY, decode_rate_tokens_per_s=20.0)
    async with EchoEngine(slow) as engine, target(engine.url) as asked:
        journal = engine.journal
        async with asyncio.TaskGroup() as tasks:
            call = tasks.create_task(asked.call(replace(SIX, output_tokens=1000), 0, 0.0))
            await journal.until(lambda: journal.counters.running == 1, 5.0)
            call.cancel()
        await journal.until(lambda: journal.counters.fates["hung_up"] == 1, 5.0)
        assert journal.counters.running == 0
