from __future__ import annotations

import pytest

from pair.core.fleet import Fleet
from pair.core.outlook import Outlook
from pair.core.replica import Replica
from pair.core.strategies import strategy_named
from pair.core.strategy import Choice, Strategy
from pair.core.ticket import Ticket
from tests.core.limits import limits
from tests.core.test_ledger import a_replica
from tests.core.test_waiting_room import a_room, ticket


def outlook() -> Outlook:
    """One that has seen nothing."""
    return Outlook(limits(), Fleet({}), a_room())


def asked() -> Ticket:
    return ticket(1)


def with_counts(node: str, slots: int, in_flight: int, foreign: int, picked: int) -> Replica:
    one = a_replica(node, slots=slots)
    one.in_flight, one.foreign, one.picked = in_flight, foreign, picked
    return one


def chosen(strategy: Strategy, *free: Replica) -> str:
    choice = strategy.choose(asked(), free, outlook(), 0.0)
    assert isinstance(choice, Choice)
    return choice.replica.id.node


# What has learned nothing counts calls, too.
@pytest.mark.parametrize("name", ["queue-depth", "finish-time"])
def test_queue_depth_takes_the_least_load_for_each_slot(name: str) -> None:
    strategy = strategy_named(name)
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
        choice = strategy_named(name).choose(asked(), free, outlook(), 0.0)
        assert isinstance(choice, Choice)
        assert choice.reason == reason
