"""All clients of a run, each a task that makes one call after the other."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter

from tests.chaos.library_client import LibraryClient
from tests.chaos.plan import CLIENTS, LIBRARY_CLIENTS, CallPlan, draw_calls
from tests.chaos.raw_client import RawClient
from tests.chaos.record import Record, Seen

PATIENCE_S = 120.0
"""Longer than any outage that the plan holds; a call that takes longer hangs."""


class Clients:
    """The clients.

    Attributes:
        records: every call that has begun.
    """

    def __init__(self, address: tuple[str, int], seed: int) -> None:
        self._address = address
        self._seed = seed
        self.records: list[Record] = []
        self.open = 0

    def seen(self) -> Counter[Seen]:
        """Ended calls by what their client saw."""
        return Counter(record.seen for record in self.records if record.ended_s)

    async def run(self, stop: asyncio.Event) -> None:
        """Call until `stop`, then let the calls that are under way end."""
        async with asyncio.TaskGroup() as group:
            for number in range(CLIENTS):
                group.create_task(self._run(number, stop))

    async def _run(self, number: int, stop: asyncio.Event) -> None:
        if number < LIBRARY_CLIENTS:
            library = LibraryClient(self._address)
            await self._call_on(library, number, stop)
            await library.close()
        else:
            raw = RawClient(self._address)
            await self._call_on(raw, number, stop)
            raw.close()

    async def _call_on(
        self, client: RawClient | LibraryClient, number: int, stop: asyncio.Event
    ) -> None:
        for plan in itertools.takewhile(
            lambda _: not stop.is_set(), draw_calls(self._seed, number)
        ):
            try:
                async with asyncio.timeout(plan.think_s):
                    await stop.wait()
                    return
            except TimeoutError:
                await self._call(client, plan)

    async def _call(self, client: RawClient | LibraryClient, plan: CallPlan) -> None:
        record = Record(plan, began_s=time.monotonic())
        self.records.append(record)
        self.open += 1
        try:
            async with asyncio.timeout(PATIENCE_S):
                await client.call(plan, record)
        except TimeoutError:
            record.seen = Seen.HUNG
        self.open -= 1
        record.ended_s = time.monotonic()
