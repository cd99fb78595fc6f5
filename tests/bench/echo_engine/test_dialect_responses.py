from __future__ import annotations

from tests.bench.echo_engine.calling import engine_and_client
from tests.bench.echo_engine.test_dialect_openai import openai_client


async def test_a_response_whole() -> None:
    async with openai_client() as client:
        answer = await client.responses.create(
            model="echo", instructions="be short", input="say it", max_output_tokens=3
        )
    assert answer.output_text == "say it say i"
    assert answer.status == "incomplete"
    assert answer.incomplete_details is not None
    assert answer.incomplete_details.reason == "max_output_tokens"
    assert answer.usage is not None
    assert answer.usage.output_tokens == 3
    assert answer.usage.input_tokens_details.cached_tokens == 0


async def test_a_response_streamed() -> None:
    async with openai_client() as client:
        stream = await client.responses.create(
            model="echo",
            input=[
                {"role": "user", "content": [{"type": "input_text", "text": "say it"}]},
                {"type": "function_call_output", "call_id": "1", "output": "found"},
                {"role": "user", "content": "once more"},
            ],
            stream=True,
        )
        events = [event async for event in stream]
    assert [event.type for event in events[:4]] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert len(deltas) == 64
    last = events[-1]
    assert last.type == "response.completed"
    assert last.response.output_text == "".join(deltas)
    assert last.response.output_text.startswith("once more once more")


async def test_an_input_of_another_shape_is_refused() -> None:
    async with engine_and_client() as client:
        answer = await client.post("/v1/responses", {"model": "echo", "input": 3})
    assert answer.status == 400
    assert "input" in answer.json["error"]["message"]
