from __future__ import annotations

import asyncio
import math
import time

from pair.bench.echo_engine.pace import Pace, sleep_until
from tests.bench.echo_engine.calling import LATE_S, LIMIT_S


async def test_waiting_ends_when_the_scale_is_there_and_not_before() -> None:
    pace = Pace(slowdown_per_busy_slot=0.0)
    due_s = pace.work_s() + 0.1
    await pace.until(due_s)
    assert 0.0 <= pace.work_s() - due_s < LATE_S


async def test_what_is_past_does_not_yield() -> None:
    pace = Pace(slowdown_per_busy_slot=0.0)
    yielded: list[bool] = []
    asyncio.get_running_loop().call_soon(yielded.append, True)
    await pace.until(pace.work_s())
    assert yielded == []


async def test_lateness_does_not_add_up() -> None:
    pace = Pace(slowdown_per_busy_slot=0.0)
    start_s = pace.work_s()
    for tick in range(1, 101):
        await pace.until(start_s + tick * 0.003)
    # A hundred relative sleeps of 3 ms would take 30 to 100 ms longer than this.
    assert 0.3 <= pace.work_s() - start_s < 0.3 + LATE_S / 2


async def test_busy_slots_slow_each_other_down_and_waiters_are_timed_anew() -> None:
    pace = Pace(slowdown_per_busy_slot=1.0)
    pace.set_busy(2)
    began_s = time.monotonic()
    due_s = pace.work_s() + 0.2
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(pace.until(due_s))
        await sleep_until(began_s + 0.2)
        assert not waiting.done()
        # Half of the work is done by now; alone, the other half takes 0.1 s.
        pace.set_busy(1)
    assert 0.295 < time.monotonic() - began_s < 0.3 + LATE_S


async def test_a_slow_down_delays_who_waits_already() -> None:
    pace = Pace(slowdown_per_busy_slot=0.5)
    pace.set_busy(1)
    began_s = time.monotonic()
    due_s = pace.work_s() + 0.1
    async with asyncio.TaskGroup() as group:
        group.create_task(pace.until(due_s))
        group.create_task(_set_busy_soon(pace, 3))
    # Three busy slots run at half speed.
    assert 0.195 < time.monotonic() - began_s < 0.2 + LATE_S


async def _set_busy_soon(pace: Pace, slots: int) -> None:
    pace.set_busy(slots)


async def test_an_alarm_can_be_taken_back_and_an_infinite_one_has_no_timer() -> None:
    pace = Pace(slowdown_per_busy_slot=0.0)
    rung: list[str] = []
    never = pace.when(math.inf, lambda: rung.append("never"))
    taken_back = pace.when(pace.work_s() + 0.01, lambda: rung.append("taken back"))
    taken_back.cancel()
    stopped = pace.when(pace.work_s() + 0.01, lambda: rung.append("stopped"))
    assert never.timer is None
    pace.stop()
    assert stopped.timer is None
    await pace.until(pace.work_s() + 0.03)
    assert rung == []


async def test_a_cancelled_waiter_leaves_no_alarm_behind() -> None:
    pace = Pace(slowdown_per_busy_slot=0.0)
    async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
        waiting = group.create_task(pace.until(pace.work_s() + 3600))
        rang = asyncio.Event()
        pace.when(pace.work_s() + 0.01, rang.set)
        await rang.wait()
        waiting.cancel()
    assert waiting.cancelled()


async def test_an_alarm_that_rings_for_a_waiter_cancelled_just_before_is_quiet() -> None:
    pace = Pace(slowdown_per_busy_slot=0.0)
    wrong: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: wrong.append(context))
    due_s = pace.work_s() + 0.01

    def hang_up() -> None:
        waiting.cancel()

    async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
        waiting = group.create_task(pace.until(due_s + 0.001))
        pace.when(due_s, hang_up)
        await asyncio.sleep(0)
        while pace.work_s() < due_s + 0.002:
            pass  # both are overdue when the loop looks again, and ring in one turn of it
    assert waiting.cancelled()
    assert wrong == []


async def test_sleeping_until_the_past_returns_at_once() -> None:
    began_s = time.monotonic()
    await sleep_until(began_s - 1.0)
    assert time.monotonic() - began_s < LATE_S
