from __future__ import annotations

import pytest

from pair.core.events import Failure, FailureKind
from pair.core.membership import Node
from pair.core.names import LeaseId, NodeId, Phase
from pair.core.replica import Replica
from pair.core.retrying import RULES, Hurts
from pair.core.standing import (
    FULL_PAUSE_LEAST_S,
    made_room,
    opens_at,
    prove,
    restore,
    set_aside,
)
from tests.core.house import replica
from tests.core.limits import limits
from tests.core.test_ledger import a_replica

LIMITS = limits(pause_s=1.0, pause_limit_s=60.0, busy_pause_s=0.25)


def a_node(phase: Phase = Phase.READY) -> Node:
    return Node(NodeId("a"), "a", phase, 0.0, "", 0.0)


def fails(
    one: Replica,
    failure: Failure,
    now: float,
    *,
    node: Node | None = None,
    granted_at: float | None = None,
) -> float:
    """When the replica may have tickets again after this."""
    granted_at = now if granted_at is None else granted_at
    set_aside(one, node or a_node(), failure, LIMITS, now, granted_at=granted_at)
    return one.set_aside_until


def pause_s(kind: FailureKind, retry_after_s: float | None = None) -> float | None:
    one = a_replica()
    fails(one, Failure(kind, "it failed", retry_after_s), 100.0)
    return one.set_aside_until - 100.0 if one.set_aside_until else None


@pytest.mark.parametrize(
    ("kind", "retry_after_s", "expected"),
    [
        (FailureKind.RESET, None, 1.0),
        (FailureKind.RESET, 7.0, 7.0),
        (FailureKind.RESET, 0.1, 1.0),
        (FailureKind.RATE_LIMITED, 900.0, 60.0),
        (FailureKind.BUSY, None, 0.25),
        (FailureKind.BUSY, 0.0, 0.25),
        (FailureKind.BUSY, 0.5, 0.5),
        (FailureKind.BUSY, 900.0, 1.0),
        (FailureKind.LOADING, None, 1.0),
        (FailureKind.ENGINE_ERROR, None, None),
        (FailureKind.UNREACHABLE, None, None),
    ],
)
def test_the_pause(kind: FailureKind, retry_after_s: float | None, expected: float | None) -> None:
    assert pause_s(kind, retry_after_s) == (None if expected is None else pytest.approx(expected))


def test_pauses_double_up_to_a_limit_and_are_forgiven() -> None:
    one = a_replica()
    failure = Failure(FailureKind.RESET, "gone again")
    pauses = []
    for round_number in range(40):
        now = 1000.0 * round_number
        pauses.append(fails(one, failure, now) - now)
    assert pauses[:8] == pytest.approx([1, 2, 4, 8, 16, 32, 60, 60])
    assert max(pauses) == pytest.approx(60)
    assert one.set_aside_reason == "gone again"
    restore(one)
    assert (one.set_aside_until, one.set_aside_reason) == (0.0, "")
    assert fails(one, failure, 0.0) == pytest.approx(1.0)


def test_a_short_pause_does_not_cut_a_long_one() -> None:
    one = a_replica()
    fails(one, Failure(FailureKind.RESET, "x", 30.0), 0.0)
    assert fails(one, Failure(FailureKind.BUSY, "y"), 1.0) == pytest.approx(30.0)


@pytest.mark.parametrize("phase", Phase)
def test_a_node_that_cannot_be_reached_is_suspect_unless_it_is_lost(phase: Phase) -> None:
    node = a_node(phase)
    fails(a_replica(), Failure(FailureKind.UNREACHABLE, "no route"), 5.0, node=node)
    assert node.phase is (Phase.LOST if phase is Phase.LOST else Phase.SUSPECT)
    assert node.reason == ("" if phase is Phase.LOST else "no route")


def test_calls_that_fall_together_tell_of_one_mishap() -> None:
    one = a_replica()
    failure = Failure(FailureKind.RESET, "it crashed")
    assert fails(one, failure, 10.0, granted_at=1.0) == pytest.approx(11.0)
    assert fails(one, failure, 10.5, granted_at=2.0) == pytest.approx(11.5)
    assert fails(one, failure, 13.0, granted_at=12.0) == pytest.approx(15.0), "that was its trial"


@pytest.mark.parametrize("kind", FailureKind)
def test_who_has_to_prove_itself(kind: FailureKind) -> None:
    one = a_replica()
    fails(one, Failure(kind, "x"), 0.0)
    whole = kind in (FailureKind.BUSY, FailureKind.LOADING)
    assert one.unproven == (RULES[kind].hurts is Hurts.REPLICA and not whole)
    one.trial = LeaseId(1)
    assert one.on_trial == one.unproven
    prove(one)
    assert not one.unproven
    assert one.trial is None


def test_time_alone_opens_what_is_set_aside_or_drains_where_nobody_counts() -> None:
    one = a_replica(slots=3)
    assert opens_at(one, LIMITS, 5.0) is None
    one.draining.add(1.0)
    one.draining.add(2.0)
    assert opens_at(one, LIMITS, 5.0) == pytest.approx(1.0 + LIMITS.left_grace_s)
    one.set_aside_until = 5.5
    assert opens_at(one, LIMITS, 5.0) == pytest.approx(5.5)
    assert opens_at(one, LIMITS, 6.5) == pytest.approx(2.0 + LIMITS.left_grace_s)
    assert len(one.draining) == 1
    one.draining.seen(1, asked_at=60.0)
    assert opens_at(one, LIMITS, 60.0) == pytest.approx(60.0 + LIMITS.left_grace_s), "its last word"


@pytest.mark.parametrize(
    ("asked_at", "running", "ends_at"),
    [
        (9.9, 0, 11.0),  # counted before it was full
        (10.0, 0, 10.0 + FULL_PAUSE_LEAST_S),
        (10.0, 1, 11.0),
        (10.0, None, 11.0),  # it does not say
        (12.0, 0, 10.0 + FULL_PAUSE_LEAST_S),
    ],
)
def test_full_ends_with_the_node_s_own_word(
    asked_at: float, running: int | None, ends_at: float
) -> None:
    one = a_replica()
    fails(one, Failure(FailureKind.BUSY, "full", 5.0), 10.0)
    one.report = replica(running=running)
    made_room(one, asked_at)
    assert one.set_aside_until == ends_at


def test_a_pause_for_something_else_is_not_ended_by_room() -> None:
    one = a_replica()
    fails(one, Failure(FailureKind.BUSY, "full"), 10.0)
    fails(one, Failure(FailureKind.RESET, "broken"), 10.1)
    until = fails(one, Failure(FailureKind.BUSY, "full", 5.0), 10.2)
    one.report = replica(running=0)
    made_room(one, 10.3)
    assert one.set_aside_until == until
