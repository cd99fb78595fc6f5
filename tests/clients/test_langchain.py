"""`langchain-openai`: a chat model invoked, streamed, in a batch, with tools, with a schema."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from openai import DefaultAsyncHttpxClient
from pydantic import BaseModel, SecretStr

from tests.clients.both_ways import both, gathered
from tests.support.house import FAST, house

MESSAGES = [SystemMessage("Be brief."), HumanMessage("Grüezi, 世界 😀")]
PLACE = '{"city":"Berne"}'


class Place(BaseModel):
    """A place."""

    city: str


@tool
def weather(echo: str) -> str:
    """The weather of a place."""
    return f"sunny in {echo}"


@asynccontextmanager
async def settings(url: str) -> AsyncIterator[dict[str, Any]]:
    """What all models here are made with; left to itself the library never closes a connection."""
    async with DefaultAsyncHttpxClient() as connections:
        yield {
            "base_url": f"{url}/v1",
            "api_key": SecretStr("none"),
            "model": "echo",
            "max_retries": 0,
            "http_async_client": connections,
        }


@asynccontextmanager
async def chat_model(url: str, **more: Any) -> AsyncIterator[ChatOpenAI]:
    async with settings(url) as given:
        yield ChatOpenAI(**given, **more)


async def test_invoke() -> None:
    async def call(url: str) -> Any:
        async with chat_model(url) as model:
            return await model.ainvoke(MESSAGES)

    async with house(FAST) as built:
        answer = await both(built, call)
    assert answer["content"].startswith("Grüezi")
    assert answer["usage_metadata"]["output_tokens"] == FAST.answer_tokens


async def test_stream() -> None:
    async def call(url: str) -> Any:
        async with chat_model(url, stream_usage=True) as model:
            return await gathered(model.astream(MESSAGES))

    async with house(FAST) as built:
        chunks = await both(built, call)
    assert "".join(chunk["content"] for chunk in chunks).startswith("Grüezi")


async def test_a_batch_runs_on_all_nodes() -> None:
    async with house(FAST, FAST) as built:
        async with chat_model(built.base_url) as model:
            answers = await model.abatch([MESSAGES] * 8)
        assert len({answer.content for answer in answers}) == 1
        served = [engine.journal.counters.fates["done"] for engine in built.engines]
        assert sorted(served) == [4, 4]
        await built.quiet()
        built.assert_books_are_clean()


async def test_a_bound_tool_is_called_and_its_result_sent_back() -> None:
    async def call(url: str) -> Any:
        async with chat_model(url) as model:
            asked = await model.bind_tools([weather], tool_choice="any").ainvoke(MESSAGES)
            (wanted,) = asked.tool_calls
            result = await weather.ainvoke(wanted)
            assert isinstance(result, ToolMessage)
            final = await model.bind_tools([weather]).ainvoke([*MESSAGES, asked, result])
            return [asked, final]

    async with house(FAST) as built:
        asked, final = await both(built, call, tickets=2)
    assert asked["tool_calls"][0]["name"] == "weather"
    assert final["content"].startswith("sunny in Grüezi"[: 4 * FAST.answer_tokens])


async def test_structured_output() -> None:
    async def call(url: str) -> Any:
        async with chat_model(url) as model:
            structured = model.with_structured_output(Place, method="json_schema")
            return await structured.ainvoke(PLACE)

    async with house(FAST) as built:
        assert await both(built, call) == {"city": "Berne"}


async def test_embeddings() -> None:
    async def call(url: str) -> Any:
        async with settings(url) as given:
            # Its own check of lengths would download a vocabulary.
            model = OpenAIEmbeddings(**given, check_embedding_ctx_length=False)
            return await model.aembed_documents(["one", "two"])

    async with house(FAST) as built:
        vectors = await both(built, call)
    assert len(vectors) == 2
