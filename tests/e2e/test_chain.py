"""Proxy, node, engine, each over real sockets: a hang-up passes through both, and the books of both
add up.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter

from pair.core.names import Outcome
from tests.e2e.test_storm import ENGINE, IMPATIENT, one_call, trouble
from tests.support.chain import chain

STORM_CALLS = 300
STORM_AT_ONCE = 48


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
