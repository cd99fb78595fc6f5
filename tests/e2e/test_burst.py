"""A burst in one tick: a hundred tickets opened within one turn of the loop, before any of them can
have connected anywhere. What it came to is asked of the engines and not of our own counters.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from pair.bench.echo_engine.settings import EchoSettings
from pair.core.events import Opened, Usage
from pair.core.names import ModelName, Outcome
from pair.proxy.dispatcher import Hold
from tests.support.house import House, chat, house

CALLS = 100
TOKENS = 8

ENGINE = EchoSettings(prefill_rate_tokens_per_s=1e9, decode_rate_tokens_per_s=80.0, slots=1)
"""A call takes 0.1 s: long beside what happens between two of them, so that equal nodes stay in
step for all 25."""


async def serve(built: House, hold: Hold) -> None:
    """One ticket on its way without the relay: the engine is asked as soon as there is a lease."""
    dispatch = await hold.lease()
    (url,) = built.proxy.scheduler.membership.nodes[dispatch.replica.node].addresses
    async with built.client.post(f"{url}/v1/chat/completions", json=chat(tokens=TOKENS)) as answer:
        await answer.read()
        assert answer.status == 200
    hold.close(Outcome.ANSWERED, Usage(), "")


async def test_a_hundred_tickets_in_one_turn_of_the_loop_spread_evenly() -> None:
    async with house(*[ENGINE] * 4) as built:
        dispatcher = built.proxy.dispatcher
        holds = [
            dispatcher.open(lambda ticket: Opened(ticket, ModelName("echo"))) for _ in range(CALLS)
        ]
        leased = Counter(
            ticket.lease.replica.id.node
            for ticket in dispatcher.scheduler.desk.tickets.values()
            if ticket.lease is not None
        )
        assert sorted(leased.values()) == [1, 1, 1, 1], "I2: reserved at the decision"
        async with asyncio.TaskGroup() as tasks:
            for hold in holds:
                tasks.create_task(serve(built, hold))
        counters = [engine.journal.counters for engine in built.engines]
        assert [each.max_running for each in counters] == [1] * 4, "I2, at the engines"
        done = [each.fates["done"] for each in counters]
        assert sum(done) == CALLS
        assert max(done) - min(done) <= 1, f"the burst was spread as {done}"
        built.assert_books_are_clean()
