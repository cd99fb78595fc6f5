"""Item 23: whatever happens, in whatever order, no count is ever below zero, all are zero at the
end, and no live count has an expiry.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from functools import partial

from pair.bench.echo_engine.engine import EchoEngine
from pair.bench.echo_engine.journal import Counters
from pair.core.decisions import Decision
from pair.core.events import Event, Opened, Usage
from pair.core.names import ModelName, Outcome
from pair.core.scheduler import Scheduler
from pair.core.snapshot import take_snapshot
from pair.sim.machines import Mishap, fleet, random_incidents
from pair.sim.workload import PlannedCall
from pair.sim.world import World
from tests.core.audit import AuditedScheduler
from tests.core.limits import limits
from tests.core.story import Story, answered, call
from tests.e2e.test_storm import ENGINE, IMPATIENT, one_call, trouble
from tests.support.house import House, house

TWENTY_MINUTES_S = 1200.0
ARRIVALS = 200
STORM_CALLS = 300


def no_count_is_wrong(scheduler: Scheduler, now: float) -> None:
    """None is below zero, and no slot is given twice."""
    shown = take_snapshot(scheduler, now)
    assert shown.in_flight >= 0
    assert shown.waiting >= 0
    for node in shown.nodes:
        for one in node.replicas:
            counts = (one.in_flight, one.draining, one.foreign, one.queue_depth, one.failed)
            assert min(counts) >= 0, f"I2: {node.name}: {counts}"
            assert one.in_flight + one.draining <= one.slots, f"I2: {node.name}"


def watch(built: House) -> None:
    """Look at every count after every event."""
    scheduler = built.proxy.scheduler
    handle = scheduler.handle

    def watched(event: Event, now: float) -> list[Decision]:
        decisions = handle(event, now)
        no_count_is_wrong(scheduler, now)
        return decisions

    scheduler.handle = watched  # type: ignore[method-assign] # only to look on


def passed(counters: Counters, started: int, over: asyncio.Event) -> bool:
    """Whether an engine has started so many, or the storm is over."""
    return counters.started >= started or over.is_set()


async def ends_at_zero(built: House) -> None:
    await built.quiet()
    nodes = built.proxy.scheduler.membership.nodes
    await built.until(
        lambda: not any(one.draining for node in nodes.values() for one in node.replicas.values())
    )
    built.assert_books_are_clean()


def test_23_calls_of_twenty_minutes_among_deaths_and_returns() -> None:
    """Under the audit, which compares every count after every event; in virtual time."""
    chance = random.Random(23)
    machines = fleet(
        (1.0, 1.0, 2.0), slots=2, prefill_rate_tokens_per_s=1000.0, decode_rate_tokens_per_s=10.0
    )
    calls = [
        PlannedCall(
            at_s=chance.uniform(0.0, TWENTY_MINUTES_S),
            prompt_tokens=1000,
            output_tokens=int(10 * TWENTY_MINUTES_S),
            leaves_after_s=chance.choice([None, None, chance.uniform(0.0, TWENTY_MINUTES_S)]),
        )
        for _ in range(20)
    ]
    calls.sort(key=lambda planned: planned.at_s)
    incidents = random_incidents(machines, 10, 4 * TWENTY_MINUTES_S, chance)
    assert {incident.mishap for incident in incidents} >= {Mishap.DIES, Mishap.RETURNS}
    scheduler = AuditedScheduler(limits(), log=False)
    world = World(scheduler, machines, calls, incidents)
    for _ in world.run():
        pass
    shown = take_snapshot(scheduler, world.now)
    assert (shown.in_flight, shown.waiting) == (0, 0)
    assert sum(shown.closed.values()) == shown.opened == len(calls)
    assert shown.closed[Outcome.ANSWERED] > 0
    assert shown.closed[Outcome.CLIENT_LEFT] > 0


def test_23_no_live_count_has_an_expiry() -> None:
    story = Story("a").at(1.0).sees(call(1), call(2)).expects("1 to a")
    story.at(TWENTY_MINUTES_S).expects()
    assert story.house.scheduler.desk.ledger.in_flight == 1
    story.sees(answered(1)).expects("2 to a").sees(answered(2)).ends()


async def test_23_two_hundred_arrivals_in_one_tick_of_which_half_leave_in_it() -> None:
    async with house(*[replace(ENGINE, slots=3)] * 4) as built:
        watch(built)
        dispatcher = built.proxy.dispatcher
        holds = [
            dispatcher.open(lambda ticket: Opened(ticket, ModelName("echo")))
            for _ in range(ARRIVALS)
        ]
        assert built.snapshot().in_flight == 12
        for hold in holds[::2]:
            hold.close(Outcome.CLIENT_LEFT, Usage(), "")
        for hold in holds[1::2]:
            await hold.lease()
            hold.close(Outcome.ANSWERED, Usage(), "")
        await ends_at_zero(built)
        closed = built.snapshot().closed
        half = ARRIVALS // 2
        assert (closed[Outcome.CLIENT_LEFT], closed[Outcome.ANSWERED]) == (half, half)


async def test_23_a_storm_in_which_a_node_goes_and_returns() -> None:
    chance = random.Random(20261129)
    async with house(*[ENGINE] * 3, settings=IMPATIENT) as built:
        watch(built)
        gate, over = asyncio.Semaphore(48), asyncio.Event()

        async def storm() -> None:
            async def one(seed: int) -> None:
                async with gate:
                    await one_call(built, random.Random(seed))

            async with asyncio.TaskGroup() as calls:
                for _ in range(STORM_CALLS):
                    calls.create_task(one(chance.getrandbits(32)))
            over.set()

        async def come_and_go() -> None:
            leaving = built.engines[2]
            address = leaving.url.removeprefix("http://")
            while not over.is_set():
                counters = built.engines[1].journal.counters
                enough = counters.started + 10
                await built.until(partial(passed, counters, enough, over))
                await leaving.crash()
                leaving = await built.stack.enter_async_context(
                    EchoEngine(replace(ENGINE, listen=address))
                )

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(trouble(built, random.Random(1), over))
            tasks.create_task(come_and_go())
            tasks.create_task(storm())
        await ends_at_zero(built)
        assert built.snapshot().closed[Outcome.ANSWERED] > STORM_CALLS // 3
