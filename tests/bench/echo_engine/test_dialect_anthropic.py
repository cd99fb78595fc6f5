from __future__ import annotations

from typing import Any

from tests.bench.echo_engine.calling import engine_and_client, settings

MESSAGES = "/v1/messages"
LOOK = {"name": "look", "input_schema": {"type": "object"}}


def body(**more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": [{"type": "text", "text": "say it"}]}]
    return {"model": "echo", "max_tokens": 3, "messages": messages, "system": "be short", **more}


async def test_a_message_whole() -> None:
    async with engine_and_client() as client:
        first = (await client.post(MESSAGES, body())).json
        again = (await client.post(MESSAGES, body())).json
    assert first["content"] == [{"type": "text", "text": "say it say i"}]
    assert first["stop_reason"] == "max_tokens"
    total = first["usage"]["input_tokens"]
    assert first["usage"] == {
        "input_tokens": total,
        "cache_read_input_tokens": 0,
        "output_tokens": 3,
    }
    assert again["usage"]["input_tokens"] == 1
    assert again["usage"]["cache_read_input_tokens"] == total - 1


async def test_a_message_streamed() -> None:
    async with engine_and_client() as client:
        answer = await client.post(MESSAGES, body(stream=True))
    assert answer.headers["Content-Type"] == "text/event-stream"
    assert [event["type"] for event in answer.events] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    deltas = [event["delta"] for event in answer.events if event["type"] == "content_block_delta"]
    assert "".join(delta["text"] for delta in deltas) == "say it say i"
    assert answer.events[-2]["usage"] == {"output_tokens": 3}
    named = [line for line in answer.body.decode().split("\n") if line.startswith("event: ")]
    assert named == [f"event: {event['type']}" for event in answer.events]


async def test_a_tool_is_called_when_it_must_be() -> None:
    for choice in ({"type": "any"}, {"type": "tool", "name": "look"}):
        asked = body(tools=[LOOK], tool_choice=choice)
        async with engine_and_client() as client:
            whole = (await client.post(MESSAGES, asked)).json
            streamed = (await client.post(MESSAGES, {**asked, "stream": True})).events
        assert whole["stop_reason"] == "tool_use"
        assert whole["content"][0]["name"] == "look"
        assert whole["content"][0]["input"] == {"echo": "say it"}
        assert streamed[1]["content_block"]["name"] == "look"
        parts = [event["delta"].get("partial_json", "") for event in streamed if "delta" in event]
        assert "".join(parts).strip() == '{"echo":"say it"}'


async def test_refusals_are_in_the_dialect() -> None:
    async with engine_and_client(settings(persona="ollama")) as client:
        unknown = await client.post(MESSAGES, body(model="other"))
        wrong = await client.post(MESSAGES, {"model": "echo"})
        failed = await client.post(MESSAGES, body(), headers={"x-echo-fault": "500"})
    assert (unknown.status, unknown.json["type"]) == (404, "error")
    assert unknown.json["error"]["type"] == "not_found_error"
    assert wrong.json["error"]["type"] == "invalid_request_error"
    assert failed.json["error"]["type"] == "api_error"
