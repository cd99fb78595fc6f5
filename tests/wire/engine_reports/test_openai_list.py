from __future__ import annotations

import json
from typing import Any

import pytest

from pair.core.names import ModelName
from pair.errors import GarbledAnswer
from pair.wire.engine_reports.openai_list import listed_names, owners, read_openai_list
from pair.wire.engine_reports.reading import EngineModel


def body(*rows: Any, **more: Any) -> bytes:
    return json.dumps({"object": "list", "data": list(rows), **more}).encode()


def model(name: str, *aliases: str, **more: Any) -> EngineModel:
    return EngineModel(ModelName(name), frozenset(ModelName(alias) for alias in aliases), **more)


def test_any_engine() -> None:
    rows = [{"id": "a", "object": "model", "created": 1, "owned_by": "me"}, {"id": "b"}]
    assert read_openai_list(body(*rows)).models == (model("a"), model("b"))


def test_llamacpp_with_its_other_list_beside_it() -> None:
    row = {
        "id": "coder",
        "aliases": ["coder", "gpt-4o"],
        "owned_by": "llamacpp",
        "meta": {"n_ctx": 8192, "n_ctx_train": 32768},
    }
    listed = read_openai_list(body(row, models=[{"name": "coder", "size": ""}]))
    assert listed.models == (model("coder", "gpt-4o", context_tokens=8192),)
    assert listed.warnings == ()


def test_llamacpp_that_loads_has_no_meta() -> None:
    assert read_openai_list(body({"id": "coder", "meta": None})).models == (model("coder"),)


@pytest.mark.parametrize(
    ("word", "resident", "loading"),
    [
        ("loaded", True, False),
        ("unloaded", False, False),
        ("sleeping", False, False),
        ("loading", None, True),
        ("downloading", None, True),
        ("a new word", None, False),
    ],
)
def test_llamacpp_with_several_models(word: str, resident: bool | None, loading: bool) -> None:
    row = {"id": "a", "status": {"value": word, "args": ["llama-server"]}}
    assert read_openai_list(body(row)).models == (model("a", resident=resident, loading=loading),)


def test_names_that_vllm_gives_to_the_same_weights_are_one_model() -> None:
    base = {"root": "/models/q", "parent": None, "max_model_len": 4096}
    adapter = {"id": "tuned", "root": "/adapters/t", "parent": "q", "max_model_len": None}
    rows = [{"id": "q", **base}, {"id": "gpt-4o", **base}, {"id": "o1", **base}, adapter]
    assert read_openai_list(body(*rows)).models == (
        model("q", "gpt-4o", "o1", context_tokens=4096),
        model("tuned"),
    )


def test_two_adapters_of_the_same_weights_are_two_models() -> None:
    rows = [{"id": name, "root": "/r", "parent": "q"} for name in ("a", "b")]
    assert [found.name for found in read_openai_list(body(*rows)).models] == ["a", "b"]


def test_an_odd_field_costs_that_field_and_an_odd_row_that_row() -> None:
    rows = [
        {"id": "a", "max_model_len": "many", "aliases": "x", "meta": 3, "status": [], "root": 9},
        {"id": 7},
        {"name": "no id"},
        "b",
        None,
    ]
    listed = read_openai_list(body(*rows))
    assert listed.models == (model("a"),)
    assert listed.warnings == ("4 of the listed models cannot be read and are left out",)


def test_no_models_is_a_list_too() -> None:
    assert read_openai_list(b'{"data": null}').models == ()
    assert read_openai_list(b'{"data": []}').models == ()


@pytest.mark.parametrize(
    "answer",
    [b"{}", b"[]", b'{"data": {}}', b'{"error": "Unexpected endpoint or method. (GET /x)"}'],
)
def test_what_has_no_list_is_garbled(answer: bytes) -> None:
    with pytest.raises(GarbledAnswer):
        read_openai_list(answer)


def test_the_reason_quotes_nothing_of_the_answer() -> None:
    with pytest.raises(GarbledAnswer) as raised:
        read_openai_list(b'{"data": "secret prompt"}')
    assert "secret" not in str(raised.value)


def test_whose_the_models_are() -> None:
    rows = [{"id": "a", "owned_by": "vllm"}, {"id": "b", "owned_by": 7}, 3]
    assert owners(body(*rows)) == {"vllm"}


def test_every_name_counts_as_listed() -> None:
    assert listed_names(body({"id": "a", "aliases": ["b"]}, {"id": "c"})) == {"a", "b", "c"}
