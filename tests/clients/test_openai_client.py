"""The `openai` library, on which most agents and frameworks are built."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam
from pydantic import BaseModel

from pair.bench.echo_engine.settings import EchoModel, EchoSettings, PersonaName
from tests.clients.both_ways import both, gathered, text_of
from tests.support.house import FAST, House, house

PERSONAS: Sequence[PersonaName] = ("llamacpp", "ollama", "lmstudio", "vllm", "sglang", "generic")
SPEAK_RESPONSES: Sequence[PersonaName] = ("llamacpp", "ollama", "vllm")

MESSAGES: list[ChatCompletionMessageParam] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Grüezi, 世界 😀"},
]
WEATHER: ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a place.",
        "parameters": {"type": "object", "properties": {"echo": {"type": "string"}}},
    },
}


class Place(BaseModel):
    city: str


PLACE = '{"city":"Berne"}'
"""As long as the fast engine's answers are: it echoes exactly this."""


def engine(persona: PersonaName = "llamacpp") -> EchoSettings:
    return replace(FAST, persona=persona)


def client(url: str) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


def one(persona: PersonaName = "llamacpp") -> AbstractAsyncContextManager[House]:
    return house(engine(persona))


@pytest.mark.parametrize("persona", PERSONAS)
async def test_chat(persona: PersonaName) -> None:
    async def call(url: str) -> Any:
        async with client(url) as ai:
            return await ai.chat.completions.create(model="echo", messages=MESSAGES, max_tokens=9)

    async with one(persona) as built:
        answer = await both(built, call)
    assert answer["choices"][0]["message"]["content"].startswith("Grüezi, 世界 😀")
    assert answer["usage"]["completion_tokens"] == 9


@pytest.mark.parametrize("persona", PERSONAS)
async def test_streamed_chat_with_usage(persona: PersonaName) -> None:
    async def call(url: str) -> Any:
        async with client(url) as ai:
            stream = await ai.chat.completions.create(
                model="echo",
                messages=MESSAGES,
                max_completion_tokens=9,
                stream=True,
                stream_options={"include_usage": True},
            )
            return await gathered(stream)

    async with one(persona) as built:
        chunks = await both(built, call)
    assert text_of(chunks).startswith("Grüezi, 世界 😀")
    assert chunks[-1]["usage"]["completion_tokens"] == 9


async def test_the_sync_client() -> None:
    def use(url: str) -> list[Any]:
        with OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as ai:
            whole = ai.chat.completions.create(model="echo", messages=MESSAGES)
            streamed = ai.chat.completions.create(model="echo", messages=MESSAGES, stream=True)
            return [whole, list(streamed)]

    async with one() as built:
        whole, chunks = await both(built, lambda url: asyncio.to_thread(use, url), tickets=2)
    assert text_of(chunks) == whole["choices"][0]["message"]["content"]


async def test_a_tool_is_called_and_its_result_sent_back() -> None:
    async def call(url: str) -> Any:
        async with client(url) as ai:
            asked = await ai.chat.completions.create(
                model="echo", messages=MESSAGES, tools=[WEATHER], tool_choice="required"
            )
            message = asked.choices[0].message
            assert message.tool_calls
            result: ChatCompletionMessageParam = {
                "role": "tool",
                "tool_call_id": message.tool_calls[0].id,
                "content": "It is sunny.",
            }
            told = [*MESSAGES, message.model_dump(exclude_none=True), result]
            final = await ai.chat.completions.create(model="echo", messages=told, tools=[WEATHER])  # type: ignore[arg-type]
            return [asked, final]

    async with one() as built:
        asked, final = await both(built, call, tickets=2)
    (tool_call,) = asked["choices"][0]["message"]["tool_calls"]
    assert tool_call["function"]["name"] == "weather"
    assert "Grüezi" in tool_call["function"]["arguments"]
    assert final["choices"][0]["message"]["content"].startswith("It is sunny.")


