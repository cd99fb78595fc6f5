from __future__ import annotations

import pytest

from pair.core.events import Failure, FailureKind
from pair.core.membership import Node
from pair.core.names import NodeId, Phase
from pair.core.standing import restore, set_aside
from tests.core.limits import limits
from tests.core.test_ledger import a_replica

LIMITS = limits(pause_s=1.0, pause_limit_s=60.0, busy_pause_s=0.25)


def a_node(phase: Phase = Phase.READY) -> Node:
    return Node(NodeId("a"), "a", phase, 0.0, "", 0.0)


def pause_s(kind: FailureKind, retry_after_s: float | None = None) -> float | None:
    until = set_aside(
        a_replica(), a_node(), Failure(kind, "it failed", retry_after_s), LIMITS, now=100.0
    )
    return None if until is None else until - 100.0


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
    one, node = a_replica(), a_node()
    failure = Failure(FailureKind.RESET, "gone again")
    pauses = []
    for round_number in range(40):
        now = 1000.0 * round_number
        until = set_aside(one, node, failure, LIMITS, now)
        assert until is not None
        pauses.append(until - now)
    assert pauses[:8] == pytest.approx([1, 2, 4, 8, 16, 32, 60, 60])
    assert max(pauses) == pytest.approx(60)
    assert one.set_aside_reason == "gone again"
    restore(one)
    assert (one.set_aside_until, one.set_aside_reason) == (0.0, "")
    assert set_aside(one, node, failure, LIMITS, 0.0) == pytest.approx(1.0)


def test_a_short_pause_does_not_cut_a_long_one() -> None:
    one, node = a_replica(), a_node()
    set_aside(one, node, Failure(FailureKind.RESET, "x", 30.0), LIMITS, 0.0)
    assert set_aside(one, node, Failure(FailureKind.BUSY, "y"), LIMITS, 1.0) == pytest.approx(30.0)


@pytest.mark.parametrize("phase", Phase)
def test_a_node_that_cannot_be_reached_is_suspect_unless_it_is_lost(phase: Phase) -> None:
    node = a_node(phase)
    set_aside(a_replica(), node, Failure(FailureKind.UNREACHABLE, "no route"), LIMITS, 5.0)
    assert node.phase is (Phase.LOST if phase is Phase.LOST else Phase.SUSPECT)
    assert node.reason == ("" if phase is Phase.LOST else "no route")
