from __future__ import annotations

import pytest

from pair.core.ledger import Ledger
from pair.core.names import NodeId, ReplicaId, TicketId
from pair.core.replica import Replica
from pair.errors import BookkeepingError
from tests.core.house import replica


def a_replica(node: str = "a", *, slots: int = 1) -> Replica:
    said = replica(slots=slots)
    return Replica(ReplicaId(NodeId(node), said.engine, said.model), node, said)


def test_i2_no_lease_without_a_free_slot() -> None:
    ledger, one = Ledger(), a_replica(slots=2)
    ledger.grant(TicketId(1), one, 0.0, light=False)
    ledger.grant(TicketId(2), one, 0.0, light=False)
    with pytest.raises(BookkeepingError, match="I2: no free slot on a/echo:1/m for ticket 3"):
        ledger.grant(TicketId(3), one, 0.0, light=False)
    assert (one.in_flight, ledger.in_flight, len(ledger)) == (2, 2, 2)


def test_i2_foreign_work_takes_slots_too() -> None:
    ledger, one = Ledger(), a_replica()
    one.foreign = 1
    with pytest.raises(BookkeepingError, match="I2"):
        ledger.grant(TicketId(1), one, 0.0, light=False)


def test_i3_a_second_settlement_raises_and_changes_nothing() -> None:
    ledger, one = Ledger(), a_replica()
    lease = ledger.grant(TicketId(1), one, 0.0, light=False)
    assert ledger.settle(lease.id) is lease
    with pytest.raises(BookkeepingError, match="I3: lease 1 is not live"):
        ledger.settle(lease.id)
    assert (one.in_flight, ledger.in_flight, len(ledger)) == (0, 0, 0)


def test_a_lease_settles_on_the_object_that_it_was_granted_on() -> None:
    ledger, gone, come_back = Ledger(), a_replica(), a_replica()
    lease = ledger.grant(TicketId(1), gone, 0.0, light=False)
    ledger.grant(TicketId(2), come_back, 0.0, light=False)
    ledger.settle(lease.id)
    assert (gone.in_flight, come_back.in_flight) == (0, 1)


def test_light_leases_are_known_but_take_no_slot_and_no_turn() -> None:
    ledger, one = Ledger(), a_replica()
    ledger.grant(TicketId(1), one, 0.0, light=False)
    light = ledger.grant(TicketId(2), one, 0.0, light=True)
    assert (one.in_flight, ledger.in_flight, len(ledger), one.picked) == (1, 1, 2, 1)
    ledger.settle(light.id)
    assert (one.in_flight, ledger.in_flight, len(ledger)) == (1, 1, 1)


def test_leases_are_found_by_node_oldest_first() -> None:
    ledger = Ledger()
    here, there = a_replica("a", slots=3), a_replica("b")
    leases = [ledger.grant(TicketId(n), here, float(n), light=n == 2) for n in (1, 2, 3)]
    ledger.grant(TicketId(4), there, 4.0, light=False)
    assert ledger.on_node(NodeId("a")) == tuple(leases)
    assert [lease.granted_at for lease in leases] == [1.0, 2.0, 3.0]
    assert ledger.node_in_use(NodeId("b"))
    for lease in leases:
        ledger.settle(lease.id)
    assert ledger.on_node(NodeId("a")) == ()
    assert not ledger.node_in_use(NodeId("a"))
