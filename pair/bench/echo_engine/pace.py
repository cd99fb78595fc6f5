"""The echo engine's clock: when a token is due.

Kept apart because being precise is the whole worth of a fake engine. Work is counted in seconds
that it would take on an idle engine. Every token is due at a point on that scale that is fixed when
the call starts, so a late wake-up delays one event and never the following ones. When slots slow
each other down, the scale runs slower than the wall clock, and waiting calls are re-timed at the
instant the number of busy slots changes.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from functools import partial

# Rounding of floats; far below the loop's timer resolution (1 ms with epoll).
_ROUNDING_S = 1e-7


async def sleep_until(when_s: float) -> None:
    """Return at `when_s` on `time.monotonic()`, give or take the loop's 1 ms; at once if past."""
    left_s = when_s - time.monotonic()
    if left_s > 0:
        await asyncio.sleep(left_s)


class Alarm:
    """One callback at one point on the scale of work; `cancel` may be called at any time."""

    __slots__ = ("_alarms", "callback", "timer", "work_s")

    def __init__(self, work_s: float, callback: Callable[[], None], alarms: set[Alarm]) -> None:
        self.work_s = work_s
        self.callback = callback
        self.timer: asyncio.TimerHandle | None = None
        self._alarms = alarms
        alarms.add(self)

    def cancel(self) -> None:
        self._alarms.discard(self)
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class Pace:
    """The scale of work of one engine.

    With b busy slots each of them runs at 1 / (1 + slowdown_per_busy_slot x (b - 1)) of its speed
    alone; 0 (the default of the settings) means that slots do not hinder each other.
    """

    def __init__(self, slowdown_per_busy_slot: float) -> None:
        self._slowdown = slowdown_per_busy_slot
        self._speed = 1.0
        self._work_s = 0.0
        self._since_s = time.monotonic()
        self._alarms: set[Alarm] = set()

    def work_s(self) -> float:
        """Where the scale stands now, in seconds of work since the engine was made."""
        return self._work_s + (time.monotonic() - self._since_s) * self._speed

    def set_busy(self, slots: int) -> None:
        """Tell how many slots are busy from now on."""
        speed = 1.0 / (1.0 + self._slowdown * max(0, slots - 1))
        if speed == self._speed:
            return
        now = time.monotonic()
        self._work_s += (now - self._since_s) * self._speed
        self._since_s = now
        self._speed = speed
        for alarm in self._alarms:
            self._set_timer(alarm)

    def when(self, work_s: float, callback: Callable[[], None]) -> Alarm:
        """Call back once the scale has reached `work_s`; never, if that is infinite."""
        alarm = Alarm(work_s, callback, self._alarms)
        self._set_timer(alarm)
        return alarm

    async def until(self, work_s: float) -> None:
        """Return once the scale has reached `work_s`; at once, without yielding, if it has."""
        if self.work_s() + _ROUNDING_S >= work_s:
            return
        reached = asyncio.get_running_loop().create_future()
        alarm = self.when(work_s, partial(_settle, reached))
        try:
            await reached
        finally:
            alarm.cancel()

    def stop(self) -> None:
        """Forget every alarm: the engine is going."""
        for alarm in tuple(self._alarms):
            alarm.cancel()

    def _set_timer(self, alarm: Alarm) -> None:
        if alarm.timer is not None:
            alarm.timer.cancel()
        left_s = (alarm.work_s - self.work_s()) / self._speed
        if math.isinf(left_s):
            return
        alarm.timer = asyncio.get_running_loop().call_later(max(0.0, left_s), self._ring, alarm)

    def _ring(self, alarm: Alarm) -> None:
        if self.work_s() + _ROUNDING_S < alarm.work_s:
            # uvloop rounds to whole milliseconds and may wake early.
            self._set_timer(alarm)
            return
        alarm.cancel()
        alarm.callback()


def _settle(reached: asyncio.Future[None]) -> None:
    # A waiter that is cancelled takes its alarm back only when it runs next, which may be later.
    if not reached.done():
        reached.set_result(None)
