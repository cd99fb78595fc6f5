"""What flows have attained, and that turns follow from it: with single calls beside two hundred."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pair.core.events import Usage
from pair.core.fairness import (
    NOTHING,
    TOKENS_LIMIT,
    Account,
    Attained,
    Charge,
    weighted_tokens,
)
from pair.core.names import FlowId, ModelName

M, N = ModelName("m"), ModelName("n")
COSTS = st.floats(1.0, 1e7)
TIMES = st.floats(0.0, 1e7)


def account(flow: str, model: ModelName = M) -> Account:
    return Account(model, FlowId(flow))


A, B = account("a"), account("b")


def test_a_call_costs_its_prompt_and_twice_its_answer() -> None:
    assert weighted_tokens(100.0, 50.0, Usage(prompt_tokens=90, output_tokens=7)) == 104
    assert weighted_tokens(100.0, 50.0) == 200
    assert weighted_tokens(100.0, 50.0, Usage(output_tokens=7)) == 114
    assert weighted_tokens(9.0, 9.0, Usage(prompt_tokens=0, output_tokens=0)) == 1


@pytest.mark.parametrize("said", [-1, TOKENS_LIMIT + 1, 10**400])
def test_what_cannot_be_is_not_believed(said: int) -> None:
    usage = Usage(prompt_tokens=said, output_tokens=said)
    assert weighted_tokens(100.0, 50.0, usage) == weighted_tokens(100.0, 50.0)
    assert weighted_tokens(1e300, 1e300) <= 3 * TOKENS_LIMIT


def test_service_halves_with_the_half_life_and_adds_up() -> None:
    attained = Attained(60.0, 9)
    attained.charge(A, 100.0, 1000.0)
    assert attained.of(A, 1000.0) == pytest.approx(100.0)
    assert attained.of(A, 1060.0) == pytest.approx(50.0)
    attained.charge(A, 30.0, 1060.0)
    assert attained.of(A, 1060.0) == pytest.approx(80.0)
    assert attained.of(A, 1180.0) == pytest.approx(20.0)
    assert attained.of(B, 1180.0) == 0.0
    assert attained.level(B) == NOTHING


@given(st.lists(st.tuples(st.booleans(), COSTS, st.floats(0.0, 1e5)), max_size=30), TIMES)
def test_levels_order_as_what_is_left_does_at_any_time(
    charges: list[tuple[bool, float, float]], later_s: float
) -> None:
    attained = Attained(60.0, 9)
    now = 0.0
    for to_a, cost, passed_s in charges:
        now += passed_s
        attained.charge(A if to_a else B, cost, now)
    a, b = attained.of(A, now), attained.of(B, now)
    if abs(a - b) > 1e-6 * max(a, b):
        assert (a > b) == (attained.level(A) > attained.level(B))
    assert attained.of(A, now + later_s) <= a


@given(COSTS, TIMES, COSTS, st.floats(0.0, 1e6))
def test_taking_back_leaves_what_was_before(
    cost: float, at: float, other: float, passed_s: float
) -> None:
    attained = Attained(60.0, 9)
    attained.charge(A, cost, at)
    attained.charge(A, -cost, at)
    assert attained.of(A, at + passed_s) == 0.0
    attained.charge(B, other, at)
    attained.charge(B, cost, at)
    attained.charge(B, -cost, at)
    assert attained.of(B, at) == pytest.approx(other, abs=1e-6 * (cost + other))


def test_less_was_never_attained_and_more_is_attained_by_now() -> None:
    attained = Attained(60.0, 9)
    for one, cost in ((A, 40.0), (B, 700.0)):
        attained.charge(one, 100.0, 0.0)
        attained.correct(Charge(one, 100.0, 0.0), cost, 600.0)
    assert attained.of(A, 0.0) == pytest.approx(40.0)
    assert attained.of(B, 600.0) == pytest.approx(600.0 + 100.0 / 2**10)


def test_each_model_has_accounts_of_its_own() -> None:
    attained = Attained(60.0, 9)
    attained.charge(A, 100.0, 0.0)
    assert attained.of(account("a", N), 0.0) == 0.0


def test_who_is_lifted_loses_nothing() -> None:
    attained = Attained(60.0, 9)
    attained.charge(A, 100.0, 0.0)
    attained.lift(B, attained.level(A))
    assert attained.of(B, 0.0) == pytest.approx(100.0)
    attained.lift(A, attained.level(A) - 1)
    assert attained.of(A, 0.0) == pytest.approx(100.0)


def test_accounts_are_bounded_and_who_is_forgotten_begins_where_turns_are() -> None:
    """I7. Not at nothing: that would be a reward for having been forgotten."""
    attained = Attained(60.0, 3)
    for number in range(1000):
        one = account(str(number), ModelName(str(number % 7)))
        attained.charge(one, 100.0, 0.0)
        attained.turn(one)
        attained.charge(account(f"{number}!"), 1.0, 0.0)
    assert len(attained) == 3
    forgotten, model = account("5", ModelName("5")), ModelName("5")
    attained.turn(account("x", model))
    attained.charge(forgotten, 10.0, 0.0)
    assert attained.level(forgotten) > attained.turn_level(model)
