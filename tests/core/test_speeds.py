from __future__ import annotations

import pytest

from pair.core.call_costs import Cost
from pair.core.decaying import Decaying
from pair.core.speeds import BUCKETS, STEP_RATIO, Rates, Speed, bucket_of, remembered


def parts(prefill_s: float | None, decode_s: float | None, *, uncached: float = 1000.0) -> Cost:
    return Cost(uncached, 1.0, 1.0, 100, prefill_s, decode_s, 100, None, None)


def learned(*costs: Cost) -> Rates:
    rates = Rates()
    for cost in costs:
        rates.learn(cost, 1, 0.0)
    return rates


def speed_of(*costs: Cost) -> Speed:
    speed = learned(*costs).speed(1)
    assert speed is not None
    return speed


def test_the_formula() -> None:
    speed = Speed(prefill_tokens_per_s=100.0, tpot_s=0.5, load_s=7.0)
    assert speed.service_s(200, 4) == 4.0
    assert speed.service_s(200, 4, resident=False) == 11.0
    assert speed.service_s(0, 0) == 0.0


def test_a_rate_that_is_not_known_is_guessed_from_the_other() -> None:
    assert speed_of(parts(2.0, None)) == Speed(500.0, STEP_RATIO / 500.0, 5.0)
    assert speed_of(parts(None, 2.0)) == Speed(STEP_RATIO / 0.02, 0.02, 5.0)


def test_of_a_replica_of_which_nothing_is_told_nothing_is_known() -> None:
    assert learned(Cost(10, 1.0, 1.0, None, None, None, 0, 5.0, 3.0)).speed(1) is None


def test_a_call_in_one_piece_moves_most_what_made_most_of_its_time() -> None:
    before = parts(1.0, 1.0)
    long_answer = Cost(10, 1.0, 1.0, 1000, None, None, 1000, 20.0, None)  # predicted: 10 s
    speed = speed_of(before, before, long_answer)
    assert speed.tpot_s > 0.013
    assert speed.prefill_tokens_per_s == pytest.approx(1000, rel=0.01)


@pytest.mark.parametrize(("uncached", "output"), [(1000, 900), (9000, 100)])
def test_both_rates_of_a_call_in_one_piece_move_by_their_shares(
    uncached: float, output: float
) -> None:
    """Both have their full weight of tokens; 1 s of 10 is of the one rate, 9 s of the other."""
    before = [parts(1.0, 1.0)] * 2
    speed = speed_of(*before, Cost(uncached, 1.0, 1.0, output, None, None, output, 20.0, None))
    moved, kept = speed.tpot_s / 0.01, 1000 / speed.prefill_tokens_per_s
    if uncached > 1000:
        moved, kept = kept, moved
    assert moved > 1.2
    assert kept == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("uncached", [0.0, 0.5])
def test_less_than_a_token_tells_no_rate(uncached: float) -> None:
    assert learned(parts(0.001, 1.0, uncached=uncached)).prefill is None


def test_after_an_hour_a_call_counts_more_than_in_between() -> None:
    soon, late = learned(*[parts(1.0, 1.0)] * 9), learned(*[parts(1.0, 1.0)] * 9)
    soon.learn(parts(2.0, 2.0), 1, 1.0)
    late.learn(parts(2.0, 2.0), 1, 86_400.0)
    assert soon.prefill is not None
    assert late.prefill is not None
    assert late.prefill.value < soon.prefill.value < 1000


def test_a_speed_is_told_anew_after_each_call() -> None:
    rates = learned(parts(1.0, 1.0))
    assert rates.speed(1) == rates.speed(1)
    before = rates.speed(1)
    rates.learn(parts(2.0, 2.0), 1, 0.0)
    assert rates.speed(1) != before


def test_buckets_are_powers_of_two_and_have_an_end() -> None:
    assert [bucket_of(busy) for busy in (-5, 0, 1, 2, 3, 4, 7, 8)] == [0, 0, 0, 1, 1, 2, 2, 3]
    assert bucket_of(10**12) == BUCKETS - 1


def test_what_is_remembered_has_the_evidence_of_one_observation() -> None:
    assert remembered(Decaying(5.0, 3.0, 1), (1.0, 10.0)) == Decaying(5.0, 1.0)
    assert remembered(Decaying(5.0, 0.2), (1.0, 10.0)) == Decaying(5.0, 0.2)
    assert remembered(Decaying(50.0, 1.0), (1.0, 10.0)) is None
    assert remembered(None, (1.0, 10.0)) is None
