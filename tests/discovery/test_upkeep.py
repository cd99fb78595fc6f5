"""Tasks that live as long as a block, and rounds that go on."""

from __future__ import annotations

import asyncio
import logging

import pytest

from pair.discovery import upkeep
from pair.discovery.upkeep import Upkeep, repeat
from pair.errors import NoMulticast


async def test_tasks_have_cleaned_up_when_stop_returns() -> None:
    happened: list[str] = []
    started = asyncio.Event()

    async def work() -> None:
        try:
            started.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            happened.append("cleaned up")

    tended = Upkeep()
    await tended.start({"work": work})
    await started.wait()
    await tended.stop()
    assert happened == ["cleaned up"]


async def test_a_task_that_fails_ends_the_block_with_its_exception() -> None:
    async def work() -> None:
        raise LookupError("broken")

    async def block() -> None:
        tended = Upkeep()
        await tended.start({"work": work})
        try:
            await asyncio.Event().wait()
        finally:
            await tended.stop()

    with pytest.raises(ExceptionGroup) as caught:
        await asyncio.wait_for(block(), 5)
    assert [type(error) for error in caught.value.exceptions] == [LookupError]


class Turns:
    """Plays a list of outcomes, one a turn, and then says that all are played."""

    def __init__(self, *outcomes: str | Exception) -> None:
        self.outcomes = list(outcomes)
        self.played = asyncio.Event()

    async def __call__(self) -> str:
        if not self.outcomes:
            self.played.set()
            return ""
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


async def played(
    turns: Turns, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> list[str]:
    monkeypatch.setattr(upkeep, "ROUND_INTERVAL_S", 0)
    caplog.set_level(logging.INFO, logger=upkeep.__name__)
    async with asyncio.TaskGroup() as tasks:
        rounds = tasks.create_task(repeat(turns, "find nodes"))
        await asyncio.wait_for(turns.played.wait(), 5)
        rounds.cancel()
    return [record.getMessage() for record in caplog.records]


async def test_a_trouble_is_warned_of_once_and_its_end_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    turns = Turns("", "no network", "no network", NoMulticast("busy"), OSError("busy"), "")
    assert await played(turns, monkeypatch, caplog) == [
        "no network; will keep trying",
        "cannot find nodes: busy; will keep trying",
        "can find nodes again",
    ]


async def test_a_bug_is_logged_with_its_trace_once_and_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    messages = await played(Turns(LookupError(), LookupError(), ""), monkeypatch, caplog)
    assert messages[1:] == [
        "cannot find nodes: LookupError; will keep trying",
        "can find nodes again",
    ]
    assert caplog.records[0].exc_info is not None
    assert "repeat" in messages[0]
