from __future__ import annotations

import pytest

from pair.core.reports import ReplicaState
from tests.core.house import replica
from tests.core.test_ledger import a_replica
from tests.core.test_load import told


def test_fewer_slots_take_effect_as_leases_end() -> None:
    one = a_replica(slots=3)
    one.in_flight = 3
    told(one, replica(slots=1))
    assert one.slots == 3
    assert one.queue_depth == 0
    one.in_flight = 1
    assert one.slots == 1
    assert not one.has_free_slot()
    one.in_flight = 0
    assert one.has_free_slot()


def test_queue_depth_is_what_no_slot_can_hold() -> None:
    one = a_replica(slots=2)
    one.in_flight, one.foreign = 1, 4
    assert (one.load, one.queue_depth) == (5, 3)


def test_names_begin_with_its_own_and_are_in_one_order() -> None:
    one = a_replica()
    told(one, replica("m", aliases=("z", "b", "y")))
    assert one.names == ("m", "b", "y", "z")


@pytest.mark.parametrize("state", ReplicaState)
def test_only_a_listed_replica_that_is_up_answers(state: ReplicaState) -> None:
    one = a_replica()
    told(one, replica(state=state))
    assert one.answers == (state in (ReplicaState.READY, ReplicaState.NEEDS_KEY))
    assert one.keyed == (state is ReplicaState.NEEDS_KEY)
    one.listed = False
    assert not one.answers
