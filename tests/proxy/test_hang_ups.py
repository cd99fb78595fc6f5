"""A client that hangs up frees its slot and stops the engine within half a second, wherever its
request is by then.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest

from pair.bench.echo_engine.settings import EchoSettings
from pair.core.names import Outcome
from tests.support.house import FAST, House, chat, house

AT_ONCE_S = 0.5

SLOW = EchoSettings(prefill_rate_tokens_per_s=1e9, decode_rate_tokens_per_s=20.0)
"""An answer of 200 tokens takes 10 s."""

LONG_PREFILL = replace(SLOW, prefill_rate_tokens_per_s=1.0)
"""A prompt of a few tokens takes many seconds before the first byte."""


async def assert_stopped_at_once(built: House, hung_up_at: float) -> None:
    """The engine's own journal says hung up, and the slot serves the next call."""
    journal = built.engines[0].journal
    await journal.until(lambda: journal.counters.fates["hung_up"] == 1, 5.0)
    assert time.perf_counter() - hung_up_at < AT_ONCE_S
    assert journal.counters.running == 0
    await built.quiet()
    assert built.snapshot().closed[Outcome.CLIENT_LEFT] == 1
    built.assert_books_are_clean()


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("abrupt", [True, False])
async def test_before_the_first_byte(stream: bool, abrupt: bool) -> None:
    async with house(LONG_PREFILL) as built:
        client = await built.raw()
        client.post(chat(tokens=5, stream=stream))
        journal = built.engines[0].journal
        await journal.until(lambda: journal.counters.running == 1, 5.0)
        hung_up_at = time.perf_counter()
        (client.reset if abrupt else client.hang_up)()
        await assert_stopped_at_once(built, hung_up_at)


@pytest.mark.parametrize("abrupt", [True, False])
async def test_in_the_middle_of_a_stream(abrupt: bool) -> None:
    async with house(SLOW) as built:
        client = await built.raw()
        client.post(chat(tokens=200, stream=True))
        await client.until(b"data:")
        await client.until(b"data:")
        hung_up_at = time.perf_counter()
        (client.reset if abrupt else client.hang_up)()
        await assert_stopped_at_once(built, hung_up_at)


async def test_in_the_middle_of_an_answer_that_is_not_streamed() -> None:
    async with house(SLOW) as built:
        client = await built.raw()
        client.post(chat(tokens=200))
        journal = built.engines[0].journal
        await journal.until(lambda: journal.counters.running == 1, 5.0)
        hung_up_at = time.perf_counter()
        client.hang_up()
        await assert_stopped_at_once(built, hung_up_at)


@pytest.mark.parametrize("abrupt", [True, False])
async def test_while_waiting_the_ticket_goes_and_the_engine_never_hears_of_it(abrupt: bool) -> None:
    async with house(SLOW) as built:
        first = await built.raw()
        first.post(chat(tokens=200, stream=True))
        await first.until(b"data:")
        second = await built.raw()
        second.post(chat(tokens=5))
        await built.until(lambda: built.snapshot().waiting == 1)
        hung_up_at = time.perf_counter()
        (second.reset if abrupt else second.hang_up)()
        await built.until(lambda: built.snapshot().waiting == 0)
        assert time.perf_counter() - hung_up_at < AT_ONCE_S
        assert built.engines[0].journal.counters.started == 1
        first.hang_up()
        await built.quiet()
        built.assert_books_are_clean()


async def test_while_uploading_no_ticket_was_ever_opened() -> None:
    async with house(FAST) as built:
        client = await built.raw()
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: t\r\nContent-Length: 1000\r\n\r\n{"
        client.writer.write(head)
        await client.writer.drain()
        reply = await built.send(chat())
        assert reply.status == 200
        client.hang_up()
        await built.quiet()
        assert built.snapshot().opened == 1
        built.assert_books_are_clean()


async def test_the_slot_serves_the_next_in_line() -> None:
    async with house(SLOW) as built:
        first = await built.raw()
        first.post(chat(tokens=200, stream=True))
        await first.until(b"data:")
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(built.send(chat(tokens=2)))
            await built.until(lambda: built.snapshot().waiting == 1)
            first.hang_up()
        reply = waiting.result()
        assert reply.status == 200
        await built.quiet()
        built.assert_books_are_clean()
