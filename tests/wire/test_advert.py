"""Records from honest nodes and from anything else that can send multicast."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pair.core.names import NodeId
from pair.errors import BookkeepingError, NodeFault
from pair.wire.advert import (
    LABEL_LIMIT_BYTES,
    Advert,
    clean_name,
    instance_label,
    read_advert,
    target_name,
    text_record,
)

NODE_IDS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True).map(NodeId)


def read(**values: bytes | None) -> Advert:
    """A record of version 1 with the id `n1`, and these values instead or besides."""
    properties: dict[bytes, bytes | None] = {b"v": b"1", b"id": b"n1", b"name": b"gaming-pc"}
    return read_advert(properties | {key.encode(): value for key, value in values.items()})


def test_a_record_holds_version_id_and_name_and_no_model() -> None:
    record = text_record(Advert(NodeId("n1"), "gaming-pc"))
    assert record == {b"v": b"1", b"id": b"n1", b"name": b"gaming-pc"}


@given(node=NODE_IDS, name=st.text())
def test_what_a_node_says_is_what_is_read(node: NodeId, name: str) -> None:
    advert = read_advert(text_record(Advert(node, name)))
    assert advert.node == node
    assert advert.name == (clean_name(name) or clean_name(node))


@given(st.dictionaries(st.binary(max_size=255), st.none() | st.binary(max_size=255)))
def test_anything_else_is_a_nodes_fault_and_nothing_worse(
    properties: dict[bytes, bytes | None],
) -> None:
    with pytest.raises(NodeFault):
        read_advert(properties)


@given(st.none() | st.binary(max_size=255), st.none() | st.binary(max_size=255))
def test_whatever_is_read_can_be_shown_and_said_again(
    node: bytes | None, name: bytes | None
) -> None:
    try:
        advert = read(id=node, name=name)
    except NodeFault:
        return
    assert advert.name.isprintable()
    assert 0 < len(advert.name.encode()) <= LABEL_LIMIT_BYTES
    assert read_advert(text_record(advert)) == advert


def test_another_version_is_refused_in_words() -> None:
    with pytest.raises(NodeFault, match="its record has version 2, and this pair reads version 1"):
        read(v=b"2")
    with pytest.raises(NodeFault, match="no version"):
        read(v=None)


@pytest.mark.parametrize(
    "node", [b"", None, b"-x", b"a b", b"http://10.0.0.1:1", b"x" * 65, b"\xff", b"a\x00"]
)
def test_an_id_that_is_none_is_refused(node: bytes | None) -> None:
    with pytest.raises(NodeFault, match="no usable id"):
        read(id=node)


def test_our_own_id_must_fit_too() -> None:
    with pytest.raises(BookkeepingError):
        Advert(NodeId("http://10.0.0.1:1"), "x")


def test_keys_have_no_case_and_unknown_ones_do_not_matter() -> None:
    advert = read_advert({b"V": b"1", b"ID": b"n1", b"id": b"n2", b"Name": b"x", b"models": b"y"})
    assert advert == Advert(NodeId("n1"), "x")


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("plain", "plain"),
        ("  two \t words\n", "two words"),
        ("\x1b[31mred\x07", "[31mred"),
        ("a\u202eb\u200bc", "a b c"),
        ("Küche", "Küche"),
        ("\x00\x01", ""),
        ("é" * 40, "é" * 31),
        ("x" * 10_000, "x" * 63),
        ("日本語" * 30, "日本語" * 7),
    ],
)
def test_names_are_fit_for_a_terminal_and_a_label(written: str, shown: str) -> None:
    assert clean_name(written) == shown


@given(NODE_IDS, st.text())
def test_a_label_fits_and_has_no_dots_of_its_own(node: NodeId, name: str) -> None:
    label = instance_label(Advert(node, name))
    assert len(label.encode()) <= LABEL_LIMIT_BYTES
    assert label.isprintable()
    assert "." not in label


def test_two_machines_of_one_name_have_two_labels_and_two_targets() -> None:
    one, two = (Advert(NodeId(node), "raspberrypi") for node in ("n1", "n2"))
    assert instance_label(one) != instance_label(two)
    assert target_name(one) != target_name(two)
    assert instance_label(one).startswith("raspberrypi ")


def test_a_nodes_house_is_said_only_where_it_has_one() -> None:
    of_a_demo = Advert(NodeId("n1"), "attic", "demo-1")
    assert read_advert(text_record(of_a_demo)) == of_a_demo
    assert b"house" not in text_record(Advert(NodeId("n1"), "attic"))
