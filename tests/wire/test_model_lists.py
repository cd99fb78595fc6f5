"""The merged lists in the shapes that clients of three dialects take apart, key by key."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from pair.core.names import ModelName
from pair.wire.model_lists import ListedModel, ollama_tags, openai_list

STARTED_AT = 1_700_000_000.9

QWEN = ListedModel(ModelName("qwen"), ModelName("qwen"), nodes=2, context_tokens=8192)
ALIAS = ListedModel(ModelName("gpt-4o"), ModelName("qwen"), nodes=1, context_tokens=None)

OPENAI_KEYS = ["id", "object", "created", "owned_by"]
ANTHROPIC_KEYS = ["type", "display_name", "created_at"]
WINDOW_KEYS = ["context_length", "max_model_len", "meta"]


def openai_shown(*models: ListedModel) -> Any:
    return json.loads(openai_list(models, STARTED_AT))


def ollama_shown(*models: ListedModel) -> Any:
    return json.loads(ollama_tags(models, STARTED_AT))


def test_an_entry_is_openais_and_anthropics_at_once() -> None:
    shown = openai_shown(QWEN)
    assert list(shown) == ["object", "data", "has_more", "first_id", "last_id"]
    (entry,) = shown["data"]
    assert list(entry) == [*OPENAI_KEYS, *ANTHROPIC_KEYS, "nodes", *WINDOW_KEYS]
    assert (entry["id"], entry["object"], entry["owned_by"]) == ("qwen", "model", "pair")
    assert (entry["type"], entry["display_name"]) == ("model", "qwen")
    assert (entry["nodes"], entry["context_length"]) == (2, 8192)
    assert entry["created"] == int(STARTED_AT)


def test_an_alias_says_what_stands_behind_it_and_nothing_unknown_is_said() -> None:
    (entry,) = openai_shown(ALIAS)["data"]
    assert list(entry) == [*OPENAI_KEYS, *ANTHROPIC_KEYS, "nodes", "root"]
    assert (entry["id"], entry["root"]) == ("gpt-4o", "qwen")


def test_the_ends_of_the_list_are_named_as_anthropic_pages_want_them() -> None:
    shown = openai_shown(ALIAS, QWEN)
    assert [entry["id"] for entry in shown["data"]] == ["gpt-4o", "qwen"]
    assert (shown["first_id"], shown["last_id"], shown["has_more"]) == ("gpt-4o", "qwen", False)


def test_empty_lists_are_lists() -> None:
    assert openai_shown() == {
        "object": "list",
        "data": [],
        "has_more": False,
        "first_id": None,
        "last_id": None,
    }
    assert ollama_shown() == {"models": []}


def test_an_entry_of_ollamas_list() -> None:
    shown = ollama_shown(QWEN, ALIAS)
    assert list(shown) == ["models"]
    own, alias = shown["models"]
    assert list(own) == list(alias) == ["name", "model", "modified_at", "size", "digest", "details"]
    assert (own["name"], own["model"], own["details"]["parent_model"]) == ("qwen", "qwen", "")
    assert (alias["name"], alias["model"]) == ("gpt-4o", "gpt-4o")
    assert alias["details"] == {
        "parent_model": "qwen",
        "format": "",
        "family": "",
        "families": [],
        "parameter_size": "",
        "quantization_level": "",
    }


@pytest.mark.parametrize(
    "when",
    [openai_shown(QWEN)["data"][0]["created_at"], ollama_shown(QWEN)["models"][0]["modified_at"]],
    ids=["anthropic", "ollama"],
)
def test_times_are_in_utc_and_say_so(when: str) -> None:
    read = datetime.fromisoformat(when)
    assert read.utcoffset() is not None
    assert read.timestamp() == int(STARTED_AT)


def test_names_beyond_ascii_are_kept() -> None:
    name = ModelName("модель/q4:日本")
    listed = ListedModel(name, name, 1, None)
    assert openai_shown(listed)["data"][0]["id"] == name
    assert ollama_shown(listed)["models"][0]["name"] == name
