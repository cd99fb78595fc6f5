"""The `ollama` library at an engine of Ollama's kind, streamed (its engines' default) and not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from ollama import AsyncClient, Client

from pair.bench.echo_engine.settings import EchoModel
from tests.clients.both_ways import both, gathered
from tests.support.house import FAST, House, house

OLLAMA = replace(FAST, persona="ollama", models=(EchoModel("echo:1b"),))
MESSAGES = [{"role": "user", "content": "Grüezi, 世界 😀"}]


@asynccontextmanager
async def client(url: str) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(host=url) as opened:
        yield opened


def one() -> Any:
    return house(OLLAMA)


async def test_chat_whole_and_streamed() -> None:
    async def call(url: str) -> Any:
        async with client(url) as ai:
            whole = await ai.chat("echo:1b", MESSAGES, options={"num_predict": 9})
            stream = await ai.chat("echo:1b", MESSAGES, options={"num_predict": 9}, stream=True)
            return [whole, await gathered(stream)]

    async with one() as built:
        whole, lines = await both(built, call, tickets=2)
    assert whole["message"]["content"].startswith("Grüezi, 世界 😀")
    assert "".join(line["message"]["content"] for line in lines) == whole["message"]["content"]
    assert (lines[-1]["done"], lines[-1]["eval_count"]) == (True, 9)


async def test_generate_whole_and_streamed() -> None:
    async def call(url: str) -> Any:
        async with client(url) as ai:
            whole = await ai.generate("echo:1b", "once upon", system="Be brief.")
            stream = await ai.generate("echo:1b", "once upon", system="Be brief.", stream=True)
            return [whole, await gathered(stream)]

    async with one() as built:
        whole, lines = await both(built, call, tickets=2)
    assert whole["response"].startswith("once upon")
    assert "".join(line["response"] for line in lines) == whole["response"]


async def test_the_sync_client() -> None:
    def use(url: str) -> list[Any]:
        with Client(host=url) as ai:
            whole = ai.chat("echo:1b", MESSAGES)
            return [whole, list(ai.chat("echo:1b", MESSAGES, stream=True))]

    async with one() as built:
        whole, lines = await both(built, lambda url: asyncio.to_thread(use, url), tickets=2)
    assert "".join(line["message"]["content"] for line in lines) == whole["message"]["content"]


async def test_embeddings() -> None:
    async def call(url: str) -> Any:
        async with client(url) as ai:
            return await ai.embed("echo:1b", ["one", "two"])

    async with one() as built:
        answer = await both(built, call)
    assert len(answer["embeddings"]) == 2


async def test_what_a_model_is() -> None:
    async def call(url: str) -> Any:
        async with client(url) as ai:
            return await ai.show("echo:1b")

    async with one() as built:
        shown = await both(built, call)
    assert shown["capabilities"] == ["completion", "tools", "embedding"]


async def test_what_is_in_memory_is_the_houses() -> None:
    other = replace(OLLAMA, models=(EchoModel("other:1b"),))
    async with house(OLLAMA, other) as built, client(built.base_url) as ai:
        loaded = await ai.ps()
    assert sorted(model.model or "" for model in loaded.models) == ["echo:1b", "other:1b"]


async def test_the_list_is_the_houses() -> None:
    other = replace(FAST, models=(EchoModel("gguf"),))
    async with house(OLLAMA, other) as built, client(built.base_url) as ai:
        listed = await ai.list()
        assert [model.model for model in listed.models] == ["echo:1b", "gguf"]


async def test_a_stream_that_the_user_leaves_frees_the_slot() -> None:
    slow = replace(OLLAMA, decode_rate_tokens_per_s=100.0, answer_tokens=10_000)
    async with house(slow) as built:
        async with client(built.base_url) as ai:
            stream = await ai.generate("echo:1b", "once upon", stream=True)
            await anext(aiter(stream))
        await left(built)


async def left(built: House) -> None:
    """Wait until the engine has noticed that its client has gone, and the books are clean."""
    journal = built.engines[0].journal
    await journal.until(lambda: journal.counters.fates["hung_up"] == 1, 5.0)
    await built.quiet()
    built.assert_books_are_clean()
