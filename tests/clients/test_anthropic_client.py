"""The `anthropic` library, as Claude Code and its relatives use it, at engines that speak it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from anthropic import Anthropic, AsyncAnthropic
from anthropic.types import Message, MessageParam, ToolParam

from pair.bench.echo_engine.settings import PersonaName
from tests.clients.both_ways import both, gathered
from tests.support.house import FAST, house

PERSONAS: Sequence[PersonaName] = ("llamacpp", "ollama", "lmstudio", "vllm", "sglang")
MESSAGES: list[MessageParam] = [{"role": "user", "content": "Grüezi, 世界 😀"}]
WEATHER: ToolParam = {
    "name": "weather",
    "description": "The weather of a place.",
    "input_schema": {"type": "object", "properties": {"echo": {"type": "string"}}},
}


def client(url: str) -> AsyncAnthropic:
    return AsyncAnthropic(base_url=url, api_key="none", max_retries=0)


@pytest.mark.parametrize("persona", PERSONAS)
async def test_messages_whole_and_streamed(persona: PersonaName) -> None:
    async def call(url: str) -> Any:
        async with client(url) as ai:
            whole = await ai.messages.create(
                model="echo", system="Be brief.", messages=MESSAGES, max_tokens=9
            )
            stream = await ai.messages.create(
                model="echo", system="Be brief.", messages=MESSAGES, max_tokens=9, stream=True
            )
            return [whole, await gathered(stream)]

    async with house(replace(FAST, persona=persona)) as built:
        whole, events = await both(built, call, tickets=2)
    assert whole["content"][0]["text"].startswith("Grüezi, 世界 😀")
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    assert "".join(delta["text"] for delta in deltas) == whole["content"][0]["text"]
    assert events[-1]["type"] == "message_stop"


async def test_the_stream_helper_gives_text_and_the_final_message() -> None:
    async def call(url: str) -> Any:
        async with (
            client(url) as ai,
            ai.messages.stream(model="echo", messages=MESSAGES, max_tokens=9) as stream,
        ):
            text = "".join([piece async for piece in stream.text_stream])
            return [text, await stream.get_final_message()]

    async with house(FAST) as built:
        text, final = await both(built, call)
    assert final["content"][0]["text"] == text
    assert final["usage"]["output_tokens"] == 9


async def test_the_sync_client() -> None:
    def use(url: str) -> Any:
        with Anthropic(base_url=url, api_key="none", max_retries=0) as ai:
            return ai.messages.create(model="echo", messages=MESSAGES, max_tokens=9)

    async with house(FAST) as built:
        whole = await both(built, lambda url: asyncio.to_thread(use, url))
    assert whole["stop_reason"] == "max_tokens"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_tool_is_called_and_its_result_sent_back(stream: bool) -> None:
    async def call(url: str) -> Any:
        async with client(url) as ai:
            if stream:
                async with ai.messages.stream(
                    model="echo",
                    messages=MESSAGES,
                    max_tokens=99,
                    tools=[WEATHER],
                    tool_choice={"type": "any"},
                ) as streamed:
                    asked: Message = await streamed.get_final_message()
            else:
                asked = await ai.messages.create(
                    model="echo",
                    messages=MESSAGES,
                    max_tokens=99,
                    tools=[WEATHER],
                    tool_choice={"type": "any"},
                )
            (use,) = asked.content
            assert use.type == "tool_use"
            told: list[MessageParam] = [
                *MESSAGES,
                {"role": "assistant", "content": asked.content},
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": use.id, "content": "It is sunny."}
                    ],
                },
            ]
            final = await ai.messages.create(
                model="echo", messages=told, max_tokens=9, tools=[WEATHER]
            )
            return [asked, final]

    async with house(FAST) as built:
        asked, final = await both(built, call, tickets=2)
    assert asked["stop_reason"] == "tool_use"
    assert asked["content"][0]["input"]["echo"].startswith("Grüezi")
    assert final["content"][0]["text"].startswith("It is sunny.")


@pytest.mark.parametrize("persona", ["llamacpp", "vllm"])
async def test_tokens_are_counted_without_a_slot(persona: PersonaName) -> None:
    async def call(url: str) -> Any:
        async with client(url) as ai:
            return await ai.messages.count_tokens(model="echo", messages=MESSAGES)

    async with house(replace(FAST, persona=persona)) as built:
        counted = await both(built, call)
        assert counted["input_tokens"] > 0
        assert built.engines[0].journal.counters.started == 0


async def test_the_list_of_models_reads_as_anthropics() -> None:
    async with house(FAST) as built, client(built.base_url) as ai:
        listed = [model async for model in ai.models.list()]
        assert [(model.id, model.type, model.display_name) for model in listed] == [
            ("echo", "model", "echo")
        ]
