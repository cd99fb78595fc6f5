"""The house's lists, by path."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from pair.core.reports import ReplicaReport
from pair.proxy.house_pages import HousePages
from tests.core.house import replica
from tests.proxy.test_catalogue import scheduler


def page(path: str, *replicas: ReplicaReport) -> Any:
    body = HousePages(scheduler(a=replicas), 0.0).page(path)
    return None if body is None else json.loads(body)


LM = replace(replica("org/m"), engine_kind="lmstudio", resident=True, context_tokens=4096)


@pytest.mark.parametrize("path", ["/v1/models", "/models"])
def test_openais_list(path: str) -> None:
    assert [entry["id"] for entry in page(path, LM)["data"]] == ["org/m"]


def test_one_model_is_given_by_itself_in_each_shape() -> None:
    assert page("/v1/models/org%2Fm", LM)["id"] == "org/m"
    assert page("/api/v0/models/org/m", LM)["state"] == "loaded"
    assert page("/v1/models/none", LM) is None
    assert page("/api/v0/models/none", LM) is None


def test_lm_studios_lists_are_there_where_it_is() -> None:
    (old,) = page("/api/v0/models", LM)["data"]
    assert (old["id"], old["max_context_length"]) == ("org/m", 4096)
    (new,) = page("/api/v1/models", LM)["models"]
    assert (new["key"], len(new["loaded_instances"])) == ("org/m", 1)
    for path in ("/api/v0/models", "/api/v1/models", "/api/v0/models/m"):
        assert page(path, replica("m")) is None
    assert page("/api/v1/chat", LM) is None


def test_what_is_loaded_is_what_engines_say_is() -> None:
    told = replace(replica("m"), resident=True, context_tokens=8)
    silent = replica("n", engine="other:1")
    (entry,) = page("/api/ps", told, silent)["models"]
    assert (entry["name"], entry["node"], entry["context_length"]) == ("m", "a", 8)
    assert page("/api/ps", silent) == {"models": []}


def test_ollamas_list_and_nothing_else() -> None:
    assert [entry["name"] for entry in page("/api/tags", LM)["models"]] == ["org/m"]
    assert page("/api/show", LM) is None
