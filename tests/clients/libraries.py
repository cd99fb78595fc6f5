"""The same question asked with each of the libraries, and what each raises when it goes wrong.

Apart from the tests of single libraries, which use what only that one has: here is what all have in
common, so that every failure is tried with all of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anthropic
import ollama
import openai
from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, Runner
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

QUESTION = "Grüezi, 世界 😀"


@dataclass(frozen=True)
class Ask:
    """One question.

    Attributes:
        url: of the engine or the proxy, without `/v1`.
        retries: how often the library may send it again by itself.
    """

    url: str
    model: str = "echo"
    retries: int = 0
    tokens: int = 16


@dataclass(frozen=True)
class Library:
    """One library.

    Attributes:
        whole: asks, and returns the text of the answer.
        streamed: asks, and gives the text in the pieces in which it comes.
        unknown_model, too_many, broken_stream: what it raises for a model that is nowhere, for
            status 429, and for a stream that ends with an error event.
    """

    whole: Callable[[Ask], Coroutine[Any, Any, str]]
    streamed: Callable[[Ask], AsyncIterator[str]]
    unknown_model: type[Exception]
    too_many: type[Exception]
    broken_stream: type[Exception]


def openai_client(ask: Ask) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{ask.url}/v1", api_key="none", max_retries=ask.retries)


async def openai_whole(ask: Ask) -> str:
    async with openai_client(ask) as ai:
        answer = await ai.chat.completions.create(
            model=ask.model,
            messages=[{"role": "user", "content": QUESTION}],
            max_tokens=ask.tokens,
            temperature=0.0,
        )
        return answer.choices[0].message.content or ""


async def openai_streamed(ask: Ask) -> AsyncIterator[str]:
    async with openai_client(ask) as ai:
        stream = await ai.chat.completions.create(
            model=ask.model,
            messages=[{"role": "user", "content": QUESTION}],
            max_tokens=ask.tokens,
            temperature=0.0,
            stream=True,
        )
        async for chunk in stream:
            for choice in chunk.choices:
                if choice.delta.content:
                    yield choice.delta.content


async def responses_whole(ask: Ask) -> str:
    async with openai_client(ask) as ai:
        answer = await ai.responses.create(
            model=ask.model, input=QUESTION, max_output_tokens=ask.tokens, temperature=0.0
        )
        return answer.output_text


async def responses_streamed(ask: Ask) -> AsyncIterator[str]:
    async with openai_client(ask) as ai:
        stream = await ai.responses.create(
            model=ask.model,
            input=QUESTION,
            max_output_tokens=ask.tokens,
            temperature=0.0,
            stream=True,
        )
        async for event in stream:
            if event.type == "response.output_text.delta":
                yield event.delta


def anthropic_client(ask: Ask) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=ask.url, api_key="none", max_retries=ask.retries)


def anthropic_question(ask: Ask) -> dict[str, Any]:
    return {
        "model": ask.model,
        "messages": [{"role": "user", "content": QUESTION}],
        "max_tokens": ask.tokens,
        # A field of the API that this library no longer knows.
        "extra_body": {"temperature": 0.0},
    }


async def anthropic_whole(ask: Ask) -> str:
    async with anthropic_client(ask) as ai:
        answer = await ai.messages.create(**anthropic_question(ask))
        return "".join(block.text for block in answer.content if block.type == "text")


async def anthropic_streamed(ask: Ask) -> AsyncIterator[str]:
    async with (
        anthropic_client(ask) as ai,
        ai.messages.stream(**anthropic_question(ask)) as stream,
    ):
        async for text in stream.text_stream:
            yield text


async def ollama_whole(ask: Ask) -> str:
    async with ollama.AsyncClient(host=ask.url) as ai:
        options = {"num_predict": ask.tokens, "temperature": 0.0}
        answer = await ai.generate(ask.model, QUESTION, options=options)
        return str(answer.response)


async def ollama_streamed(ask: Ask) -> AsyncIterator[str]:
    async with ollama.AsyncClient(host=ask.url) as ai:
        options = {"num_predict": ask.tokens, "temperature": 0.0}
        async for line in await ai.generate(ask.model, QUESTION, options=options, stream=True):
            if line.response:
                yield line.response


@asynccontextmanager
async def agent(ask: Ask) -> AsyncIterator[Agent[Any]]:
    async with openai_client(ask) as ai:
        model = OpenAIChatCompletionsModel(model=ask.model, openai_client=ai)
        settings = ModelSettings(max_tokens=ask.tokens, temperature=0.0)
        yield Agent("speaker", model=model, model_settings=settings)


async def agents_whole(ask: Ask) -> str:
    async with agent(ask) as speaker:
        return str((await Runner.run(speaker, QUESTION)).final_output)


async def agents_streamed(ask: Ask) -> AsyncIterator[str]:
    async with agent(ask) as speaker:
        async for event in Runner.run_streamed(speaker, QUESTION).stream_events():
            if (
                event.type == "raw_response_event"
                and event.data.type == "response.output_text.delta"
            ):
                yield event.data.delta


@asynccontextmanager
async def langchain_model(ask: Ask) -> AsyncIterator[ChatOpenAI]:
    # Left to itself the library never closes a connection.
    async with openai.DefaultAsyncHttpxClient() as connections:
        yield ChatOpenAI(
            base_url=f"{ask.url}/v1",
            api_key=SecretStr("none"),
            model=ask.model,
            max_retries=ask.retries,
            max_tokens=ask.tokens,  # type: ignore[call-arg]  # an alias that its types do not show
            temperature=0.0,
            http_async_client=connections,
        )


async def langchain_whole(ask: Ask) -> str:
    async with langchain_model(ask) as model:
        return str((await model.ainvoke(QUESTION)).content)


async def langchain_streamed(ask: Ask) -> AsyncIterator[str]:
    async with langchain_model(ask) as model:
        async for chunk in model.astream(QUESTION):
            if chunk.content:
                yield str(chunk.content)


def _on_openai(
    whole: Callable[[Ask], Coroutine[Any, Any, str]], streamed: Callable[[Ask], AsyncIterator[str]]
) -> Library:
    """What is built on the `openai` library raises its errors."""
    return Library(
        whole=whole,
        streamed=streamed,
        unknown_model=openai.NotFoundError,
        too_many=openai.RateLimitError,
        broken_stream=openai.APIError,
    )


LIBRARIES = {
    "openai": _on_openai(openai_whole, openai_streamed),
    "openai-responses": _on_openai(responses_whole, responses_streamed),
    "openai-agents": _on_openai(agents_whole, agents_streamed),
    "langchain-openai": _on_openai(langchain_whole, langchain_streamed),
    "anthropic": Library(
        whole=anthropic_whole,
        streamed=anthropic_streamed,
        unknown_model=anthropic.NotFoundError,
        too_many=anthropic.RateLimitError,
        broken_stream=anthropic.APIStatusError,
    ),
    "ollama": Library(
        whole=ollama_whole,
        streamed=ollama_streamed,
        unknown_model=ollama.ResponseError,
        too_many=ollama.ResponseError,
        broken_stream=ollama.ResponseError,
    ),
}
