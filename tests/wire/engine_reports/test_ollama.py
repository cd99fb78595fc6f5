from __future__ import annotations

import json
from typing import Any

import pytest

from pair.core.names import ModelName
from pair.errors import GarbledAnswer
from pair.wire.engine_reports.ollama import read_tags
from pair.wire.engine_reports.reading import EngineModel


def body(*rows: Any) -> bytes:
    return json.dumps({"models": list(rows)}).encode()


def row(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "model": name, "size": 3825819519, "digest": "fe938a131f40", **more}


def model(name: str, *aliases: str, **more: Any) -> EngineModel:
    return EngineModel(ModelName(name), frozenset(ModelName(alias) for alias in aliases), **more)


def test_what_is_in_memory_has_a_context() -> None:
    tags = body(row("llama3.2:latest"), row("qwen3:8b"))
    loaded = body(row("qwen3:8b", context_length=4096, size_vram=5137025024))
    assert read_tags(tags, loaded).models == (
        model("llama3.2:latest", "llama3.2", resident=False),
        model("qwen3:8b", context_tokens=4096, resident=True),
    )


def test_without_a_word_on_memory_it_is_unknown() -> None:
    for loaded in (None, b"404 page not found", b'{"error": "x"}'):
        assert read_tags(body(row("a:1b")), loaded).models == (model("a:1b"),)


def test_the_short_name_belongs_to_a_model_that_has_it() -> None:
    assert read_tags(body(row("a:latest"), row("a")), None).models == (
        model("a:latest"),
        model("a"),
    )


def test_a_model_that_runs_elsewhere_is_left_out() -> None:
    far = row("big:120b-cloud", remote_model="big:120b", remote_host="https://example.com:443")
    listed = read_tags(body(far, row("a:1b")), None)
    assert [found.name for found in listed.models] == ["a:1b"]
    assert listed.warnings == ()


def test_older_versions_have_a_name_only() -> None:
    assert read_tags(body({"name": "a:7b"}), body({"name": "a:7b"})).models == (
        model("a:7b", resident=True),
    )


def test_odd_rows_are_left_out_and_said() -> None:
    listed = read_tags(body(row("a:1b"), {}, 3, {"model": ""}), body(7, row("a:1b")))
    assert listed.models == (model("a:1b", resident=True),)
    assert listed.warnings == ("3 of the listed models cannot be read and are left out",)


def test_an_ollama_without_models() -> None:
    assert read_tags(b'{"models": []}', b'{"models": null}').models == ()


def test_what_has_no_list_is_garbled() -> None:
    with pytest.raises(GarbledAnswer):
        read_tags(b'{"error": "no"}', body())
