"""Counting who is let through: never more than slots, never below zero, never twice."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pair.agent.admission import PEAKS_LIMIT, Admission, Admitted
from pair.agent.turns import ReplicaKey
from pair.core.names import EngineName, ModelName
from pair.errors import BookkeepingError

A: ReplicaKey = (EngineName("ollama:11434"), ModelName("a"))
B: ReplicaKey = (EngineName("ollama:11434"), ModelName("b"))


def test_a_full_replica_admits_nobody_until_one_is_settled() -> None:
    admission = Admission()
    first = admission.admit(A, 2)
    assert first is not None
    assert admission.admit(A, 2) is not None
    assert admission.admit(A, 2) is None
    admission.settle(first)
    assert admission.admit(A, 2) is not None
    assert admission.running(A) == 2


def test_replicas_are_counted_apart() -> None:
    admission = Admission()
    assert admission.admit(A, 1) is not None
    assert admission.admit(B, 1) is not None
    assert (admission.running(A), admission.running(B)) == (1, 1)
    assert admission.total() == 2


def test_a_second_settlement_is_our_own_mistake() -> None:
    admission = Admission()
    admitted = admission.admit(A, 1)
    assert admitted is not None
    admission.settle(admitted)
    with pytest.raises(BookkeepingError, match="twice"):
        admission.settle(admitted)
    assert admission.running(A) == 0


def test_fewer_slots_than_before_admit_nobody_until_enough_are_settled() -> None:
    admission = Admission()
    held = [admission.admit(A, 3) for _ in range(3)]
    assert admission.admit(A, 2) is None
    for admitted in held[:2]:
        assert admitted is not None
        admission.settle(admitted)
    assert admission.admit(A, 2) is not None


def test_the_peak_is_the_most_since_it_was_last_taken() -> None:
    admission = Admission()
    assert admission.take_peak(A) == 0
    first, second = admission.admit(A, 2), admission.admit(A, 2)
    assert first is not None
    assert second is not None
    admission.settle(first)
    assert admission.take_peak(A) == 2
    assert admission.take_peak(A) == 1
    admission.settle(second)
    assert admission.take_peak(A) == 1
    assert admission.take_peak(A) == 0


def test_peaks_are_bounded_whatever_is_asked_for() -> None:
    admission = Admission()
    keys = [(A[0], ModelName(f"model-{number}")) for number in range(PEAKS_LIMIT + 100)]
    for key in keys:
        admitted = admission.admit(key, 1)
        assert admitted is not None
        admission.settle(admitted)
    peaks = [admission.take_peak(key) for key in keys]
    assert peaks == [0] * 100 + [1] * PEAKS_LIMIT, "the oldest go first"


def test_a_slot_whose_client_left_is_taken_until_the_engine_or_the_clock_frees_it() -> None:
    admission = Admission()
    first, second = admission.admit(A, 2), admission.admit(A, 2)
    assert first is not None
    assert second is not None
    admission.settle(first, left_at=1.0)
    assert (admission.running(A), admission.taken(A), admission.left_at(A)) == (1, 2, 1.0)
    assert admission.admit(A, 2) is None
    assert admission.take_count(A, 2, asked_at=2.0) == 0
    assert admission.taken(A) == 2, "it computes"
    assert admission.take_count(A, 1, asked_at=3.0) == 0
    assert (admission.taken(A), admission.left_at(A)) == (1, None)
    assert admission.take_count(A, 2, asked_at=4.0) == 1, "that one came past us"
    admission.settle(second, left_at=5.0)
    admission.expire(A, 5.9, 1.0)
    assert admission.taken(A) == 1
    admission.expire(A, 6.0, 1.0)
    assert admission.taken(A) == 0
    third = admission.admit(B, 1)
    assert third is not None
    admission.settle(third, left_at=7.0)
    admission.nothing_drains(B[0], but=[B[1]])
    assert admission.taken(B) == 1
    admission.nothing_drains(B[0])
    assert admission.taken(B) == 0


class AnyOrder(RuleBasedStateMachine):
    """Requests come and go in any order, over two replicas whose slots change."""

    def __init__(self) -> None:
        super().__init__()
        self.admission = Admission()
        self.held: list[Admitted] = []
        self.peak = 0

    def of(self, key: ReplicaKey) -> int:
        return sum(admitted.key == key for admitted in self.held)

    @rule(key=st.sampled_from([A, B]), slots=st.integers(1, 3))
    def come(self, key: ReplicaKey, slots: int) -> None:
        admitted = self.admission.admit(key, slots)
        assert (admitted is not None) == (self.of(key) < slots)
        if admitted is not None:
            self.held.append(admitted)
            self.peak = max(self.peak, self.of(A))

    @rule()
    def take(self) -> None:
        assert self.admission.take_peak(A) == self.peak
        self.peak = self.of(A)

    @rule(index=st.integers(0, 100))
    def go(self, index: int) -> None:
        if self.held:
            self.admission.settle(self.held.pop(index % len(self.held)))

    @invariant()
    def counts_are_those_who_are_there(self) -> None:
        assert self.admission.running(A) == self.of(A)
        assert self.admission.running(B) == self.of(B)


TestAnyOrder = AnyOrder.TestCase


def test_what_a_proxy_has_there_is_counted_for_it() -> None:
    admission = Admission()
    mine, theirs = admission.admit(A, 3, "mine"), admission.admit(A, 3, "theirs")
    assert admission.admit(A, 3) is not None, "by none"
    assert mine is not None
    assert theirs is not None
    assert [admission.running_of(A, proxy) for proxy in ("mine", "theirs", "x")] == [1, 1, 0]
    admission.settle(mine, left_at=1.0)
    assert admission.running_of(A, "mine") == 0, "its client has left"
    assert admission.taken(A) == 3


def test_each_change_of_a_count_is_told() -> None:
    told: list[int] = []
    admission = Admission(lambda: told.append(admission.taken(A)))
    first, second = admission.admit(A, 2), admission.admit(A, 2)
    assert admission.admit(A, 2) is None
    assert first is not None
    assert second is not None
    admission.settle(first)
    admission.settle(second, left_at=1.0)
    admission.take_count(A, 1, 2.0)
    admission.take_count(A, 0, 3.0)
    assert told == [1, 2, 1, 1, 0]
