from __future__ import annotations

import asyncio
import random

import pytest

from pair.bench.echo_engine.prefix_cache import PrefixCache, Slot
from pair.bench.echo_engine.slots import QueueFull, Slots
from tests.bench.echo_engine.calling import LIMIT_S


async def one_turn() -> None:
    """Let everything else that is ready run once."""
    await asyncio.sleep(0)


class Watch:
    """Slots with what they told about their load."""

    def __init__(self, count: int, queue_limit: int = 100) -> None:
        self.loads: list[tuple[int, int]] = []
        self.changed = asyncio.Event()
        cache = PrefixCache(similarity=0.1, shelf_limit_tokens=0)
        self.slots = Slots(count, queue_limit, cache, self._load_changed)

    def _load_changed(self, busy: int, waiting: int) -> None:
        self.loads.append((busy, waiting))
        self.changed.set()

    async def until(self, load: tuple[int, int]) -> None:
        async with asyncio.timeout(LIMIT_S):
            while not self.loads or self.loads[-1] != load:
                self.changed.clear()
                await self.changed.wait()


async def test_as_many_as_there_are_slots_work_and_the_others_wait_in_order() -> None:
    watch, served = Watch(count=2), []

    async def call(number: int) -> None:
        slot = await watch.slots.take("m", "prompt")
        served.append(number)
        if number < 2:
            await release.wait()
        watch.slots.free(slot)

    release = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for number in range(5):
            group.create_task(call(number))
        await watch.until((2, 3))
        assert served == [0, 1]
        release.set()
    assert served == [0, 1, 2, 3, 4]
    assert watch.loads[-1] == (0, 0)
    assert max(busy for busy, _ in watch.loads) == 2


async def test_a_full_queue_refuses_at_once() -> None:
    watch = Watch(count=1, queue_limit=0)
    slot = await watch.slots.take("m", "prompt")
    with pytest.raises(QueueFull):
        await watch.slots.take("m", "prompt")
    watch.slots.free(slot)
    assert await watch.slots.take("m", "prompt") is slot


async def test_who_leaves_the_queue_is_passed_over() -> None:
    watch = Watch(count=1)
    slot = await watch.slots.take("m", "prompt")
    async with asyncio.TaskGroup() as group:
        leaving = group.create_task(watch.slots.take("m", "prompt"))
        staying = group.create_task(watch.slots.take("m", "prompt"))
        await watch.until((1, 2))
        leaving.cancel()
        # Freed before the cancelled one has had a turn of the loop to notice.
        watch.slots.free(slot)
    assert leaving.cancelled()
    assert staying.result() is slot
    assert watch.loads[-1] == (1, 0)


async def test_a_slot_granted_to_one_who_leaves_in_the_same_turn_is_not_lost() -> None:
    watch = Watch(count=1)
    slot = await watch.slots.take("m", "prompt")
    async with asyncio.TaskGroup() as group:
        leaving = group.create_task(watch.slots.take("m", "prompt"))
        await watch.until((1, 1))
        watch.slots.free(slot)
        leaving.cancel()
    assert leaving.cancelled()
    assert watch.loads[-1] == (0, 0)
    assert not slot.busy


async def test_no_slot_is_lost_or_held_twice_whatever_the_order_of_events() -> None:
    chance = random.Random(7)
    watch, holders = Watch(count=3, queue_limit=200), set[Slot]()

    async def call(turns: int) -> None:
        slot = await watch.slots.take("m", "prompt")
        assert slot not in holders
        holders.add(slot)
        try:
            for _ in range(turns):
                await one_turn()
        finally:
            holders.discard(slot)
            watch.slots.free(slot)

    async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
        calls = [group.create_task(call(chance.randrange(4))) for _ in range(200)]
        while not all(task.done() for task in calls):
            if chance.random() < 0.5:
                chance.choice(calls).cancel()
            await one_turn()
    assert holders == set()
    assert watch.loads[-1] == (0, 0)
    assert max(busy for busy, _ in watch.loads) == 3
