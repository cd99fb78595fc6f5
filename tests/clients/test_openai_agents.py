"""The `openai-agents` framework: tools, a hand-off, a streamed run, over both of OpenAI's paths."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from agents import (
    Agent,
    Model,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
)
from openai import AsyncOpenAI

from tests.clients.both_ways import both
from tests.support.house import FAST, house

SLOW = replace(FAST, decode_rate_tokens_per_s=200.0)
"""Busy for long enough that calls at the same time are spread."""


@function_tool
def weather(echo: str) -> str:
    """The weather of a place.

    Args:
        echo: the place.
    """
    return f"sunny in {echo}"


def client(url: str) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


def chat_model(ai: AsyncOpenAI) -> Model:
    return OpenAIChatCompletionsModel(model="echo", openai_client=ai)


def responses_model(ai: AsyncOpenAI) -> Model:
    return OpenAIResponsesModel(model="echo", openai_client=ai)


def forecaster(ai: AsyncOpenAI) -> Agent[Any]:
    """Must use its tool first; the framework then lets it speak."""
    must = ModelSettings(tool_choice="required", max_tokens=9)
    return Agent("forecaster", model=chat_model(ai), tools=[weather], model_settings=must)


def steps(items: list[Any]) -> list[tuple[str, str]]:
    """What happened in a run, by whom."""
    return [(item.type, item.agent.name) for item in items]


@pytest.mark.parametrize("make_model", [chat_model, responses_model])
async def test_a_plain_run(make_model: Any) -> None:
    async def call(url: str) -> Any:
        async with client(url) as ai:
            agent = Agent("speaker", instructions="Be brief.", model=make_model(ai))
            result = await Runner.run(agent, "Grüezi, 世界 😀")
            return [result.final_output, steps(result.new_items)]

    async with house(FAST) as built:
        said, happened = await both(built, call)
    assert said.startswith("Grüezi")
    assert happened == [["message_output_item", "speaker"]]


async def test_a_tool_is_called_and_its_result_goes_back() -> None:
    async def call(url: str) -> Any:
        async with client(url) as ai:
            result = await Runner.run(forecaster(ai), "Bern")
            return [result.final_output, steps(result.new_items)]

    async with house(FAST) as built:
        said, happened = await both(built, call, tickets=2)
    assert said.startswith("sunny in Bern")
    assert [kind for kind, _ in happened] == [
        "tool_call_item",
        "tool_call_output_item",
        "message_output_item",
    ]


async def test_a_hand_off_to_another_agent() -> None:
    async def call(url: str) -> Any:
        async with client(url) as ai:
            settings = ModelSettings(tool_choice="required")
            lead = Agent(
                "lead", model=chat_model(ai), handoffs=[forecaster(ai)], model_settings=settings
            )
            result = await Runner.run(lead, "Bern")
            return [result.final_output, result.last_agent.name, steps(result.new_items)]

    async with house(FAST) as built:
        _, last, happened = await both(built, call, tickets=3)
    assert last == "forecaster"
    assert ["handoff_output_item", "lead"] in happened
    assert happened[-1] == ["message_output_item", "forecaster"]


@pytest.mark.parametrize("make_model", [chat_model, responses_model])
async def test_a_streamed_run(make_model: Any) -> None:
    async def call(url: str) -> Any:
        async with client(url) as ai:
            agent = Agent("speaker", instructions="Be brief.", model=make_model(ai))
            result = Runner.run_streamed(agent, "Grüezi, 世界 😀")
            deltas = [
                event.data.delta
                async for event in result.stream_events()
                if event.type == "raw_response_event"
                and event.data.type == "response.output_text.delta"
            ]
            return [deltas, result.final_output]

    async with house(FAST) as built:
        deltas, said = await both(built, call)
    assert "".join(deltas) == said
    assert len(deltas) == FAST.answer_tokens


async def test_a_streamed_run_with_a_tool() -> None:
    async def call(url: str) -> Any:
        async with client(url) as ai:
            result = Runner.run_streamed(forecaster(ai), "Bern")
            happened = [
                event.name
                async for event in result.stream_events()
                if event.type == "run_item_stream_event"
            ]
            return [happened, result.final_output]

    async with house(FAST) as built:
        happened, said = await both(built, call, tickets=2)
    assert happened == ["tool_called", "tool_output", "message_output_created"]
    assert said.startswith("sunny in Bern")


async def test_agents_that_are_tools_of_another_one() -> None:
    async def call(url: str) -> Any:
        async with client(url) as ai:
            aide = forecaster(ai)

            @function_tool
            async def forecast(echo: str) -> str:
                """Asks somebody who knows the weather of a place."""
                return str((await Runner.run(aide, echo)).final_output)

            must = ModelSettings(tool_choice="required")
            lead = Agent("lead", model=chat_model(ai), tools=[forecast], model_settings=must)
            result = await Runner.run(lead, "Bern")
            return [result.final_output, steps(result.new_items)]

    async with house(FAST) as built:
        _, happened = await both(built, call, tickets=4)
    assert [kind for kind, _ in happened] == [
        "tool_call_item",
        "tool_call_output_item",
        "message_output_item",
    ]


async def test_a_fan_out_of_agents_runs_on_all_nodes() -> None:
    async with house(SLOW, SLOW, SLOW) as built, client(built.base_url) as ai:
        agents = [Agent(f"aide {number}", model=chat_model(ai)) for number in range(6)]
        async with asyncio.TaskGroup() as tasks:
            runs = [tasks.create_task(Runner.run(agent, "Bern")) for agent in agents]
        assert len({run.result().final_output for run in runs}) == 1
        assert [engine.journal.counters.fates["done"] for engine in built.engines] == [2, 2, 2]
        await built.quiet()
        built.assert_books_are_clean()
