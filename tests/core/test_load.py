from __future__ import annotations

import math

import pytest

from pair.core.ledger import Ledger
from pair.core.load import discount_refused, forget_report, take_report
from pair.core.names import TicketId
from pair.core.replica import Replica
from pair.core.reports import ReplicaReport
from tests.core.house import replica
from tests.core.test_ledger import a_replica


def told(one: Replica, said: ReplicaReport, asked_at: float = 0.0, now: float = 0.0) -> None:
    take_report(one, said, asked_at=asked_at, now=now)


@pytest.mark.parametrize(
    ("running", "waiting", "ours", "foreign"),
    [
        (0, 0, 0, 0),
        (2, None, 0, 2),
        (2, 1, 0, 3),
        (2, 0, 2, 0),
        (3, 1, 2, 2),
        (1, 0, 2, 0),
        (None, None, 1, 0),
        (None, 2, 1, 1),
    ],
)
def test_load_is_counted_once(
    running: int | None, waiting: int | None, ours: int, foreign: int
) -> None:
    one, ledger = a_replica(slots=4), Ledger()
    for number in range(ours):
        ledger.grant(TicketId(number), one, 0.0, light=False)
    told(one, replica(slots=4, running=running, waiting=waiting))
    assert one.foreign == foreign
    assert one.load == ours + foreign


def test_a_call_that_just_ended_is_not_taken_for_foreign() -> None:
    one, ledger = a_replica(), Ledger()
    lease = ledger.grant(TicketId(1), one, 0.0, light=False)
    ledger.settle(lease.id)
    told(one, replica(running=1))
    assert one.foreign == 0
    told(one, replica(running=1))
    assert one.foreign == 1, "in the next report it would have been gone"


def test_a_refused_call_never_was_in_the_node_s_count() -> None:
    one, ledger = a_replica(), Ledger()
    lease = ledger.grant(TicketId(1), one, 0.0, light=False)
    ledger.settle(lease.id)
    discount_refused(one)
    told(one, replica(running=1))
    assert one.foreign == 1


def test_a_refused_call_leaves_those_that_run_in_our_count() -> None:
    one, ledger = a_replica(slots=3), Ledger()
    ledger.grant(TicketId(1), one, 0.0, light=False)
    refused = ledger.grant(TicketId(2), one, 0.0, light=False)
    ledger.settle(refused.id)
    discount_refused(one)
    discount_refused(one)
    told(one, replica(slots=3, running=1))
    assert one.foreign == 0


def test_silence_means_unknown_and_unknown_counts_as_none() -> None:
    one = a_replica()
    told(one, replica(running=1))
    assert not one.has_free_slot()
    forget_report(one)
    assert one.has_free_slot()


def test_a_report_lists_the_replica_again() -> None:
    one = a_replica()
    one.listed = False
    told(one, replica())
    assert one.listed


@pytest.mark.parametrize("running", [0, 1, 2])
def test_a_count_of_the_node_s_own_needs_no_guess_of_when_it_was_made(running: int) -> None:
    """One foreign call; of two of ours one has not got there yet, and one has just ended."""
    one, ledger = a_replica(slots=4), Ledger()
    ended = ledger.grant(TicketId(1), one, 0.0, light=False)
    ledger.grant(TicketId(2), one, 0.0, light=False)
    ledger.settle(ended.id)
    told(one, replica(slots=4, running=1 + running, yours=running))
    assert one.foreign == 1, "neither hidden by our peak nor made up from what has ended"


def test_a_call_that_was_left_is_ours_until_the_node_is_asked() -> None:
    one, ledger = a_replica(slots=3), Ledger()
    left = ledger.grant(TicketId(1), one, 0.0, light=False)
    ledger.settle(left.id, left_at=1.0)
    told(one, replica(slots=3, running=2, yours=0), asked_at=-math.inf)
    assert (one.load, one.foreign) == (2, 1)
    told(one, replica(slots=3, running=1, yours=0), asked_at=2.0, now=2.0)
    assert one.load == 1


def test_more_of_ours_than_there_is_hides_nothing() -> None:
    one = a_replica(slots=4)
    told(one, replica(slots=4, running=1, yours=3))
    assert one.foreign == 0
