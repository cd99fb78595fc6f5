"""Proxy, node, engine, each over real sockets: a hang-up passes through both, and the books of both
add up.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from dataclasses import replace

import pytest

from pair.bench.echo_engine.settings import EchoSettings
from pair.core.names import Outcome
from tests.e2e.test_storm import ENGINE, IMPATIENT, one_call, trouble
from tests.support.chain import Chain, chain
from tests.support.house import RawClient, chat

AT_ONCE_S = 0.5

SLOW = EchoSettings(prefill_rate_tokens_per_s=1e9, decode_rate_tokens_per_s=20.0)
"""An answer of 200 tokens takes 10 s."""

LONG_PREFILL = replace(SLOW, prefill_rate_tokens_per_s=1.0)
"""A prompt of a few tokens takes many seconds before the first byte."""

STORM_CALLS = 300
STORM_AT_ONCE = 48


async def hang_up(built: Chain, client: RawClient, *, abrupt: bool) -> None:
    """Let the client go; the engine has stopped and both slots are free within half a second."""
    journal = built.house.engines[0].journal
    assert (built.admitted(), built.leased()) == (1, 1)
    hung_up_at = time.perf_counter()
    (client.reset if abrupt else client.hang_up)()
    await journal.until(lambda: journal.counters.fates["hung_up"] == 1, 5.0)
    await built.house.until(lambda: built.admitted() == 0 and built.leased() == 0)
    assert time.perf_counter() - hung_up_at < AT_ONCE_S
    assert journal.counters.running == 0
    await built.house.quiet()
    assert built.house.snapshot().closed[Outcome.CLIENT_LEFT] == 1
    built.assert_books_are_clean()


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("abrupt", [True, False])
async def test_a_hang_up_before_the_first_byte_stops_the_engine(stream: bool, abrupt: bool) -> None:
    async with chain(LONG_PREFILL) as built:
        client = await built.house.raw()
        client.post(chat(tokens=5, stream=stream))
        journal = built.house.engines[0].journal
        await journal.until(lambda: journal.counters.running == 1, 5.0)
        await hang_up(built, client, abrupt=abrupt)


@pytest.mark.parametrize("abrupt", [True, False])
async def test_a_hang_up_in_the_middle_of_a_stream_stops_the_engine(abrupt: bool) -> None:
    async with chain(SLOW) as built:
        client = await built.house.raw()
        client.post(chat(tokens=200, stream=True))
        await client.until(b"data:")
        await client.until(b"data:")
        await hang_up(built, client, abrupt=abrupt)


@pytest.mark.parametrize("abrupt", [True, False])
async def test_a_hang_up_while_an_answer_is_made_that_is_not_streamed(abrupt: bool) -> None:
    async with chain(SLOW) as built:
        client = await built.house.raw()
        client.post(chat(tokens=200))
        journal = built.house.engines[0].journal
        await journal.until(lambda: journal.counters.running == 1, 5.0)
        await hang_up(built, client, abrupt=abrupt)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("abrupt", [True, False])
async def test_a_hang_up_while_waiting_reaches_no_node(stream: bool, abrupt: bool) -> None:
    async with chain(SLOW) as built:
        first = await built.house.raw()
        first.post(chat(tokens=200, stream=True))
        await first.until(b"data:")
        second = await built.house.raw()
        second.post(chat(tokens=5, stream=stream))
        await built.house.until(lambda: built.house.snapshot().waiting == 1)
        hung_up_at = time.perf_counter()
        (second.reset if abrupt else second.hang_up)()
        await built.house.until(lambda: built.house.snapshot().waiting == 0)
        assert time.perf_counter() - hung_up_at < AT_ONCE_S
        assert built.house.engines[0].journal.counters.started == 1
        await hang_up_of_the_first(built, first)


async def hang_up_of_the_first(built: Chain, client: RawClient) -> None:
    """The one that had the slot; two clients have left then."""
    client.hang_up()
    await built.house.quiet()
    await built.house.until(lambda: built.admitted() == 0)
    assert built.house.snapshot().closed[Outcome.CLIENT_LEFT] == 2
    built.assert_books_are_clean()


async def test_the_slot_that_a_hang_up_frees_serves_the_next_in_line() -> None:
    async with chain(SLOW) as built:
        first = await built.house.raw()
        first.post(chat(tokens=200, stream=True))
        await first.until(b"data:")
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(built.house.send(chat(tokens=2)))
            await built.house.until(lambda: built.house.snapshot().waiting == 1)
            hung_up_at = time.perf_counter()
            first.hang_up()
            journal = built.house.engines[0].journal
            await journal.until(lambda: journal.counters.started == 2, 5.0)
            assert time.perf_counter() - hung_up_at < AT_ONCE_S
        assert waiting.result().status == 200
        await built.house.quiet()
        built.assert_books_are_clean()


async def test_a_storm_through_nodes_leaves_clean_books_at_both() -> None:
    chance = random.Random(20261130)
    async with chain(*[ENGINE] * 4, settings=IMPATIENT) as built:
        engines = built.house.engines
        seen: Counter[str] = Counter()
        gate, over = asyncio.Semaphore(STORM_AT_ONCE), asyncio.Event()

        async def call(seed: int) -> None:
            async with gate:
                seen[await one_call(built.house, random.Random(seed))] += 1
            assert all(0 <= node.admission.total() <= 2 for node in built.nodes), "I2, at the node"
            for node in built.house.snapshot().nodes:
                assert all(0 <= replica.in_flight <= 2 for replica in node.replicas), "I2"

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(trouble(built.house, chance, over))
            async with asyncio.TaskGroup() as calls:
                for number in range(STORM_CALLS):
                    calls.create_task(call(chance.getrandbits(32)))
                    if number == STORM_CALLS // 3:
                        calls.create_task(engines[3].crash())
            over.set()
        await built.house.quiet()
        await built.house.until(lambda: built.admitted() == 0)
        built.assert_books_are_clean()
        assert seen.total() == STORM_CALLS
        assert seen["answered"] > STORM_CALLS // 3
        snapshot = built.house.snapshot()
        assert STORM_CALLS - seen["left"] <= snapshot.opened <= STORM_CALLS
        assert snapshot.closed[Outcome.ANSWERED] >= seen["answered"]
        for engine in engines[:3]:
            counters = engine.journal.counters
            await engine.journal.until(lambda c=counters: c.running == 0, 5.0)  # type: ignore[misc]
            assert counters.max_running <= 2, "I2, at the engine"
