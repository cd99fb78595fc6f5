from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pair.core.call_costs import Cost, cost_of, output_of, possible_count, possible_s
from pair.core.events import Usage

TIMES = st.none() | st.floats() | st.floats(0, 100)
COUNTS = st.none() | st.integers(-10, 10**12)


def cost(
    usage: Usage, service_s: float = 10.0, first_byte_s: float | None = None, **guessed: float
) -> Cost:
    return cost_of(
        usage,
        guessed_tokens=guessed.get("tokens", 0.0),
        guessed_cached_tokens=guessed.get("cached"),
        first_byte_s=first_byte_s,
        service_s=service_s,
    )


def parts(told: Cost) -> tuple[float | None, float | None, float]:
    return told.prefill_s, told.decode_s, told.decoded


@pytest.mark.parametrize(
    ("usage", "first_byte_s", "expected"),
    [
        (Usage(100, 0, 9), 2.0, (2.0, 8.0, 8)),  # the first of them came with the prefill
        (Usage(100, 0, 9, 1.5, 7.5), 2.0, (1.5, 7.5, 9)),
        (Usage(100, 0, 9, 1.5), 2.0, (1.5, 8.0, 8)),
        (Usage(100, 0, 9, None, 7.5), 2.0, (2.0, 7.5, 9)),
        (Usage(100, 0, 9, None, None, 1.0), 2.0, (1.0, 8.0, 8)),
        (Usage(100, 0, 9), None, (None, None, 9)),
        (Usage(100, 0, 9, 1.5), None, (1.5, 8.5, 9)),
        (Usage(100, 0, 9, None, 7.5), None, (2.5, 7.5, 9)),
        (Usage(100, 0, 9), 9.9999, (None, None, 9)),  # held back, and then all of it at once
        (Usage(100, 0, 9, 1.5), 9.9999, (1.5, 8.5, 9)),
        (Usage(100, 0, 1), 9.0, (9.0, None, 1)),
        (Usage(100, 0, None), None, (10.0, None, 0)),  # an embedding
        (Usage(), 2.0, (2.0, None, 0)),
        (Usage(), None, (None, None, 0)),
        (Usage(100, 0, 9, 11.2, 11.2), 2.0, (2.0, 8.0, 8)),  # longer than the call itself
    ],
)
def test_the_parts_are_told_by_the_best_clock_there_is(
    usage: Usage, first_byte_s: float | None, expected: tuple[float | None, float | None, float]
) -> None:
    assert parts(cost(usage, 10.0, first_byte_s)) == pytest.approx(expected)


def test_the_load_is_no_part_of_the_whole() -> None:
    told = cost(Usage(100, 0, 9, None, None, 4.0))
    assert (told.whole_s, told.load_s) == (6.0, 4.0)


def test_engines_counts_stand_before_those_that_are_guessed() -> None:
    told = cost(Usage(100, 30, 9), tokens=500.0, cached=400.0)
    assert (told.uncached, told.sure, told.fast_weight) == (70, 1.0, 1.0)
    guessed = cost(Usage(None, None, 9), tokens=500.0, cached=400.0)
    assert guessed.uncached == 100
    assert guessed.sure < 1.0
    assert cost(Usage(100, None, 9)).fast_weight < guessed.fast_weight < 0.5  # no stray confirms it
    assert cost(Usage(100, 130, 9)).uncached == 0


@pytest.mark.parametrize(
    ("usage", "output"),
    [(Usage(5, 0, 7), 7), (Usage(5), 0), (Usage(), None), (Usage(None, None, -1), None)],
)
def test_an_engine_that_tells_only_the_prompts_tokens_has_made_none(
    usage: Usage, output: float | None
) -> None:
    assert output_of(usage) == output


@pytest.mark.parametrize("said", [None, 0.0, -1.0, 5e-324, math.nan, math.inf, 86_400.0])
def test_what_is_no_duration_of_a_call_is_not_said(said: float | None) -> None:
    assert possible_s(said) is None


@pytest.mark.parametrize("said", [None, -1, math.nan, math.inf, 10**9 + 1])
def test_what_is_no_count_is_not_said(said: float | None) -> None:
    assert possible_count(said) is None


@given(
    COUNTS, COUNTS, COUNTS, TIMES, TIMES, TIMES, TIMES, TIMES.filter(lambda time: time is not None)
)
def test_whatever_is_said_every_part_is_a_positive_time_or_unknown(
    prompt: int | None,
    cached: int | None,
    output: int | None,
    prefill_s: float | None,
    decode_s: float | None,
    load_s: float | None,
    first_byte_s: float | None,
    service_s: float,
) -> None:
    usage = Usage(prompt, cached, output, prefill_s, decode_s, load_s)
    told = cost(usage, service_s, first_byte_s)
    for part_s in (told.prefill_s, told.decode_s, told.whole_s, told.load_s):
        assert part_s is None or 0.0 < part_s < math.inf
    assert 0.0 <= told.uncached < math.inf
    assert 0.0 <= told.decoded < math.inf
