"""What the project is for: a fan-out over several nodes against the limit that waves allow.

Ratios of times of one run; the baseline is theory (calls x time of one), because echo engines keep
time.
"""

from __future__ import annotations

import asyncio
import time

import pytest

from pair.bench.echo_engine.settings import EchoSettings
from tests.support.house import House, chat, house

DECODE_RATE = 50.0


def two_seconds() -> EchoSettings:
    """An engine on which a call of 100 tokens takes 2 s."""
    return EchoSettings(decode_rate_tokens_per_s=DECODE_RATE, prefill_rate_tokens_per_s=1e9)


async def makespan_s(built: House, calls: int, tokens: int, job: str) -> float:
    """Send equal calls at once and time them as their clients see it."""
    start = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        sent = [
            tasks.create_task(built.send(chat(tokens=tokens), x_pair_job=job)) for _ in range(calls)
        ]
    took_s = time.perf_counter() - start
    assert [each.result().status for each in sent] == [200] * calls
    return took_s


@pytest.mark.parametrize(
    ("nodes", "calls", "tokens", "waves", "limit", "at_least"),
    [
        (3, 5, 150, 2, 2.5, 2.45),
        (2, 8, 150, 4, 2.0, 1.96),
        (8, 64, 100, 8, 8.0, 0.97 * 8.0),
    ],
)
async def test_equal_calls_reach_the_wave_limit(
    nodes: int, calls: int, tokens: int, waves: int, limit: float, at_least: float
) -> None:
    alone_s = calls * tokens / DECODE_RATE
    async with house(*[two_seconds() for _ in range(nodes)]) as built:
        # Client, proxy and engines share one process, which has slept through each wave: its first
        # steps after that are slow on some machines, now more and now less.
        name, took_s = "team", await makespan_s(built, calls, tokens, "team")
        if alone_s / took_s < at_least:  # noise only ever adds to a makespan
            name, took_s = "again", await makespan_s(built, calls, tokens, "again")
        assert alone_s / took_s >= at_least
        async with built.client.get(f"/pair/v1/jobs/{name}") as answer:
            job = await answer.json()
    assert job["waves"] == waves
    assert job["limit"] == pytest.approx(limit, abs=0.005)
    assert job["achieved"] >= at_least
    assert job["achieved"] <= limit * 1.02
    assert job["baseline"] == "predicted"
    assert {call["outcome"] for call in job["calls"]} == {"answered"}


async def test_a_measured_baseline_is_taken_from_the_lone_run() -> None:
    async with house(two_seconds(), two_seconds()) as built:
        start = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(4):
                tasks.create_task(
                    built.send(chat(tokens=10), x_pair_job="team/alone", x_pair_node="node-1")
                )
        alone_s = time.perf_counter() - start
        await makespan_s(built, 4, 10, "team")
        async with built.client.get("/pair/v1/jobs/team") as answer:
            job = await answer.json()
    assert job["baseline"] == "measured"
    assert job["baseline_s"] == pytest.approx(alone_s, rel=0.05)
    assert job["baseline_node"] == built.engines[1].url
    assert job["limit"] == pytest.approx(2.0, abs=0.005)


async def test_a_burst_in_one_tick_spreads_and_never_exceeds_the_slots() -> None:
    """Checked at the engines: our own counters could be wrong in the same way as our dispatch."""
    engine = EchoSettings(decode_rate_tokens_per_s=200.0, prefill_rate_tokens_per_s=1e9, slots=2)
    async with house(*[engine] * 4) as built:
        await makespan_s(built, 100, 10, "burst")
        counts = [node.journal.counters for node in built.engines]
        assert [each.max_running for each in counts] == [2] * 4
        assert all(entry.start_s is not None for e in built.engines for entry in e.journal.entries)
        # Nothing ever waited inside an engine: each call started as it arrived.
        waits = [
            entry.start_s - entry.arrival_s
            for node in built.engines
            for entry in node.journal.entries
            if entry.start_s is not None
        ]
        assert max(waits) < 0.05
        served = [each.fates["done"] for each in counts]
        assert sum(served) == 100
        assert max(served) - min(served) <= 1
        built.assert_books_are_clean()
