"""Items 1 and 2: a stream passes as it comes, byte for byte and at once."""

from __future__ import annotations

import asyncio
import hashlib
import json
import statistics
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp
import pytest

from pair.bench.echo_engine.faults import Piece, Script
from tests.support.chain import chain
from tests.support.house import FAST, House, chat, house
from tests.transparency.streams import asking, chunk, request, scripted, stream_head

EMOJI = 'data: {"choices":[{"delta":{"content":"é👩\u200d👩\u200d👧🏽"}}]}\n\n'.encode()
STREAMS: dict[str, Sequence[bytes]] = {
    "an emoji cut at every byte": [EMOJI[at : at + 1] for at in range(len(EMOJI))],
    "a line of 5 MiB": [b"data: " + b"x" * (5 * 1024 * 1024) + b"\n\n", b"data: [DONE]\n\n"],
    "comments": [b": ping\n\n", b":\n", b": half", b" a comment\n\ndata: 1\n\n", b": after\n\n"],
    "other lines": [b"event: message\nid: 7\nretry: 3000\ndata: 1\n\n", b"id\nevent:\n\n"],
    "no last line break": [b"data: 1\n\n", b"data: [DONE]"],
    "no space": [b"data:1\n\n", b"data:[DONE]\n\n"],
    "CRLF": [b"event: x\r\ndata: 1\r", b"\ndata: 2\r\n\r\n", b"data: [DONE]\r\n\r\n"],
    "CR": [b": x\rdata: 1\r\r", b"data: [DONE]\r\r"],
    "nothing but comments": [b": one\n\n", b": two\n\n"],
    "a byte order mark": [b"\xef\xbb\xbfdata: 1\n\n"],
    "no text": [bytes(range(256)), b"\x00\xff\n\n"],
}

BOUND_S = 10.0
PACED_S = 0.02
ROUNDS = 15
FIRST_TOKEN_LIMIT_S = 0.02


@asynccontextmanager
async def way(*, through_node: bool) -> AsyncIterator[House]:
    """To one echo engine."""
    async with AsyncExitStack() as stack:
        if through_node:
            yield (await stack.enter_async_context(chain(FAST))).house
        else:
            yield await stack.enter_async_context(house(FAST))


@pytest.mark.parametrize("through_node", [False, True], ids=["direct", "node"])
async def test_01_what_the_client_gets_is_what_the_engine_sent(through_node: bool) -> None:
    async with way(through_node=through_node) as built:
        journal = built.engines[0].journal
        for name, pieces in STREAMS.items():
            for framing in ("chunked", "close"):
                script = Script(pieces=tuple(Piece(0.0, p) for p in pieces), framing=framing)
                built.engines[0].faults.set(script)
                async with built.client.post("/v1/chat/completions", json=chat()) as answer:
                    received = await answer.read()
                sent = b"".join(pieces)
                digest = hashlib.sha256(received).hexdigest()
                assert digest == hashlib.sha256(sent).hexdigest(), name
                await journal.until(lambda: journal.entries[-1].fate != "open", BOUND_S)
                assert digest == journal.entries[-1].body_sha256, name
        await built.quiet()
        built.assert_books_are_clean()


async def test_02_nothing_is_held_back_for_what_comes_next() -> None:
    """Each piece is here while the engine has not said the next one, however small it is."""
    pieces = [b"data: 1", b"\n", b"\n", b":", b" c\n\nd", b"ata", b": 2\n\n", "ä".encode()[:1]]
    for through_nodes in (False, True):
        async with (
            scripted(through_nodes=through_nodes) as (built, [engine]),
            asking(built, request("openai")) as wire,
        ):
            call = await engine.next_call()
            await call.send(stream_head("openai"))
            for piece in pieces:
                await call.send(chunk(piece))
                await wire.until(chunk(piece))
            await call.send(chunk(b""))
            await wire.until(chunk(b""))


async def test_02_event_streams_ask_not_to_be_buffered_unless_the_engine_said_how() -> None:
    async with house(FAST) as built:

        async def heads(kind: str, *own: tuple[str, str]) -> tuple[list[str], list[str]]:
            built.engines[0].faults.set(
                Script(pieces=(Piece(0.0, b"data: 1\n\n"),), content_type=kind, headers=own)
            )
            async with built.client.post("/v1/chat/completions", json=chat()) as answer:
                names = ("cache-control", "x-accel-buffering")
                assert "content-length" not in answer.headers
                cache, accel = (answer.headers.getall(name, []) for name in names)
                return cache, accel

        ours = "no-cache, no-transform"
        assert await heads("text/event-stream; charset=utf-8") == ([ours], ["no"])
        assert await heads("Text/Event-Stream", ("CACHE-control", "no-store")) == (
            ["no-store"],
            ["no"],
        )
        assert await heads("text/event-stream", ("x-accel-buffering", "yes")) == ([ours], ["yes"])
        assert await heads("application/json") == ([], [])


async def first_token_s(client: aiohttp.ClientSession, base: str) -> float:
    """From the sending of a request to its first token."""
    loop = asyncio.get_running_loop()
    began_at = loop.time()
    async with client.post(f"{base}/v1/chat/completions", json=chat(stream=True)) as answer:
        await answer.content.readany()
        took_s = loop.time() - began_at
        await answer.read()
    return took_s


async def test_02_the_first_token_is_as_soon_as_directly() -> None:
    """Side by side on a noisy machine: medians of turns taken one by one."""
    event = b"data: " + json.dumps({"choices": [{"delta": {"content": "x"}}]}).encode() + b"\n\n"
    paced = Script(pieces=tuple(Piece(PACED_S * (1 + at), event) for at in range(3)))
    async with house(FAST) as built, aiohttp.ClientSession() as client:
        built.engines[0].faults.set(paced)
        took_s: dict[str, list[float]] = {built.engines[0].url: [], built.base_url: []}
        for _ in range(ROUNDS):
            for base, each in took_s.items():
                each.append(await first_token_s(client, base))
        direct_s, through_s = (statistics.median(each) for each in took_s.values())
        assert direct_s >= PACED_S
        assert through_s - direct_s < FIRST_TOKEN_LIMIT_S
