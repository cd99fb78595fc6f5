from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import openai
import pytest
from openai.types.chat import ChatCompletionToolChoiceOptionParam, ChatCompletionToolParam

from pair.bench.echo_engine import EchoSettings
from pair.bench.echo_engine.dialect_openai import vector
from tests.bench.echo_engine.calling import Client, chat_body, engine_and_client, settings

LOOK: ChatCompletionToolParam = {
    "type": "function",
    "function": {"name": "look", "parameters": {"type": "object", "properties": {}}},
}


@asynccontextmanager
async def openai_client(given: EchoSettings | None = None) -> AsyncIterator[openai.AsyncOpenAI]:
    """The official client on an echo engine."""
    async with (
        engine_and_client(given) as client,
        openai.AsyncOpenAI(
            base_url=client.engine.url + "/v1", api_key="none", max_retries=0
        ) as official,
    ):
        yield official


async def test_a_chat_answers_with_the_words_asked_and_counts_them() -> None:
    async with openai_client() as client:
        answer = await client.chat.completions.create(
            model="echo", messages=[{"role": "user", "content": "say it"}], max_tokens=3
        )
    choice = answer.choices[0]
    assert choice.message.content == "say it say i"
    assert choice.finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 3
    # "<|user|>" is 2 tokens, the words 2, "<|assistant|>" 4.
    assert answer.usage.prompt_tokens == 8
    assert answer.model_extra is not None
    assert answer.model_extra["timings"]["predicted_n"] == 3


async def test_a_stream_sends_one_event_a_token_and_ends_with_the_counts() -> None:
    async with openai_client() as client:
        stream = await client.chat.completions.create(
            model="echo",
            messages=[{"role": "user", "content": "say it"}],
            max_completion_tokens=5,
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]
    words = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices]
    assert words == [None, "say ", "it s", "ay i", "t sa", "y it", None]
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "length"
    last = chunks[-1]
    assert last.choices == []
    assert last.usage is not None
    assert last.usage.completion_tokens == 5
    assert len({chunk.id for chunk in chunks}) == 1


async def test_without_a_length_the_engine_stops_by_itself() -> None:
    async with openai_client(settings(answer_tokens=7)) as client:
        answer = await client.chat.completions.create(
            model="echo", messages=[{"role": "user", "content": "say it"}]
        )
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 7


async def test_the_next_turn_finds_the_last_one_in_the_cache() -> None:
    async with openai_client() as client:
        first = await client.chat.completions.create(
            model="echo", messages=[{"role": "user", "content": "say it"}], max_tokens=6
        )
        following = await client.chat.completions.create(
            model="echo",
            messages=[
                {"role": "user", "content": "say it"},
                {"role": "assistant", "content": first.choices[0].message.content},
                {"role": "user", "content": "again"},
            ],
            max_tokens=1,
        )
    assert first.usage is not None
    assert following.usage is not None
    assert following.usage.prompt_tokens_details is not None
    assert following.usage.prompt_tokens_details.cached_tokens == first.usage.total_tokens


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "look"}}])
async def test_a_tool_is_called_when_it_must_be(
    choice: ChatCompletionToolChoiceOptionParam,
) -> None:
    async with openai_client() as client:
        whole = await client.chat.completions.create(
            model="echo",
            messages=[{"role": "user", "content": "where"}],
            tools=[LOOK],
            tool_choice=choice,
        )
        stream = await client.chat.completions.create(
            model="echo",
            messages=[{"role": "user", "content": "where"}],
            tools=[LOOK],
            tool_choice=choice,
            stream=True,
        )
        chunks = [chunk async for chunk in stream]
    assert whole.choices[0].finish_reason == "tool_calls"
    assert whole.choices[0].message.tool_calls is not None
    called = whole.choices[0].message.tool_calls[0]
    assert called.type == "function"
    assert called.function.name == "look"
    assert called.function.arguments.strip() == '{"echo":"where"}'
    deltas = [part for chunk in chunks for part in chunk.choices[0].delta.tool_calls or []]
    functions = [part.function for part in deltas if part.function is not None]
    assert functions[0].name == "look"
    assert "".join(part.arguments or "" for part in functions) == called.function.arguments
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


