from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pair.core.decaying import Decaying
from pair.core.estimates import Learned, LearnedModel, LearnedReplica
from pair.core.names import EngineName, ModelName, NodeId, ReplicaId
from pair.core.speeds import BUCKETS
from pair.wire import estimates_json
from pair.wire.estimates_json import (
    ENTRIES_LIMIT,
    GarbledEstimates,
    decode_learned,
    encode_learned,
)

NAMES = st.text(max_size=60)
MEANS = st.builds(Decaying, st.floats(1e-9, 1e9), st.floats(1e-9, 4.0))
MAYBE = st.none() | MEANS
TPOTS = st.dictionaries(st.integers(0, BUCKETS - 1), MEANS).map(
    lambda tpots: tuple(sorted(tpots.items()))
)
REPLICAS = st.builds(
    LearnedReplica,
    st.builds(ReplicaId, NAMES.map(NodeId), NAMES.map(EngineName), NAMES.map(ModelName)),
    MAYBE,
    TPOTS,
    MAYBE,
)
MODELS = st.builds(LearnedModel, NAMES.map(ModelName), MAYBE, st.none() | st.floats(0.0, 1e9))
LEARNED = st.builds(
    Learned,
    st.lists(REPLICAS, max_size=5).map(tuple),
    st.lists(MODELS, max_size=5).map(tuple),
)

REPLICA = ReplicaId(NodeId("n"), EngineName("ollama:11434"), ModelName("qwen3:30b"))
SAMPLE = Learned(
    (
        LearnedReplica(
            REPLICA,
            Decaying(900.0, 3.0),
            ((0, Decaying(0.02, 2.0)), (3, Decaying(0.05, 1.0))),
            Decaying(7.5, 1.0),
        ),
    ),
    (LearnedModel(ModelName("qwen3:30b"), Decaying(3.7, 2.5), 180.0),),
)
TEXT: dict[str, Any] = {
    "v": 1,
    "replicas": [
        {
            "node": "n",
            "engine": "ollama:11434",
            "model": "qwen3:30b",
            "prefill_tokens_per_s": {"value": 900.0, "evidence": 3.0},
            "tpots_s": [
                {"calls_at_once": 1, "value": 0.02, "evidence": 2.0},
                {"calls_at_once": 8, "value": 0.05, "evidence": 1.0},
            ],
            "load_s": {"value": 7.5, "evidence": 1.0},
        }
    ],
    "models": [
        {
            "model": "qwen3:30b",
            "chars_per_token": {"value": 3.7, "evidence": 2.5},
            "output_tokens": 180.0,
        }
    ],
}


def test_the_form_of_the_file() -> None:
    """Files of earlier versions must stay readable: change it only with a new version."""
    assert json.loads(encode_learned(SAMPLE)) == TEXT
    assert decode_learned(json.dumps(TEXT).encode()) == SAMPLE


@given(LEARNED)
def test_what_is_read_is_what_was_written(learned: Learned) -> None:
    assert decode_learned(encode_learned(learned)) == learned


def changed(part: str, name: str, value: object) -> bytes:
    text = json.loads(json.dumps(TEXT))
    entry = text if not part else text[part][0]
    if value is None:
        del entry[name]
    else:
        entry[name] = value
    return json.dumps(text).encode()


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff",
        b"\x00" * 4096,
        encode_learned(SAMPLE)[:-1],
        b"[" * 100_000,
        changed("", "v", 2),
        changed("", "v", "1"),
        changed("", "replicas", None),
        changed("", "replicas", {}),
        changed("replicas", "node", None),
        changed("replicas", "node", 7),
        changed("replicas", "model", "m" * 513),
        changed("replicas", "prefill_tokens_per_s", {"value": 0, "evidence": 1}),
        changed("replicas", "prefill_tokens_per_s", {"value": -1, "evidence": 1}),
        changed("replicas", "prefill_tokens_per_s", {"value": 1e13, "evidence": 1}),
        changed("replicas", "prefill_tokens_per_s", {"value": 9}),
        changed("replicas", "tpots_s", [{"calls_at_once": 0, "value": 1, "evidence": 1}]),
        changed(
            "replicas", "tpots_s", [{"calls_at_once": 1, "value": 1, "evidence": 1}] * (BUCKETS + 1)
        ),
        changed("replicas", "load_s", 5),
        changed("models", "output_tokens", -1),
        encode_learned(SAMPLE).replace(b"180.0", b"NaN"),
        encode_learned(SAMPLE).replace(b"180.0", b"1e999"),
    ],
)
def test_a_garbled_file_is_an_error_that_says_so(text: bytes) -> None:
    with pytest.raises(GarbledEstimates, match=r"\w+"):
        decode_learned(text)


@given(st.binary(max_size=200))
def test_whatever_stands_in_the_file_is_read_or_garbled(text: bytes) -> None:
    with contextlib.suppress(GarbledEstimates):
        decode_learned(text)


@pytest.mark.parametrize("name", ["\ud800", "m" * 513])
def test_a_name_that_could_not_be_read_spoils_nothing(name: str) -> None:
    odd = replace(REPLICA, model=ModelName(name))
    learned = Learned(
        (replace(SAMPLE.replicas[0], replica=odd), *SAMPLE.replicas),
        (replace(SAMPLE.models[0], model=ModelName(name)), *SAMPLE.models),
    )
    assert decode_learned(encode_learned(learned)) == SAMPLE


def test_another_version_is_told_even_where_its_form_is_another() -> None:
    with pytest.raises(GarbledEstimates, match="of version 2"):
        decode_learned(b'{"v":2,"nodes":{}}')


def test_what_a_newer_pair_adds_is_ignored() -> None:
    assert decode_learned(changed("replicas", "colour", "blue")) == SAMPLE


def test_a_file_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:  # I7
    model = SAMPLE.models[0]
    many = Learned((), tuple([model] * (ENTRIES_LIMIT + 5)))
    assert len(decode_learned(encode_learned(many)).models) == ENTRIES_LIMIT
    text = encode_learned(SAMPLE)
    monkeypatch.setattr(estimates_json, "SIZE_LIMIT_BYTES", len(text) - 1)
    with pytest.raises(GarbledEstimates, match="longer than"):
        decode_learned(text)


def test_the_latest_are_those_that_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimates_json, "ENTRIES_LIMIT", 1)
    models = tuple(LearnedModel(ModelName(name), None, 1.0) for name in "ab")
    assert [
        entry.model for entry in decode_learned(encode_learned(Learned((), models))).models
    ] == ["b"]
