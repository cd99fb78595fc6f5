"""Bytes that may be held over all clients: first come, first served, nothing lost."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pair.relay.body_budget import BodyBudget
from tests.relay.wires import within


async def test_what_is_free_is_had_at_once_and_the_rest_waits_in_order() -> None:
    budget = BodyBudget(10)
    got: list[str] = []

    async def hold(name: str, amount_bytes: int) -> None:
        await budget.reserve(amount_bytes)
        got.append(name)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(hold("a", 6))
        tasks.create_task(hold("b", 6))
        tasks.create_task(hold("c", 1))  # would fit, but may not overtake b
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert got == ["a"]
        budget.give_back(6)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert got == ["a", "b", "c"]
    assert budget.free_bytes == 3


async def test_more_than_there_is_is_let_in_alone() -> None:
    budget = BodyBudget(10)
    assert await budget.reserve(99) == 10
    with pytest.raises(TimeoutError):
        await within(budget.reserve(1), 0.01)
    budget.give_back(10)
    assert await budget.reserve(1) == 1


@pytest.mark.parametrize("granted", [True, False])
async def test_a_cancelled_wait_takes_nothing(granted: bool) -> None:
    budget = BodyBudget(10)
    await budget.reserve(10)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(budget.reserve(10))
        behind = tasks.create_task(budget.reserve(3))
        await asyncio.sleep(0)
        if granted:
            budget.give_back(10)  # its turn has come, but it is cancelled before it can run
        waiting.cancel()
        await asyncio.sleep(0)
        if not granted:
            budget.give_back(10)
        assert await within(behind) == 3
    assert budget.free_bytes == 7


@given(
    amounts=st.lists(st.integers(0, 15), max_size=12),
    cancelled=st.sets(st.integers(0, 11)),
)
@settings(deadline=None)
def test_all_of_it_is_free_in_the_end(amounts: list[int], cancelled: set[int]) -> None:
    async def run() -> int:
        budget = BodyBudget(10)

        async def hold(amount_bytes: int) -> None:
            taken = await budget.reserve(amount_bytes)
            try:
                assert budget.free_bytes >= 0
                await asyncio.sleep(0)
            finally:
                budget.give_back(taken)

        async with asyncio.TaskGroup() as tasks:
            holding = [tasks.create_task(hold(amount)) for amount in amounts]
            await asyncio.sleep(0)
            for place in cancelled & set(range(len(holding))):
                holding[place].cancel()
        return budget.free_bytes

    assert asyncio.run(run()) == 10
