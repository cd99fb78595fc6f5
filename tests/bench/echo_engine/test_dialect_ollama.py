from __future__ import annotations

import json
from typing import Any

import pytest

from pair.bench.echo_engine.dialect_openai import vector
from tests.bench.echo_engine.calling import Answer, engine_and_client, settings

OLLAMA = settings(persona="ollama", answer_tokens=6)


def lines(answer: Answer) -> list[Any]:
    return [json.loads(line) for line in answer.body.splitlines()]


async def test_a_chat_is_streamed_unless_told_not_to_be() -> None:
    asked = {"model": "echo", "messages": [{"role": "user", "content": "say it"}]}
    async with engine_and_client(OLLAMA) as client:
        streamed = await client.post("/api/chat", asked)
        whole = await client.post("/api/chat", {**asked, "stream": False})
    assert streamed.headers["Content-Type"] == "application/x-ndjson"
    said = "say it say it say it say"
    parts = [line["message"]["content"] for line in lines(streamed)]
    assert len(parts) == 7
    assert "".join(parts) == said
    assert [line["done"] for line in lines(streamed)] == [False] * 6 + [True]
    assert whole.json["message"] == {"role": "assistant", "content": said}
    for last in (lines(streamed)[-1], whole.json):
        assert (last["done_reason"], last["eval_count"], last["prompt_eval_count"]) == (
            "stop",
            6,
            8,
        )


async def test_generate_with_a_length_of_its_own() -> None:
    asked = {"model": "echo", "prompt": "say it", "system": "x", "options": {"num_predict": 2}}
    async with engine_and_client(OLLAMA) as client:
        streamed = await client.post("/api/generate", asked)
        endless = await client.post(
            "/api/generate", {**asked, "options": {"num_predict": -1}, "stream": False}
        )
    assert "".join(line["response"] for line in lines(streamed)) == "say it s"
    assert lines(streamed)[-1]["done_reason"] == "length"
    assert endless.json["eval_count"] == 6


async def test_durations_are_in_nanoseconds_and_add_up() -> None:
    given = settings(persona="ollama", prefill_rate_tokens_per_s=100, decode_rate_tokens_per_s=100)
    async with engine_and_client(given) as client:
        last = (
            await client.post(
                "/api/generate",
                {"model": "echo", "prompt": "say", "stream": False, "options": {"num_predict": 10}},
            )
        ).json
    assert last["eval_duration"] == pytest.approx(0.1e9, rel=0.3)
    assert last["prompt_eval_duration"] == pytest.approx(0.07e9, rel=0.3)
    parts = last["eval_duration"] + last["prompt_eval_duration"] + last["load_duration"]
    assert parts <= last["total_duration"] < parts + 0.05e9


async def test_embed() -> None:
    async with engine_and_client(OLLAMA) as client:
        several = await client.post("/api/embed", {"model": "echo", "input": ["one", "two"]})
        single = await client.post("/api/embed", {"model": "echo", "input": "one"})
    assert several.json["embeddings"] == [
        pytest.approx(vector("one")),
        pytest.approx(vector("two")),
    ]
    assert single.json["embeddings"] == several.json["embeddings"][:1]


async def test_errors_are_one_word() -> None:
    async with engine_and_client(OLLAMA) as client:
        unknown = await client.post("/api/chat", {"model": "other", "messages": []})
        missing = await client.post("/api/chat", {"messages": []})
        busy = await client.post("/api/chat", {"model": "echo"}, headers={"x-echo-fault": "busy"})
    assert (unknown.status, unknown.json) == (404, {"error": "model 'other' not found"})
    assert missing.status == 400
    assert busy.status == 503
    assert busy.json["error"].startswith("server busy, please try again.")
