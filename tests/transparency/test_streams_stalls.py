"""Item 5: an engine that falls silent in the middle is given up, nobody else is."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import cast

import pytest

from pair.bench.echo_engine.faults import Piece, Script, header_text
from pair.core.names import Outcome
from pair.settings import Settings, StreamSettings
from tests.proxy.raw_engine import page
from tests.support.house import FAST, chat, house
from tests.transparency.streams import (
    EVENTS,
    asking,
    chunk,
    dechunked,
    error_in,
    fates,
    request,
    scripted,
    stream_head,
)

LIMIT_S = 0.3
SHORT = Settings(streams=StreamSettings(stall_limit_s=LIMIT_S))


@pytest.mark.parametrize("through_nodes", [False, True], ids=["direct", "node"])
@pytest.mark.parametrize("dialect", ["openai", "anthropic", "ollama"])
async def test_05_a_stream_that_stalls_ends_with_an_error_event(
    dialect: str, through_nodes: bool
) -> None:
    event, last = EVENTS[dialect]
    async with (
        scripted(through_nodes=through_nodes, settings=SHORT) as (built, [engine]),
        asking(built, request(dialect)) as wire,
    ):
        call = await engine.next_call()
        await call.send(stream_head(dialect), chunk(event))
        await wire.until(b"\r\n\r\n")
        body, whole = dechunked(await wire.rest())
        assert not whole
        assert body.startswith(event)
        assert last not in body
        error = error_in(dialect, body)
        assert "silent" in (error if dialect == "ollama" else error["message"])
        await call.until_hung_up()
        await built.quiet()
        assert fates(built) == {Outcome.FAILED: 1}
        [node] = built.snapshot().nodes
        [replica] = node.replicas
        assert replica.set_aside_s > 0
        assert replica.unproven


@pytest.mark.parametrize("through_nodes", [False, True], ids=["direct", "node"])
async def test_05_a_channel_of_news_opens_before_its_first_event_and_may_be_silent(
    through_nodes: bool,
) -> None:
    """Such as llama.cpp's `/models/sse`: nothing may be due for hours. (Posted here, since of what
    is got the scripted engine has pages.)
    """
    ask = b"POST /v1/batches HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"
    async with (
        scripted(through_nodes=through_nodes, settings=SHORT) as (built, [engine]),
        asking(built, ask) as wire,
    ):
        call = await engine.next_call()
        await call.send(stream_head("openai"))
        await wire.until(b"\r\n\r\n")
        await call.send(chunk(b": still here\n\n"))
        await wire.until(chunk(b": still here\n\n"))
        loop = asyncio.get_running_loop()
        over_at = loop.time() + 3 * LIMIT_S
        await built.until(lambda: loop.time() > over_at)
        await call.send(chunk(b"data: 1\n\n"), chunk(b""))
        await wire.until(chunk(b"data: 1\n\n") + chunk(b""))
        await built.quiet()
        assert fates(built) == {Outcome.ANSWERED: 1}


async def test_05_a_body_that_is_not_streamed_and_stalls_is_cut() -> None:
    async with (
        scripted(settings=SHORT) as (built, [engine]),
        asking(built, request("openai", stream=False)) as wire,
    ):
        call = await engine.next_call()
        await call.send(page(b"0123456789")[:-3])
        answer = await wire.answer()
        assert not answer.whole
        await built.quiet()
        assert fates(built) == {Outcome.FAILED: 1}


async def test_05_nothing_ends_an_engine_that_has_not_begun_or_only_goes_slowly() -> None:
    """Before the first content byte it may be silent for any time, and after it for the limit."""
    event, last = EVENTS["openai"]
    at_s = [3 * LIMIT_S, 3 * LIMIT_S + 0.1]
    slow = Script(pieces=tuple(Piece(at, event) for at in at_s))
    waits = Script(pieces=(Piece(0.0, b": ping\n\n"), Piece(at_s[1], event + last)))
    async with house(FAST, FAST, settings=SHORT) as built:
        for script in (slow, waits):
            reply = await built.send(chat(stream=True), x_echo_fault=header_text(script))
            assert reply.status == 200
            assert reply.body == b"".join(piece.content for piece in script.pieces)
        await built.quiet()
        assert fates(built) == {Outcome.ANSWERED: 2}


async def test_05_a_client_that_does_not_read_is_not_a_stall() -> None:
    large = b"data: " + b"x" * (24 * 1024 * 1024) + b"\n\n"
    patient = replace(FAST, slots=2)
    async with house(patient, settings=SHORT) as built:
        slow = await built.raw()
        connection = cast("asyncio.Transport", slow.writer.transport)
        connection.pause_reading()
        built.engines[0].faults.set(Script(pieces=(Piece(0.0, large),)))
        slow.post(chat(stream=True))
        await built.until(lambda: built.snapshot().in_flight == 1)
        # How long the limit is, by a stall that began after it.
        for _ in range(2):
            stalled = await built.raw()
            stalled.post(chat(stream=True, tokens=50), X_Echo_Fault="stall,after_events=2")
            assert b"silent" in await stalled.rest()
        assert fates(built) == {Outcome.FAILED: 2}
        connection.resume_reading()
        await slow.until(b"\r\n\r\n")
        await built.quiet()
        assert fates(built) == {Outcome.FAILED: 2, Outcome.ANSWERED: 1}
