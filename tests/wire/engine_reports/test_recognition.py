"""Each kind with only its own paths answering, and the cases in which one looks like another."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pair.core.names import NodeId
from pair.core.reports import NodeReport
from pair.wire.engine_reports.recognition import (
    PAIR_NODE,
    PAIR_PROXY,
    PATHS,
    Said,
    recognised_kind,
    wants_key,
)
from pair.wire.node_report import encode_report

SGLANG = {"/model_info": {"model_path": "q", "is_generation": True}}
OLD_SGLANG = {"/get_model_info": {"model_path": "q"}}
LLAMACPP = {"/props": {"total_slots": 1, "default_generation_settings": {"n_ctx": 64}}}
ROUTER = {"/props": {"role": "router"}}
LMSTUDIO = {"/api/v1/models": {"models": [{"key": "a", "loaded_instances": []}]}}
OLD_LMSTUDIO = {"/api/v0/models": {"data": [{"id": "a", "state": "loaded"}]}}
OLLAMA = {"/api/tags": {"models": [{"name": "a:1b", "model": "a:1b"}]}}
VLLM = {"/version": {"version": "0.11.0"}, "/v1/models": {"data": [{"id": "a"}]}}
VLLM_BY_OWNER = {"/v1/models": {"data": [{"id": "a", "owned_by": "vllm"}]}}
GENERIC = {"/v1/models": {"object": "list", "data": [{"id": "a", "owned_by": "me"}]}}
NODE = {"/pair/v1/report": encode_report(NodeReport(NodeId("n"), "pc"))}
PROXY = {"/pair/v1/snapshot": {"v": 1, "pair": "0.1.0", "nodes": [], "models": []}}


def kind(*tables: dict[str, Any]) -> str | None:
    """The kind of what gives these answers: values for JSON, bytes, or a status with one."""
    answers = {}
    for path, page in {path: page for table in tables for path, page in table.items()}.items():
        status, content = page if isinstance(page, tuple) else (200, page)
        answers[path] = Said(
            status, content if isinstance(content, bytes) else json.dumps(content).encode()
        )
    return recognised_kind(answers)


@pytest.mark.parametrize(
    ("pages", "expected"),
    [
        (SGLANG, "sglang"),
        (OLD_SGLANG, "sglang"),
        (LLAMACPP, "llamacpp"),
        (ROUTER, "llamacpp"),
        (LMSTUDIO, "lmstudio"),
        (OLD_LMSTUDIO, "lmstudio"),
        (OLLAMA, "ollama"),
        (VLLM, "vllm"),
        (VLLM_BY_OWNER, "vllm"),
        (GENERIC, "generic"),
        (NODE, PAIR_NODE),
        (PROXY, PAIR_PROXY),
        ({}, None),
    ],
)
def test_each_kind_by_its_own_paths_alone(pages: dict[str, Any], expected: str | None) -> None:
    assert kind(pages) == expected


@pytest.mark.parametrize(
    ("pages", "expected"),
    [
        ({"/api/v1/models": {"models": []}}, "lmstudio"),
        ({"/api/v0/models": {"data": []}}, "lmstudio"),
        ({"/api/tags": {"models": []}}, "ollama"),
        ({"/api/tags": {"models": None}}, "ollama"),
        ({"/v1/models": {"data": []}}, "generic"),
        ({"/v1/models": {"data": [], "object": "list"}, "/version": {"version": "1"}}, "vllm"),
    ],
)
def test_an_engine_without_models_is_recognised(pages: dict[str, Any], expected: str) -> None:
    assert kind(pages) == expected


@pytest.mark.parametrize(
    ("pages", "expected"),
    [
        # SGLang has Ollama's API and a list like vLLM's.
        ([SGLANG, OLLAMA, VLLM_BY_OWNER, {"/version": {"version": "1"}}], "sglang"),
        # Some builds of llama.cpp have Ollama's API.
        ([LLAMACPP, OLLAMA, GENERIC], "llamacpp"),
        ([OLLAMA, GENERIC, {"/version": {"version": "0.5"}}], "ollama"),
        ([LMSTUDIO, OLD_LMSTUDIO, GENERIC], "lmstudio"),
        # Another program has a list at LM Studio's path, in OpenAI's shape.
        ([GENERIC, {"/api/v1/models": {"data": [{"id": "a"}]}}], "generic"),
        ([GENERIC, {"/api/v0/models": {"data": [{"id": "a"}]}}], "generic"),
        # A node passes its engine's paths on, a proxy has lists of the whole house.
        ([NODE, LLAMACPP, OLLAMA, GENERIC], PAIR_NODE),
        ([PROXY, OLLAMA, GENERIC], PAIR_PROXY),
        # A version is anybody's.
        ([{"/version": {"version": "2.1", "app": "shop"}}], None),
    ],
)
def test_the_one_that_imitates_is_told_from_the_imitated(
    pages: list[dict[str, Any]], expected: str | None
) -> None:
    assert kind(*pages) == expected


def test_lm_studio_saying_200_to_everything_is_lm_studio_still() -> None:
    everything = {path: {"error": f"Unexpected endpoint or method. (GET {path})"} for path in PATHS}
    assert kind(everything) is None
    assert kind(everything, GENERIC, OLD_LMSTUDIO) == "lmstudio"
    assert kind(everything, GENERIC) == "generic"


def test_llamacpp_is_recognised_while_it_loads() -> None:
    loading = (503, {"error": {"message": "Loading model", "type": "unavailable_error"}})
    assert kind(dict.fromkeys(PATHS, loading)) == "llamacpp"


def test_a_web_page_for_every_path_is_no_engine() -> None:
    assert kind(dict.fromkeys(PATHS, b"<!doctype html><title>My shop</title>")) is None
    assert kind({path: {"models": 3, "data": 4, "version": 5} for path in PATHS}) is None


def test_closed_without_a_key() -> None:
    closed: dict[str, Any] = {path: (401, {"error": "Unauthorized"}) for path in PATHS}
    list_of_llamacpp = {"/v1/models": {"data": [{"id": "a", "owned_by": "llamacpp"}]}}
    assert kind(closed) is None
    assert kind(closed, list_of_llamacpp) == "llamacpp"
    assert kind(closed, {"/version": {"version": "0.11.0"}}) == "vllm"
    assert wants_key({"/v1/models": Said(401, b"")})
    assert wants_key({"/v1/models": Said(403, b"")})
    assert not wants_key({"/v1/models": Said(200, b"")})
    assert not wants_key({})
