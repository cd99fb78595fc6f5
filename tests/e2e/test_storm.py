"""A thousand calls among hang-ups, resets and dying nodes: whatever happens, the books add up.

Seeded, so that a failure runs again. The in-flight counts are watched all the time, not only at the
end.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import replace

import aiohttp

from pair.bench.echo_engine.engine import EchoEngine
from pair.bench.echo_engine.settings import EchoSettings
from pair.core.names import Outcome
from pair.settings import ProbingSettings, RetrySettings, Settings
from tests.support.house import House, RawClient, chat, house

CALLS = 1000
AT_ONCE = 64

ENGINE = EchoSettings(
    prefill_rate_tokens_per_s=1e6, decode_rate_tokens_per_s=500.0, slots=2, answer_tokens=8
)

IMPATIENT = Settings(
    probing=ProbingSettings(
        interval_s=0.2, suspect_interval_s=0.1, limit_s=0.5, lost_interval_s=0.3
    ),
    retry=RetrySettings(pause_s=0.05, pause_limit_s=0.2),
)


async def one_call(built: House, chance: random.Random) -> str:
    """A client of one of several kinds; returns what became of it, as the client saw it."""
    stream = chance.random() < 0.5
    body = chat(tokens=chance.randint(1, 20), stream=stream)
    kind = chance.random()
    if kind < 0.25:
        client = await built.raw()
        client.post(body)
        return await _leave(client, chance)
    try:
        async with built.client.post("/v1/chat/completions", json=body) as answer:
            content = await answer.read()
            if answer.status != 200:
                return f"status {answer.status}"
            return "broken" if stream and b"[DONE]" not in content else "answered"
    except aiohttp.ClientError:
        return "cut"


async def _leave(client: RawClient, chance: random.Random) -> str:
    """Hang up before, at or after the first byte."""
    if chance.random() < 0.5:
        with_head = asyncio.wait_for(client.reader.read(1), 20.0)
        try:
            await with_head
        except ConnectionError:
            return "cut"
    (client.reset if chance.random() < 0.5 else client.hang_up)()
    return "left"


async def trouble(built: House, chance: random.Random, over: asyncio.Event) -> None:
    """Now and then make one node misbehave for a while; node-0 stays sound."""
    faults = ("reset", "cut,after_events=2", "status,status=503", "status,status=500", "garbage")
    while not over.is_set():
        engine = chance.choice(built.engines[1:])
        engine.faults.set(chance.choice(faults))
        await _pause(over, 0.15)
        engine.faults.clear()
        await _pause(over, 0.1)


async def _pause(over: asyncio.Event, limit_s: float) -> None:
    try:
        await asyncio.wait_for(over.wait(), limit_s)
    except TimeoutError:
        return


async def test_a_thousand_calls_in_a_storm_each_have_one_fate() -> None:
    chance = random.Random(20261129)
    async with house(*[ENGINE] * 4, settings=IMPATIENT) as built:
        scheduler = built.proxy.scheduler
        seen: Counter[str] = Counter()
        gate = asyncio.Semaphore(AT_ONCE)
        over = asyncio.Event()

        async def call(seed: int) -> None:
            async with gate:
                seen[await one_call(built, random.Random(seed))] += 1
            for node in scheduler.membership.nodes.values():
                for replica in node.replicas.values():
                    assert 0 <= replica.in_flight <= 2, "I2"

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(trouble(built, chance, over))
            async with asyncio.TaskGroup() as calls:
                for number in range(CALLS):
                    calls.create_task(call(chance.getrandbits(32)))
                    if number == CALLS // 3:
                        calls.create_task(built.engines[3].crash())
            over.set()
        await built.quiet()
        built.assert_books_are_clean()
        assert seen.total() == CALLS
        assert seen["answered"] > CALLS // 3
        snapshot = built.snapshot()
        # Some clients leave before their request is whole; everyone else is on the books.
        assert CALLS - seen["left"] <= snapshot.opened <= CALLS
        assert snapshot.closed[Outcome.ANSWERED] >= seen["answered"]
        for engine in built.engines[:3]:
            counters = engine.journal.counters
            await built.until(lambda c=counters: c.running == 0)  # type: ignore[misc]
            assert engine.journal.counters.max_running <= 2, "I2, at the engine"


async def test_a_node_that_comes_back_under_the_same_address_serves_again() -> None:
    async with house(ENGINE, settings=IMPATIENT) as built:
        assert (await built.send(chat())).status == 200
        (first,) = built.engines
        address = first.url.removeprefix("http://")
        await first.crash()
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(built.send(chat()))
            await built.until(lambda: built.snapshot().waiting == 1)
            async with EchoEngine(replace(ENGINE, listen=address)) as second:
                await built.until(waiting.done)
                assert second.journal.counters.fates["done"] == 1
        assert waiting.result().status == 200
        built.assert_books_are_clean()
