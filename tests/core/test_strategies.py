from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pair.core.replica import Replica
from pair.core.strategies import STRATEGIES, Strategy, strategy_named
from pair.errors import SettingsError
from tests.core.test_ledger import a_replica
from tests.core.test_waiting_room import ticket


def with_counts(node: str, slots: int, in_flight: int, foreign: int, picked: int) -> Replica:
    one = a_replica(node, slots=slots)
    one.in_flight, one.foreign, one.picked = in_flight, foreign, picked
    return one


def chosen(strategy: Strategy, *free: Replica) -> str:
    choice = strategy.choose(ticket(1), free, 0.0)
    assert choice is not None
    return choice.replica.id.node


def test_queue_depth_takes_the_least_load_for_each_slot() -> None:
    strategy = strategy_named("queue-depth")
    assert chosen(strategy, with_counts("a", 2, 1, 0, 0), with_counts("b", 4, 1, 0, 9)) == "b"
    assert chosen(strategy, with_counts("a", 2, 0, 1, 0), with_counts("b", 4, 1, 0, 9)) == "b"
    assert chosen(strategy, with_counts("a", 2, 1, 0, 8), with_counts("b", 4, 2, 0, 7)) == "b"


def test_round_robin_takes_whoever_was_picked_longest_ago() -> None:
    strategy = strategy_named("round-robin")
    assert chosen(strategy, with_counts("a", 2, 0, 0, 5), with_counts("b", 4, 3, 0, 4)) == "b"


def test_the_reason_is_in_words() -> None:
    free = [with_counts("a", 2, 1, 0, 5), with_counts("b", 1, 0, 0, 4)]
    for name, reason in (
        ("queue-depth", "shortest queue: 0 of 1 slots used, 2 free to choose from"),
        ("round-robin", "its turn among 2 with a free slot"),
    ):
        choice = strategy_named(name).choose(ticket(1), free, 0.0)
        assert choice is not None
        assert choice.reason == reason


COUNTS = st.tuples(st.integers(1, 8), st.integers(0, 7), st.integers(0, 7), st.integers(0, 50))


@given(st.lists(COUNTS, min_size=1, max_size=8))
def test_every_strategy_chooses_one_of_the_free_and_changes_no_count(
    counts: list[tuple[int, int, int, int]],
) -> None:
    free = [with_counts(f"n{index}", *count) for index, count in enumerate(counts)]
    for name in STRATEGIES:
        choice = strategy_named(name).choose(ticket(1), free, 0.0)
        assert choice is not None
        assert choice.replica in free
    assert [(r.report.slots, r.in_flight, r.foreign, r.picked) for r in free] == counts


def test_an_unknown_strategy_is_named_with_those_that_exist() -> None:
    with pytest.raises(SettingsError, match="'random' does not exist; choose one of queue-depth"):
        strategy_named("random")
