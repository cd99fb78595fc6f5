"""The same calls alone, together and directly, side by side, through a real house."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pair.bench.comparison import Comparer, Comparison, Round
from pair.bench.echo_engine.settings import EchoSettings
from pair.bench.runner import Answer, FailedCall, Run
from pair.bench.workload import Workload
from tests.support.house import FAST, House, house

STEADY = EchoSettings(prefill_rate_tokens_per_s=1e9, decode_rate_tokens_per_s=200.0)
FOUR = Workload("echo", calls=4, output_tokens=20)
TWO = Workload("echo", calls=2, output_tokens=2)

ALONE = "all calls on one node alone (the baseline)"
TOGETHER = "all calls on all nodes"
DIRECT = "all calls by a client that drives the engines itself"


class Bench:
    """A comparer on a house, with what it told."""

    def __init__(self, built: House, *, direct: bool = False, workload: Workload = FOUR) -> None:
        engines = {f"e{number}": f"{e.url}/v1" for number, e in enumerate(built.engines)}
        self.built = built
        self.told: list[str] = []
        self.answers: list[Answer] = []
        self.comparer = Comparer(
            f"{built.base_url}/v1",
            workload,
            name="bench",
            alone_on="node-1",
            direct=engines if direct else None,
        )

    async def rounds(self, count: int) -> Comparison:
        return await self.comparer.rounds(count, self.told.append, self._quiet, self.answers.append)

    async def _quiet(self) -> None:
        self.told.append("quiet")
        await self.built.quiet()

    async def job(self, name: str) -> Any:
        async with self.built.client.get(f"/pair/v1/jobs/{name}") as answer:
            assert answer.status == 200
            return await answer.json()


async def test_one_round_is_a_baseline_and_a_job_that_the_proxy_measures_against_it() -> None:
    async with house(STEADY, STEADY) as built:
        bench = Bench(built)
        comparison = await bench.rounds(1)
        job = await bench.job("bench")
        alone = await bench.job("bench/alone")
    (only,) = comparison.rounds
    assert (only.job, only.direct, only.direct_speedup) == ("bench", None, None)
    assert {answer.node for answer in only.alone.answers} == {"node-1"}
    assert {answer.node for answer in only.together.answers} == {"node-0", "node-1"}
    assert len(bench.answers) == 8
    assert (alone["calls_total"], job["calls_total"]) == (4, 4)
    assert job["baseline"] == "measured"
    assert job["baseline_node"] == built.engines[1].url
    assert only.speedup == pytest.approx(only.alone.makespan_s / only.together.makespan_s)
    assert comparison.of_direct is None
    assert bench.told == [
        f"round 1 of 1: {ALONE}",
        "quiet",
        f"round 1 of 1: {TOGETHER}",
        "quiet",
    ]


async def test_the_order_of_the_arms_turns_round_by_round() -> None:
    async with house(FAST, FAST) as built:
        bench = Bench(built, direct=True, workload=TWO)
        comparison = await bench.rounds(3)
        jobs = [await bench.job(each.job) for each in comparison.rounds]
    assert [each.job for each in comparison.rounds] == [f"bench-{n}" for n in range(1, 4)]
    assert {job["baseline"] for job in jobs} == {"measured"}
    steps = [told.partition(": ")[2] for told in bench.told if told != "quiet"]
    assert bench.told[1::2] == ["quiet"] * 9, "the house is quiet before each arm"
    orders = [steps[at : at + 3] for at in range(0, 9, 3)]
    assert orders == [
        [ALONE, TOGETHER, DIRECT],
        [TOGETHER, DIRECT, ALONE],
        [DIRECT, ALONE, TOGETHER],
    ]
    for each in comparison.rounds:
        assert each.direct is not None
        assert {answer.node for answer in each.direct.answers} <= {"e0", "e1"}
    assert len(bench.answers) == 3 * 3 * TWO.calls
    assert comparison.of_direct is not None


async def test_a_warm_up_is_one_call_to_each_node() -> None:
    answers: list[Answer] = []
    async with house(FAST, FAST) as built:
        bench = Bench(built)
        await bench.comparer.warm_up(["node-1", built.engines[0].url], answers.append)
        job = await bench.job("bench/warm-up")
    assert [answer.node for answer in answers] == ["node-1", "node-0"]
    assert job["calls_total"] == 2


async def test_a_call_that_fails_fails_the_bench() -> None:
    async with house(FAST, FAST) as built:
        bench = Bench(built)
        built.engines[1].faults.set("status,status=400,message=not like this")
        with pytest.raises(ExceptionGroup) as raised:
            await bench.rounds(1)
        assert raised.group_contains(FailedCall, match="not like this")
        await built.quiet()
        built.assert_books_are_clean()


def ran(*seconds: float) -> Run:
    return Run(tuple(Answer(n, "", 0.0, 0.0, s, 1) for n, s in enumerate(seconds)))


def compared(*rounds: Sequence[float]) -> Comparison:
    """Rounds by the makespans of alone, together and, where there is one, direct."""
    return Comparison(
        tuple(
            Round("job", ran(alone), ran(together), ran(*direct) if direct else None)
            for alone, together, *direct in rounds
        )
    )


def test_figures_are_medians_over_the_rounds() -> None:
    assert compared((10, 5), (12, 4), (9, 9)).speedup == 2.0
    assert compared((10, 5)).of_direct is None


def test_the_share_of_the_direct_client_is_taken_within_each_round() -> None:
    """A machine that slows down for one round slows all its arms."""
    comparison = compared((10, 5, 4), (20, 10, 10), (40, 20, 19))
    assert comparison.speedup == 2.0
    assert comparison.of_direct == pytest.approx(0.95)
