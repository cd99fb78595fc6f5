"""The one event loop and what signals mean to it.

Owned here and nowhere else: the parts below are coroutines and context managers, so that tests, the
demo and the service run the same code under their own loop.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Final, TypeVar

from pair.cli import exit_codes

Answer = TypeVar("Answer")

REPEAT_S: Final = 0.5
"""The same signal again within this time of the first is the first: GNU `timeout` and some service
managers signal a process and then its whole group. Nobody who waits for an end repeats it as fast.
"""


class Stop(asyncio.Event):
    """Set by the first signal.

    Attributes:
        number: of that signal, 0 before.
    """

    def __init__(self) -> None:
        super().__init__()
        self.number = 0


FILES: Final = 10240
"""Asked for where there is no limit: macOS refuses more, and this is twice what all clients use."""

Program = Callable[[Stop], Coroutine[Any, Any, int]]
"""A long-running command: works until the event is set, then ends in order; gives its exit code."""


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The maker of uvloop's loop where there is one (not on Windows), None for Python's own."""
    if sys.platform == "win32":
        return None
    import uvloop

    return uvloop.new_event_loop


def run(main: Coroutine[Any, Any, Answer]) -> Answer:
    """Run a short command to its end; Ctrl-C breaks it off."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(main)


def run_until_stopped(program: Program) -> int:
    """Run a long command until SIGTERM or SIGINT, and then to its orderly end.

    The first signal sets the program's event; its repeat within `REPEAT_S` is none. The second
    cancels the program, which gives up what it drains. The third ends the process where it stands.

    Returns:
        The program's exit code, or 128 + the signal's number after a second signal.
    """
    _take_all_files()
    return run(_under_signals(program))


def _take_all_files() -> None:
    """Each connection is an open file, and systems allow 256 or 1024 of them until they are asked
    for more; what the user has forbidden stays so.
    """
    if sys.platform == "win32":
        return
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if most == resource.RLIM_INFINITY else most
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


async def unless(stop: asyncio.Event, work: Coroutine[Any, Any, Answer]) -> Answer | None:
    """What the work gives, or None after cancelling it because `stop` was set before."""
    async with asyncio.TaskGroup() as tasks:
        working = tasks.create_task(work)
        stopping = tasks.create_task(stop.wait())
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
        for task in (working, stopping):
            task.cancel()
    return None if working.cancelled() else working.result()


class Heard:
    """The signals so far, repeats left out."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self._first_s = 0.0

    def count(self, number: int, now_s: float) -> int:
        """How many there have been with this one; 0 if it only repeats the first."""
        if not self.numbers:
            self._first_s = now_s
        elif self.numbers == [number] and now_s - self._first_s < REPEAT_S:
            return 0
        self.numbers.append(number)
        return len(self.numbers)


async def _under_signals(program: Program) -> int:
    stop = Stop()
    task = asyncio.current_task()
    loop = asyncio.get_running_loop()
    seen = Heard()

    def heard(number: int) -> None:
        match seen.count(number, loop.time()):
            case 0:
                pass
            case 1:
                stop.number = number
                stop.set()
            case 2 if task is not None:
                task.cancel()
            case _:
                os._exit(exit_codes.of_signal(number))

    with _heeded(heard):
        try:
            return await program(stop)
        except asyncio.CancelledError:
            if len(seen.numbers) < 2:
                raise
            return exit_codes.of_signal(seen.numbers[1])


@contextmanager
def _heeded(heard: Callable[[int], None]) -> Iterator[None]:
    """Let the running loop call `heard` with each signal's number; afterwards all is as before."""
    loop = asyncio.get_running_loop()

    def from_a_signal(number: int, _frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(heard, number)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        try:
            loop.add_signal_handler(number, heard, number)
        except NotImplementedError:  # Windows
            signal.signal(number, from_a_signal)
    try:
        yield
    finally:
        for number, handler in before.items():
            if sys.platform != "win32":
                loop.remove_signal_handler(number)
            signal.signal(number, handler)
