from __future__ import annotations

from pair.engines.ollama import Ollama
from tests.engines.scripted_engine import report_of

TAGS = {"models": [{"name": "a:latest", "model": "a:latest"}, {"name": "b:7b", "model": "b:7b"}]}


async def test_its_models_are_ready_in_memory_or_not() -> None:
    loaded = {"models": [{"name": "b:7b", "model": "b:7b", "context_length": 8192}]}
    report = await report_of(Ollama, {"/api/tags": TAGS, "/api/ps": loaded})
    assert [
        (r.model, r.aliases, r.state, r.slots, r.resident, r.context_tokens)
        for r in report.replicas
    ] == [
        ("a:latest", {"a"}, "ready", 1, False, None),
        ("b:7b", frozenset(), "ready", 1, True, 8192),
    ]


async def test_without_a_word_on_memory_the_list_is_enough() -> None:
    report = await report_of(Ollama, {"/api/tags": TAGS})
    assert [replica.resident for replica in report.replicas] == [None, None]
    assert report.warnings == ()
