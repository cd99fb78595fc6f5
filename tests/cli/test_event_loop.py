from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from pair.cli.event_loop import run, run_until_stopped
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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_the_first_signal_asks_and_the_second_ends_at_once(
    home: Path, number: signal.Signals
) -> None:
    async with pair_process(home, "ends", program=STUBBORN) as process:
        assert "uvloop" in await process.line_with("running")
        process.signal(number)
        await process.line_with("draining")
        process.signal(number)
        await process.line_with("given up")
        assert await process.end() == 128 + number


async def test_the_third_ends_what_hangs(home: Path) -> None:
    async with pair_process(home, "hangs", program=STUBBORN) as process:
        await process.line_with("running")
        process.signal(signal.SIGTERM)
        await process.line_with("draining")
        process.signal(signal.SIGTERM)
        await process.line_with("given up")
        process.signal(signal.SIGINT)
        assert await process.end() == 130
