"""Issue 3, item 22: lists of models as each kind gives them, and those that nobody can read."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pair.core.membership import Node
from pair.core.names import Phase
from pair.engines.engine import Reading
from pair.engines.finder import KINDS
from pair.errors import GarbledAnswer
from pair.settings import FixedNode, ProbingSettings, Settings
from pair.wire.engine_reports.recognition import PATHS, Answers, Said, recognised_kind
from tests.engines.scripted_engine import ScriptedEngine
from tests.support.house import House, house

QUICK = ProbingSettings(interval_s=0.03, suspect_interval_s=0.03, limit_s=1.0)

SHAPES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "OpenAI": ({"/v1/models": {"object": "list", "data": [{"id": "a"}, {"id": "b"}]}}, {"a", "b"}),
    "llama.cpp": (
        {
            "/v1/models": {
                "models": [{"name": "a", "model": "a", "capabilities": ["completion"]}],
                "object": "list",
                "data": [{"id": "a", "aliases": ["a", "b"], "owned_by": "llamacpp", "meta": None}],
            },
            "/props": {"total_slots": 2, "default_generation_settings": {"n_ctx": 512}},
        },
        {"a", "b"},
    ),
    "llama.cpp with several models": (
        {
            "/v1/models": {
                "data": [
                    {"id": "a", "owned_by": "llamacpp", "status": {"value": "unloaded"}},
                    {"id": "b", "owned_by": "llamacpp", "status": {"value": "loaded"}},
                ]
            },
            "/props": {"role": "router"},
        },
        {"a", "b"},
    ),
    "Ollama": (
        {"/api/tags": {"models": [{"name": "a:latest", "model": "a:latest"}, {"name": "b:1b"}]}},
        {"a:latest", "a", "b:1b"},
    ),
    "LM Studio, old": (
        {"/api/v0/models": {"data": [{"id": "a", "state": "not-loaded", "type": "llm"}]}},
        {"a"},
    ),
    "LM Studio, new": (
        {
            "/api/v1/models": {
                "models": [
                    {
                        "type": "llm",
                        "key": "maker/a",
                        "display_name": "A",
                        "loaded_instances": [{"id": "b", "config": {"context_length": 4096}}],
                        "max_context_length": 8192,
                    }
                ]
            }
        },
        {"maker/a", "b"},
    ),
    "vLLM": (
        {
            "/v1/models": {
                "object": "list",
                "data": [
                    {"id": "a", "owned_by": "vllm", "root": "/m", "max_model_len": 512},
                    {"id": "b", "owned_by": "vllm", "root": "/m", "max_model_len": 512},
                ],
            }
        },
        {"a", "b"},
    ),
    "SGLang": (
        {
            "/v1/models": {"data": [{"id": "a", "owned_by": "sglang", "max_model_len": 512}]},
            "/model_info": {"model_path": "a"},
        },
        {"a"},
    ),
}


def the_node(built: House) -> Node:
    """The only one."""
    (node,) = built.proxy.scheduler.membership.nodes.values()
    return node


async def listed(built: House) -> set[str]:
    """What clients see."""
    async with built.client.get("/v1/models") as answer:
        return {row["id"] for row in (await answer.json())["data"]}


@pytest.mark.parametrize("shape", SHAPES)
async def test_22_every_shape_is_read(shape: str) -> None:
    pages, names = SHAPES[shape]
    async with ScriptedEngine(pages) as engine:
        fixed = Settings(nodes=(FixedNode(engine.url),), probing=QUICK)
        async with house(settings=fixed) as built:
            await built.until(lambda: bool(the_node(built).replicas))
            assert names <= await listed(built)


UNREADABLE: dict[str, Any] = {
    "a web page": b"<!doctype html><title>Welcome</title>",
    "half JSON": b'{"data": [{"id": "a"',
    "nothing": b"",
    "other types": {"data": "a", "models": 7},
    "a list of lists": [[["a"]]],
    "too large": b'{"data": [' + b'{"id": "' + b"x" * 10_000_000 + b'"}]}',
    "deep": b"[" * 100_000,
    "an error": (500, b"oops"),
}


@pytest.mark.parametrize("unreadable", UNREADABLE)
@pytest.mark.parametrize("shape", ["OpenAI", "Ollama", "LM Studio, new"])
async def test_22_an_unreadable_list_is_a_warning_and_no_dead_node(
    shape: str, unreadable: str
) -> None:
    pages, names = SHAPES[shape]
    async with ScriptedEngine(pages) as engine:
        fixed = Settings(nodes=(FixedNode(engine.url),), probing=QUICK)
        async with house(settings=fixed) as built:
            node = the_node(built)
            await built.until(lambda: bool(node.replicas))
            engine.pages = dict.fromkeys(pages, UNREADABLE[unreadable])
            await built.until(lambda: any("unusable" in words for words in node.warnings))
            assert node.phase is Phase.READY
            assert names <= await listed(built), "the last good list stays"
            (shown,) = built.snapshot().nodes
            assert any("unusable" in words for words in shown.warnings)
            engine.pages = dict(pages)
            await built.until(lambda: not node.warnings)


FIELDS = (
    *("data", "models", "id", "key", "name", "model", "aliases", "root", "owned_by", "state"),
    *("status", "value", "meta", "n_ctx", "loaded_instances", "config", "parallel", "loads"),
    *("total_slots", "default_generation_settings", "internal_states", "error", "message"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(FIELDS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)
BODY = JSON.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=64)
EVERY_PATH = [*PATHS, "/slots", "/metrics", "/api/ps", "/server_info", "/v1/loads"]
ANSWERS = st.dictionaries(
    st.sampled_from(EVERY_PATH),
    st.builds(Said, st.sampled_from([200, 200, 200, 401, 404, 503]), BODY),
)


@pytest.mark.parametrize("kind", KINDS)
@given(answers=ANSWERS)
@settings(max_examples=80, deadline=None)
def test_22_any_answers_give_a_reading_or_a_fault_of_the_nodes(kind: str, answers: Answers) -> None:
    with suppress(GarbledAnswer):
        assert isinstance(KINDS[kind]("http://127.0.0.1:1").read(answers), Reading)


@given(answers=ANSWERS)
@settings(max_examples=200, deadline=None)
def test_22_any_answers_are_of_some_kind_or_of_none(answers: Answers) -> None:
    recognised_kind(answers)
