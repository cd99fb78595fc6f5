from __future__ import annotations

import asyncio
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pair.cli.event_loop import FILES, REPEAT_S, Heard, run, run_until_stopped
from pair.errors import SettingsError
from tests.cli.processes import pair_process

STUBBORN = """
import asyncio, sys
from pair.cli.event_loop import run_until_stopped

async def program(stop):
    print("running", type(asyncio.get_running_loop()).__module__)
    await stop.wait()
    print("draining")
    try:
        await asyncio.Event().wait()
    finally:
        print("given up")
        if sys.argv[1] == "hangs":
            while True:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    pass

sys.exit(run_until_stopped(program))
"""

REPEATING = """
import asyncio, signal, sys
from pair.cli.event_loop import run_until_stopped

async def program(stop):
    signal.raise_signal(signal.SIGTERM)
    await stop.wait()
    signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGINT)
    try:
        await asyncio.Event().wait()
    finally:
        print("given up")

sys.exit(run_until_stopped(program))
"""


def test_what_a_short_command_gives_is_given_on() -> None:
    async def short() -> int:
        return 7

    assert run(short()) == 7


def test_a_program_that_ends_by_itself_gives_its_code_and_signals_are_as_before() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)

    async def program(stop: asyncio.Event) -> int:
        assert not stop.is_set()
        return 5

    assert run_until_stopped(program) == 5
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_an_error_inside_comes_out() -> None:
    async def program(stop: asyncio.Event) -> int:
        raise SettingsError("wrong")

    with pytest.raises(SettingsError, match="wrong"):
        run_until_stopped(program)


def test_a_repeat_right_after_the_first_signal_is_not_a_second() -> None:
    seen = Heard()
    assert [seen.count(15, now_s) for now_s in (10.0, 10.1, 10.49 - 0.5 + REPEAT_S)] == [1, 0, 0]
    assert [seen.count(15, now_s) for now_s in (10.0 + REPEAT_S, 10.0 + REPEAT_S)] == [2, 3]
    other = Heard()
    assert [other.count(number, 10.0) for number in (15, 2, 15)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("first", "second"), [(signal.SIGTERM, signal.SIGINT), (signal.SIGINT, signal.SIGTERM)]
)
async def test_the_first_signal_asks_and_the_second_ends_at_once(
    home: Path, first: signal.Signals, second: signal.Signals
) -> None:
    async with pair_process(home, "ends", program=STUBBORN) as process:
        assert "uvloop" in await process.line_with("running")
        process.signal(first)
        await process.line_with("draining")
        process.signal(second)
        await process.line_with("given up")
        assert await process.end() == 128 + second


async def test_a_repeat_right_after_the_first_ends_nothing(home: Path) -> None:
    async with pair_process(home, program=REPEATING) as process:
        await process.line_with("given up")
        assert await process.end() == 130  # by the SIGINT behind it, as the second


async def test_the_third_ends_what_hangs(home: Path) -> None:
    async with pair_process(home, "hangs", program=STUBBORN) as process:
        await process.line_with("running")
        process.signal(signal.SIGTERM)
        await process.line_with("draining")
        process.signal(signal.SIGINT)
        await process.line_with("given up")
        process.signal(signal.SIGTERM)
        assert await process.end() == 143


def test_a_long_command_may_open_as_many_files_as_the_system_lets_it() -> None:
    asked = """
import resource, sys
from pair.cli.event_loop import run_until_stopped

async def program(stop):
    print(*resource.getrlimit(resource.RLIMIT_NOFILE))
    return 0

_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (100, most))
sys.exit(run_until_stopped(program))
"""
    said = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    soft, hard = map(int, said.stdout.split())
    assert soft == (FILES if hard == resource.RLIM_INFINITY else hard)
