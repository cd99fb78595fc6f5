from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pair.core.waves import (
    Lane,
    alone_s,
    graham_ceiling_s,
    makespan_bound_s,
    makespan_floor_s,
    wave_count,
)


def by_brute_force(calls: int, lanes: list[Lane]) -> float:
    """The best makespan over every way to share out the calls."""
    best = float("inf")
    for shares in product(range(calls + 1), repeat=len(lanes)):
        if sum(shares) == calls:
            ends = [alone_s(n, lane) for n, lane in zip(shares, lanes, strict=True) if n]
            best = min(best, max(ends))
    return best


# Binary fractions, so that sums and multiples are exact and equality can be asked for.
LANES = st.lists(
    st.builds(Lane, slots=st.integers(1, 3), call_s=st.integers(1, 40).map(lambda n: n / 8)),
    min_size=1,
    max_size=3,
)


@given(st.integers(1, 8), LANES)
def test_no_sharing_out_ends_before_the_bound_and_the_best_one_meets_it(
    calls: int, lanes: list[Lane]
) -> None:
    assert makespan_bound_s(calls, lanes) == by_brute_force(calls, lanes)


@given(st.integers(1, 60), LANES)
def test_the_bound_is_the_smallest_time_in_which_the_slots_hold_all_calls(
    calls: int, lanes: list[Lane]
) -> None:
    bound_s = makespan_bound_s(calls, lanes)

    def fit(time_s: float) -> int:
        return sum(lane.slots * int(time_s // lane.call_s) for lane in lanes)

    assert fit(bound_s) >= calls
    assert fit(bound_s - 1 / 16) < calls


@given(st.integers(1, 60), st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_for_equal_nodes_the_limit_is_waves_over_waves(calls: int, slots: list[int]) -> None:
    lanes = [Lane(count, 2.0) for count in slots]
    waves_alone, waves = wave_count(calls, slots[0]), wave_count(calls, sum(slots))
    assert alone_s(calls, lanes[0]) / makespan_bound_s(calls, lanes) == waves_alone / waves


@pytest.mark.parametrize(
    ("calls", "slots", "waves", "limit"),
    [(5, [1, 1, 1], 2, 2.5), (8, [1, 1], 4, 2.0), (64, [1] * 8, 8, 8.0), (3, [2, 2], 1, 2.0)],
)
def test_the_classics(calls: int, slots: list[int], waves: int, limit: float) -> None:
    lanes = [Lane(count, 2.0) for count in slots]
    assert wave_count(calls, sum(slots)) == waves
    assert alone_s(calls, lanes[0]) / makespan_bound_s(calls, lanes) == limit


@given(
    st.integers(1, 8),
    st.lists(st.integers(1, 400).map(lambda n: n / 8), min_size=1, max_size=40),
)
def test_taking_the_next_call_whenever_a_slot_frees_stays_between_floor_and_ceiling(
    slots: int, times_s: list[float]
) -> None:
    """I9's two bounds against the plainest dispatcher there is."""
    ends = [0.0] * slots
    for time_s in times_s:
        first = ends.index(min(ends))
        ends[first] += time_s
    total_s, longest_s = sum(times_s), max(times_s)
    floor_s = makespan_floor_s(total_s, longest_s, slots)
    ceiling_s = graham_ceiling_s(total_s, longest_s, slots)
    assert floor_s <= max(ends) <= ceiling_s + 1e-9
