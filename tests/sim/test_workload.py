from __future__ import annotations

from collections.abc import Callable
from random import Random
from statistics import mean

import pytest

from pair.errors import BookkeepingError
from pair.sim.text import Run
from pair.sim.workload import FAN_OUT_SPREAD_S, Lengths, PlannedCall, burst, fan_outs, poisson

EQUAL = Lengths(200, 90)
DRAWN = Lengths(200, 90, spread=0.5)


def test_equal_lengths_are_equal() -> None:
    assert {DRAWN.draw(Random(1)) for _ in range(9)} == {DRAWN.draw(Random(1))}
    assert EQUAL.draw(Random(1)) == (200, 90)


def test_drawn_lengths_keep_their_mean_and_are_whole_tokens() -> None:
    random = Random(1)
    drawn = [DRAWN.draw(random) for _ in range(4000)]
    assert mean(prompt for prompt, _ in drawn) == pytest.approx(200, rel=0.05)
    assert mean(output for _, output in drawn) == pytest.approx(90, rel=0.05)
    tiny = Lengths(1, 1, spread=2.0)
    assert min(min(tiny.draw(random)) for _ in range(200)) == 1


def test_a_burst_comes_in_one_instant() -> None:
    calls = burst(5, EQUAL, Random(1))
    assert calls == [PlannedCall(0.0, 200, 90)] * 5


def test_fan_outs_are_jobs_of_calls_that_come_close_together() -> None:
    calls = fan_outs(20, width=8, every_s=10.0, lengths=EQUAL, random=Random(1))
    by_job: dict[object, list[float]] = {}
    for call in calls:
        by_job.setdefault(call.job, []).append(call.at_s)
    assert [len(times) for times in by_job.values()] == [8, 8, 4]
    assert [min(times) for times in by_job.values()] == [0.0, 10.0, 20.0]
    for number, times in enumerate(by_job.values()):
        assert max(times) - 10.0 * number <= FAN_OUT_SPREAD_S


def test_independent_clients_come_at_their_rate() -> None:
    calls = poisson(4000, rate_per_s=2.0, lengths=EQUAL, random=Random(1))
    assert calls[0].at_s == 0.0
    assert calls[-1].at_s == pytest.approx(2000.0, rel=0.05)


@pytest.mark.parametrize(
    "draw",
    [
        lambda random: burst(50, DRAWN, random),
        lambda random: fan_outs(50, 8, 1.0, DRAWN, random),
        lambda random: poisson(50, 2.0, DRAWN, random),
    ],
    ids=["burst", "fan-out", "poisson"],
)
def test_the_same_seed_gives_the_same_calls_in_order_of_time(
    draw: Callable[[Random], list[PlannedCall]],
) -> None:
    calls = draw(Random(7))
    assert calls == draw(Random(7))
    assert calls != draw(Random(8))
    assert len(calls) == 50
    assert [call.at_s for call in calls] == sorted(call.at_s for call in calls)


def test_a_text_is_as_long_as_its_prompt() -> None:
    assert PlannedCall(0.0, 30, 5, text=(Run(1, 10), Run(2, 20))).prompt_tokens == 30
    with pytest.raises(BookkeepingError, match="a text of 30 tokens in a prompt of 31"):
        PlannedCall(0.0, 31, 5, text=(Run(1, 10), Run(2, 20)))
