"""The libraries at a real llama.cpp, whose answers no test has thought up: what they return through
`pair` is what they return at the engine.

One slot and no chance in the choice of tokens, so that equal questions have equal answers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Literal

import anthropic
import openai
import pytest
import pytest_asyncio
from pydantic import BaseModel

from tests.clients.both_ways import plain
from tests.clients.libraries import LIBRARIES, Ask
from tests.support.embedded_house import EmbeddedHouse, embedded_house

pytestmark = [pytest.mark.engine, pytest.mark.asyncio(loop_scope="module")]

SPOKEN = [name for name in LIBRARIES if name != "ollama"]
TOKENS = 12


class Verdict(BaseModel):
    """Few words to choose from: a small model never ends a number or a text of its own accord."""

    size: Literal["small", "big"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def built() -> AsyncIterator[EmbeddedHouse]:
    async with embedded_house(1) as running:
        yield running


async def both(built: EmbeddedHouse, call: Callable[[str], Awaitable[Any]]) -> Any:
    """What `call` returns through the proxy, asserted to be what it returns at the engine."""
    (direct,), through = built.engines.values(), built.base_url.removesuffix("/v1")
    # Once for nothing: both then find the same prompt in the engine's cache.
    await call(direct)
    expected = plain(await call(direct))
    assert plain(await call(through)) == expected
    return expected


def client(url: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


@pytest.mark.parametrize("name", SPOKEN)
async def test_every_library_gets_the_same_text_whole_and_streamed(
    built: EmbeddedHouse, name: str
) -> None:
    library = LIBRARIES[name]

    async def call(url: str) -> Any:
        ask = Ask(url, model=built.model, tokens=TOKENS)
        return [await library.whole(ask), [piece async for piece in library.streamed(ask)]]

    whole, pieces = await both(built, call)
    assert whole
    # llama.cpp itself trims what it does not stream.
    assert "".join(pieces).strip() == whole.strip()
    assert len(pieces) > 1


async def test_structured_output(built: EmbeddedHouse) -> None:
    async def call(url: str) -> Any:
        async with client(url) as ai:
            answer = await ai.chat.completions.parse(
                model=built.model,
                messages=[{"role": "user", "content": "Is Bern big?"}],
                response_format=Verdict,
                temperature=0.0,
                max_tokens=64,
            )
            assert isinstance(answer.choices[0].message.parsed, Verdict)
            return answer

    assert (await both(built, call))["choices"][0]["finish_reason"] == "stop"


async def test_a_question_with_tools(built: EmbeddedHouse) -> None:
    """This model's template knows no tools, so llama.cpp leaves them out: it answers in words."""
    tool: Any = {
        "type": "function",
        "function": {"name": "judge", "parameters": Verdict.model_json_schema()},
    }

    async def call(url: str) -> Any:
        async with client(url) as ai:
            return await ai.chat.completions.create(
                model=built.model,
                messages=[{"role": "user", "content": "Is Bern big?"}],
                tools=[tool],
                tool_choice="auto",
                temperature=0.0,
                max_tokens=TOKENS,
            )

    assert (await both(built, call))["choices"][0]["message"]["content"]


async def test_tokens_are_counted(built: EmbeddedHouse) -> None:
    async def call(url: str) -> Any:
        async with anthropic.AsyncAnthropic(base_url=url, api_key="none", max_retries=0) as ai:
            return await ai.messages.count_tokens(
                model=built.model, messages=[{"role": "user", "content": "Hello"}]
            )

    assert (await both(built, call))["input_tokens"] > 0


async def test_what_the_engine_cannot_do_is_said_in_its_own_words(built: EmbeddedHouse) -> None:
    async def call(url: str) -> Any:
        async with client(url) as ai:
            with pytest.raises(openai.APIStatusError) as caught:
                await ai.embeddings.create(model=built.model, input="one")
            return [caught.value.status_code, caught.value.body]

    status, body = await both(built, call)
    assert (status, body["type"]) == (501, "not_supported_error")
