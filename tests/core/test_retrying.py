"""The retry table, row by row: what a reader of the design expects, written a second time."""

from __future__ import annotations

import pytest

from pair.core.events import FailureKind
from pair.core.retrying import RULES, Hurts, Rule

EXPECTED = {
    #                           again  counts avoid  hurts          once elsewhere, left
    FailureKind.UNREACHABLE:   (True,  True,  True,  Hurts.NODE,    False, False),
    FailureKind.RESET:         (True,  True,  True,  Hurts.REPLICA, False, False),
    FailureKind.BUSY:          (True,  False, False, Hurts.REPLICA, False, False),
    FailureKind.LOADING:       (True,  False, False, Hurts.REPLICA, False, False),
    FailureKind.RATE_LIMITED:  (True,  False, False, Hurts.REPLICA, False, False),
    FailureKind.BAD_GATEWAY:   (True,  True,  True,  Hurts.REPLICA, False, False),
    FailureKind.NO_SUCH_MODEL: (True,  True,  True,  Hurts.REPLICA, False, False),
    FailureKind.NOT_THERE:     (True,  False, True,  Hurts.NOBODY,  False, False),
    FailureKind.ENGINE_ERROR:  (True,  True,  True,  Hurts.NOBODY,  True, False),
    FailureKind.GARBLED:       (True,  True,  True,  Hurts.REPLICA, False, False),
    FailureKind.CUT:           (False, True,  False, Hurts.REPLICA, False, False),
    FailureKind.STALLED:       (False, True,  False, Hurts.REPLICA, False, True),
}  # fmt: skip


def test_every_kind_of_failure_has_its_row() -> None:
    assert set(RULES) == set(FailureKind) == set(EXPECTED)


@pytest.mark.parametrize("kind", FailureKind)
def test_the_row(kind: FailureKind) -> None:
    assert RULES[kind] == Rule(*EXPECTED[kind])


def test_what_does_not_count_ends_otherwise() -> None:
    """A free try that hurt nobody would go round and round in one instant."""
    for kind, rule in RULES.items():
        assert rule.counts or rule.avoid or rule.hurts is not Hurts.NOBODY, kind