async def test_tools_that_need_not_be_called_are_not() -> None:
    async with openai_client() as client:
        answer = await client.chat.completions.create(
            model="echo", messages=[{"role": "user", "content": "where"}], tools=[LOOK]
        )
    assert answer.choices[0].message.tool_calls is None


async def test_completions_whole_and_streamed() -> None:
    async with openai_client() as client:
        whole = await client.completions.create(model="echo", prompt="say it", max_tokens=3)
        stream = await client.completions.create(
            model="echo", prompt=[1, 2, 3], max_tokens=2, stream=True
        )
        chunks = [chunk async for chunk in stream]
    assert whole.choices[0].text == "say it say i"
    assert [chunk.choices[0].text for chunk in chunks] == ["0001", "0002", ""]
    assert chunks[-1].choices[0].finish_reason == "length"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.prompt_tokens == 3


async def test_embeddings_are_unit_vectors_of_the_text_in_both_formats() -> None:
    async with openai_client() as client:
        packed = await client.embeddings.create(model="echo", input=["one", "two", "one"])
        plain = await client.embeddings.create(
            model="echo", input=["one", "two", "one"], encoding_format="float"
        )
    vectors = [row.embedding for row in packed.data]
    assert vectors[0] == vectors[2] != vectors[1]
    assert vectors[0] == pytest.approx(vector("one"), abs=1e-6)
    assert plain.data[1].embedding == pytest.approx(vectors[1], abs=1e-6)
    assert sum(value**2 for value in vectors[0]) == pytest.approx(1.0, abs=1e-5)
    assert packed.usage.prompt_tokens == 3


async def test_refusals_are_the_exceptions_that_clients_know() -> None:
    given = settings(persona="vllm", context_tokens=30)
    async with openai_client(given) as client:
        ask = client.chat.completions.create
        with pytest.raises(openai.NotFoundError) as unknown:
            await ask(model="other", messages=[{"role": "user", "content": "x"}])
        with pytest.raises(openai.BadRequestError) as too_long:
            await ask(model="echo", messages=[{"role": "user", "content": "x" * 200}])
        with pytest.raises(openai.BadRequestError):
            await ask(model="echo", messages=[], max_tokens=0)
        with pytest.raises(openai.BadRequestError):
            await client.completions.create(model="echo", prompt=["one", "two"])
        with pytest.raises(openai.BadRequestError):
            await client.embeddings.create(model="echo", input=[])
    assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")
    assert too_long.value.code == "context_exceeded"


async def test_errors_of_llamacpp_have_their_own_shape() -> None:
    async with engine_and_client(settings(context_tokens=30)) as client:
        answer = await client.chat("x" * 200)
        wrong = await client.post("/v1/completions", {"model": "echo", "prompt": [["a"]]})
    assert answer.status == 400
    assert answer.json["error"]["type"] == "exceed_context_size_error"
    assert answer.json["error"]["code"] == 400
    assert wrong.json["error"]["type"] == "invalid_request_error"


async def timings_of(client: Client, **more: object) -> list[bool]:
    answer = await client.post("/v1/chat/completions", {**chat_body(), "stream": True, **more})
    return ["timings" in event for event in answer.events]


async def test_only_llamacpp_tells_timings_and_in_its_last_event() -> None:
    usage = {"stream_options": {"include_usage": True}}
    async with engine_and_client() as client:
        assert await timings_of(client) == [False] * 5 + [True]
        assert await timings_of(client, **usage) == [False] * 6 + [True]
    async with engine_and_client(settings(persona="generic")) as client:
        assert await timings_of(client, **usage) == [False] * 7
