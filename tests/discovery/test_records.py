"""Records in, sightings out."""

from __future__ import annotations

from pair.core.events import NodeSighted, NodeWithdrawn
from pair.core.names import NodeId
from pair.discovery.records import RECORDS_LIMIT, Records
from pair.wire.advert import Advert

A = Advert(NodeId("a"), "gaming-pc")
B = Advert(NodeId("b"), "laptop")
ONE, TWO = "http://192.168.1.20:7248", "http://192.168.1.21:7248"


def sighted(advert: Advert, *addresses: str) -> NodeSighted:
    return NodeSighted(advert.node, advert.name, addresses)


def test_a_record_is_a_sighting_once() -> None:
    records = Records()
    assert records.heard("x", A, (ONE,), news=False) == [sighted(A, ONE)]
    assert records.heard("X", A, (ONE,), news=False) == []


def test_news_are_told_even_if_nothing_differs() -> None:
    records = Records()
    records.heard("x", A, (ONE,), news=False)
    assert records.heard("x", A, (ONE,), news=True) == [sighted(A, ONE)]


def test_another_address_or_name_is_a_new_sighting() -> None:
    records = Records()
    records.heard("x", A, (ONE,), news=False)
    assert records.heard("x", A, (TWO,), news=False) == [sighted(A, TWO)]
    renamed = Advert(A.node, "tower")
    assert records.heard("x", renamed, (TWO,), news=False) == [sighted(renamed, TWO)]


def test_a_goodbye_withdraws_the_node_once() -> None:
    records = Records()
    records.heard("x", A, (ONE,), news=False)
    assert records.gone("X") == [NodeWithdrawn(A.node)]
    assert records.gone("x") == []


def test_a_record_that_changes_its_node_withdraws_the_one_and_sights_the_other() -> None:
    records = Records()
    records.heard("x", A, (ONE,), news=False)
    assert records.heard("x", B, (ONE,), news=False) == [NodeWithdrawn(A.node), sighted(B, ONE)]


def test_two_records_of_one_node_are_one_node_with_both_addresses() -> None:
    records = Records()
    records.heard("x", A, (ONE,), news=False)
    assert records.heard("y", A, (TWO,), news=False) == [sighted(A, TWO, ONE)]
    assert records.gone("y") == [sighted(A, ONE)]
    assert records.gone("x") == [NodeWithdrawn(A.node)]


def test_a_node_that_was_renamed_stays() -> None:
    records = Records()
    records.heard("old", A, (ONE,), news=False)
    records.heard("new", A, (ONE,), news=False)
    assert NodeWithdrawn(A.node) not in records.gone("old")


def test_a_stranger_with_a_nodes_id_takes_no_address_from_it() -> None:
    records = Records()
    records.heard("x", A, (ONE,), news=False)
    (event,) = records.heard("evil", A, (TWO,), news=False)
    assert isinstance(event, NodeSighted)
    assert ONE in event.addresses


def test_the_table_is_bounded_and_the_last_heard_stay() -> None:
    records = Records()
    records.heard("honest", A, (ONE,), news=False)
    for number in range(RECORDS_LIMIT - 1):
        records.heard(f"s{number}", Advert(NodeId(f"s{number}"), "s"), (TWO,), news=False)
    records.heard("honest", A, (ONE,), news=False)
    for number in range(RECORDS_LIMIT - 1):
        records.heard(f"t{number}", Advert(NodeId(f"t{number}"), "t"), (TWO,), news=False)
    assert len(records) == RECORDS_LIMIT
    assert records.gone("s0") == []
    assert records.gone("honest") == [NodeWithdrawn(A.node)]