async def test_the_stream_helper_puts_a_tool_call_together() -> None:
    async def call(url: str) -> Any:
        async with (
            client(url) as ai,
            ai.chat.completions.stream(
                model="echo", messages=MESSAGES, tools=[WEATHER], tool_choice="required"
            ) as stream,
        ):
            events = [event.type async for event in stream]
            return [events, await stream.get_final_completion()]

    async with one() as built:
        events, final = await both(built, call)
    assert "tool_calls.function.arguments.delta" in events
    assert final["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "weather"


async def test_structured_output_becomes_an_object() -> None:
    async def call(url: str) -> Any:
        async with client(url) as ai:
            answer = await ai.chat.completions.parse(
                model="echo",
                messages=[{"role": "user", "content": PLACE}],
                response_format=Place,
            )
            assert answer.choices[0].message.parsed == Place(city="Berne")
            return answer

    async with one() as built:
        await both(built, call)
        assert built.engines[0].journal.counters.fates["done"] == 1


async def test_completions_of_the_old_kind() -> None:
    async def call(url: str) -> Any:
        async with client(url) as ai:
            whole = await ai.completions.create(model="echo", prompt="once upon", max_tokens=5)
            stream = await ai.completions.create(
                model="echo", prompt="once upon", max_tokens=5, stream=True
            )
            return [whole, await gathered(stream)]

    async with one() as built:
        whole, chunks = await both(built, call, tickets=2)
    assert whole["choices"][0]["text"] == "once upon once upon "
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == whole["choices"][0]["text"]


@pytest.mark.parametrize("persona", PERSONAS)
async def test_embeddings(persona: PersonaName) -> None:
    async def call(url: str) -> Any:
        async with client(url) as ai:
            packed = await ai.embeddings.create(model="echo", input=["one", "two"])
            listed = await ai.embeddings.create(model="echo", input="one", encoding_format="float")
            return [packed, listed]

    async with one(persona) as built:
        packed, listed = await both(built, call, tickets=2)
    assert len(packed["data"]) == 2
    assert packed["data"][0]["embedding"] == pytest.approx(listed["data"][0]["embedding"], abs=1e-6)


@pytest.mark.parametrize("persona", SPEAK_RESPONSES)
async def test_responses_whole_and_streamed(persona: PersonaName) -> None:
    async def call(url: str) -> Any:
        async with client(url) as ai:
            whole = await ai.responses.create(model="echo", instructions="Be brief.", input="Hi 😀")
            stream = await ai.responses.create(
                model="echo", instructions="Be brief.", input="Hi 😀", stream=True
            )
            return [whole, whole.output_text, await gathered(stream)]

    async with one(persona) as built:
        whole, text, events = await both(built, call, tickets=2)
    assert whole["status"] == "completed"
    assert text.startswith("Hi 😀")
    deltas = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
    assert "".join(deltas) == text
    assert events[-1]["type"] == "response.completed"


async def test_the_list_of_models_is_the_houses() -> None:
    other = EchoSettings(persona="ollama", models=(EchoModel("llama3.2:1b"), EchoModel("echo")))
    async with house(engine(), other) as built, client(built.base_url) as ai:
        listed = await ai.models.list()
        assert [model.id for model in listed.data] == ["echo", "llama3.2:1b"]
        assert [model.object for model in listed.data] == ["model", "model"]
        found = await ai.models.retrieve("llama3.2:1b")
        assert found.id == "llama3.2:1b"


async def test_a_fan_out_of_one_client_runs_on_all_nodes() -> None:
    async with house(engine(), engine(), engine()) as built, client(built.base_url) as ai:

        async def answering_node() -> str:
            raw = ai.chat.completions.with_raw_response
            return (await raw.create(model="echo", messages=MESSAGES)).headers["x-pair-node"]

        async with asyncio.TaskGroup() as tasks:
            calls = [tasks.create_task(answering_node()) for _ in range(12)]
        nodes = {call.result() for call in calls}
        assert nodes == {"node-0", "node-1", "node-2"}
        await built.quiet()
        built.assert_books_are_clean()


async def test_a_stream_that_the_user_leaves_frees_the_slot() -> None:
    slow = EchoSettings(decode_rate_tokens_per_s=100.0, answer_tokens=10_000)
    async with house(slow) as built, client(built.base_url) as ai:
        stream = await ai.chat.completions.create(model="echo", messages=MESSAGES, stream=True)
        async for _ in stream:
            break
        await stream.close()
        await built.engines[0].journal.until(
            lambda: built.engines[0].journal.counters.fates["hung_up"] == 1, 5.0
        )
        await built.quiet()
        built.assert_books_are_clean()


async def test_a_call_that_the_user_gives_up_frees_the_slot() -> None:
    slow = EchoSettings(decode_rate_tokens_per_s=100.0, answer_tokens=10_000)
    async with house(slow) as built, client(built.base_url) as ai:
        async with asyncio.TaskGroup() as tasks:
            call = tasks.create_task(ai.chat.completions.create(model="echo", messages=MESSAGES))
            await built.engines[0].journal.until(
                lambda: built.engines[0].journal.counters.running == 1, 5.0
            )
            call.cancel()
        await built.engines[0].journal.until(
            lambda: built.engines[0].journal.counters.fates["hung_up"] == 1, 5.0
        )
        await built.quiet()
        built.assert_books_are_clean()
