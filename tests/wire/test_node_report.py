"""A node's report there and back, and what is refused of a stranger's."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pair.core.names import EngineName, ModelName, NodeId
from pair.core.reports import NodeReport, ReplicaReport, ReplicaState
from pair.errors import GarbledAnswer
from pair.wire.node_report import (
    ALIASES_LIMIT,
    REPLICAS_LIMIT,
    SLOTS_LIMIT,
    WARNINGS_LIMIT,
    decode_report,
    encode_report,
    means_a_report,
)

NAMES = st.text(min_size=1, max_size=20).filter(str.isprintable)
COUNTS = st.none() | st.integers(0, 1_000_000)

REPLICAS = st.builds(
    ReplicaReport,
    engine=NAMES.map(EngineName),
    engine_kind=st.sampled_from(["ollama", "llamacpp", "generic"]),
    model=NAMES.map(lambda name: ModelName("m" + name)),
    aliases=st.frozensets(NAMES.map(lambda name: ModelName("a" + name)), max_size=3),
    state=st.sampled_from(ReplicaState),
    slots=st.integers(1, 4096),
    running=COUNTS,
    waiting=COUNTS,
    yours=COUNTS,
    resident=st.none() | st.booleans(),
    context_tokens=COUNTS,
    cache_tokens=COUNTS,
    any_name=st.booleans(),
)
REPORTS = st.builds(
    NodeReport,
    node=NAMES.map(NodeId),
    name=NAMES,
    version=st.sampled_from(["", "0.1.0"]),
    draining=st.booleans(),
    replicas=st.lists(REPLICAS, max_size=3).map(tuple),
    warnings=st.lists(NAMES, max_size=3).map(tuple),
    process=st.sampled_from(["", "5f0c"]),
    number=st.integers(0, 10**12),
)


@given(REPORTS)
def test_a_report_comes_back_as_it_was(report: NodeReport) -> None:
    assert decode_report(encode_report(report)) == report


def form(**changes: Any) -> bytes:
    replica = {"engine": "llamacpp:8080", "engine_kind": "llamacpp", "model": "a"}
    report = {"v": 1, "node": "id", "name": "pc", "replicas": [replica], **changes}
    return json.dumps(report).encode()


def test_what_a_newer_pair_adds_is_ignored() -> None:
    report = decode_report(form(gpu="big", replicas=[], extra={"a": [1]}))
    assert report == NodeReport(NodeId("id"), "pc")


def test_what_is_left_out_takes_the_default() -> None:
    (replica,) = decode_report(form()).replicas
    assert (replica.slots, replica.state, replica.running) == (1, ReplicaState.READY, None)


def test_an_alias_that_is_the_name_itself_is_dropped() -> None:
    body = form(replicas=[{"engine": "e", "engine_kind": "k", "model": "a", "aliases": ["a", "b"]}])
    assert decode_report(body).replicas[0].aliases == {"b"}


def replica_with(**changes: Any) -> bytes:
    return form(replicas=[{"engine": "e", "engine_kind": "k", "model": "a", **changes}])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not json",
        b"[]",
        b"[" * 100_000,
        b"{}",
        form(v=2),
        form(v="1"),
        form(node=""),
        form(node="a\x1b[2J"),
        form(name="a\nb"),
        form(name="a" * 513),
        form(draining="no"),
        form(warnings=["x"] * (WARNINGS_LIMIT + 1)),
        form(
            replicas=[
                {"engine": "e", "engine_kind": "k", "model": f"{n}"}
                for n in range(REPLICAS_LIMIT + 1)
            ]
        ),
        replica_with(slots=0),
        replica_with(slots=SLOTS_LIMIT + 1),
        replica_with(slots=1.5),
        replica_with(running=-1),
        replica_with(waiting=10**30),
        replica_with(state="asleep"),
        replica_with(model=""),
        replica_with(aliases=["x"] * (ALIASES_LIMIT + 1)),
    ],
)
def test_what_is_out_of_bounds_is_the_nodes_fault(body: bytes) -> None:
    with pytest.raises(GarbledAnswer, match="the report"):
        decode_report(body)


def test_a_report_with_odd_texts_is_written_so_that_it_can_be_read() -> None:
    report = NodeReport(
        NodeId("id"), "pc\x1b[2J" + "x" * 600, warnings=("two\nlines",) * (WARNINGS_LIMIT + 1)
    )
    read = decode_report(encode_report(report))
    assert read.name.startswith("pc [2Jx")
    assert read.warnings == ("two lines",) * WARNINGS_LIMIT


def test_a_report_with_too_much_in_it_is_cut_to_what_a_reader_takes() -> None:
    names = [ModelName(f"m{number}") for number in range(REPLICAS_LIMIT + 1)]
    one = ReplicaReport(EngineName("e"), "k", names[0], frozenset(names[1 : ALIASES_LIMIT + 2]))
    rest = tuple(ReplicaReport(EngineName("e"), "k", name) for name in names[1:])
    read = decode_report(encode_report(NodeReport(NodeId("id"), "pc", replicas=(one, *rest))))
    assert len(read.replicas) == REPLICAS_LIMIT
    assert len(read.replicas[0].aliases) == ALIASES_LIMIT


@pytest.mark.parametrize(
    ("body", "means_one"),
    [
        (form(), True),
        (form(v=2), True),
        (form(node=""), True),
        (b'{"error": "Unexpected endpoint or method."}', False),
        (b"[" * 100_000, False),
        (b"Ollama is running", False),
        (b"", False),
    ],
)
def test_a_wrong_report_is_told_from_what_is_none(body: bytes, means_one: bool) -> None:
    assert means_a_report(body) is means_one
