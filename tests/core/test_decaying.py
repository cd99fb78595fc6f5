from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pair.core.decaying import STRAY_FACTOR, Decaying, seen

VALUES = st.floats(1e-6, 1e7)
WEIGHTS = st.floats(1e-9, 1.0)
OBSERVATIONS = st.lists(st.tuples(VALUES, WEIGHTS), min_size=1, max_size=40)


def mean_of(observations: list[tuple[float, float]]) -> Decaying:
    mean = None
    for observed, weight in observations:
        mean = seen(mean, observed, weight)
    assert mean is not None
    return mean


def after(mean: Decaying, observed: float, calls: int) -> float:
    for _ in range(calls):
        mean = mean.seen(observed, 1.0)
    return mean.value


SETTLED = mean_of([(1.0, 1.0)] * 20)


@given(OBSERVATIONS)
def test_a_mean_lies_between_the_least_and_the_most_that_was_seen(
    observations: list[tuple[float, float]],
) -> None:
    seen_values = [observed for observed, _ in observations]
    mean = mean_of(observations)
    assert min(seen_values) * (1 - 1e-9) <= mean.value <= max(seen_values) * (1 + 1e-9)
    assert 0.0 < mean.evidence < 4.0


def test_the_first_observation_is_the_mean_however_little_it_tells() -> None:
    assert seen(None, 7.0, 0.001).value == 7.0


def test_one_that_tells_far_more_than_all_before_takes_over() -> None:
    assert mean_of([(1.0, 0.001), (100.0, 1.0)]).value == pytest.approx(100.0, rel=0.01)


def test_many_weak_ones_do_not_wash_out_a_strong_one() -> None:
    assert mean_of([(100.0, 1.0)] * 5 + [(1.0, 0.0001)] * 100).value > 90.0


@pytest.mark.parametrize("factor", [1e6, 1e-6])
def test_one_stray_hardly_rules(factor: float) -> None:
    moved = SETTLED.seen(factor, 1.0).value
    assert abs(math.log(moved)) < math.log(1.5)


@pytest.mark.parametrize("factor", [1e6, 1e-6])
def test_strays_to_either_side_in_turn_are_accidents(factor: float) -> None:
    mean = SETTLED
    for turn in range(10):
        mean = mean.seen(factor if turn % 2 else 1.0 / factor, 1.0)
        assert 1.0 / STRAY_FACTOR < mean.value < STRAY_FACTOR


@pytest.mark.parametrize("factor", [0.05, 0.2, 0.5, 2.0, 5.0, 20.0])
def test_what_has_changed_for_good_shows_after_a_few_observations(factor: float) -> None:
    assert after(SETTLED, factor, 6) == pytest.approx(factor, rel=0.25)


def test_weak_strays_never_count_as_a_change() -> None:
    mean = SETTLED
    for _ in range(50):
        mean = mean.seen(1000.0, 0.001)
    assert mean.value < 1.1


def test_a_weak_stray_confirms_nothing() -> None:
    mean = SETTLED.seen(1e6, 1.0)
    assert mean.seen(1e6, 0.001).value == pytest.approx(mean.value, rel=0.01)


def test_age_takes_evidence_but_never_the_last_of_it() -> None:
    assert SETTLED.aged(0.5).evidence == pytest.approx(SETTLED.evidence / 2)
    assert SETTLED.aged(0.0).evidence == 1.0
    assert SETTLED.aged(0.0).value == SETTLED.value
    weak = Decaying(2.0, 0.25)
    assert weak.aged(0.0) == weak
