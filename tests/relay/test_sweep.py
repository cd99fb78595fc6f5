"""One timer for everything that has a limit, and none when nothing has."""

from __future__ import annotations

import asyncio

import pytest

from pair.relay.sweep import INTERVAL_S, Sweep
from tests.relay.wires import within


class Counted:
    """Counts its looks; takes itself out after some."""

    def __init__(self, sweep: Sweep, looks: int) -> None:
        self.seen: list[float] = []
        self.out = asyncio.Event()
        self._sweep = sweep
        self._looks = looks

    def sweep(self, now: float) -> None:
        """Part of `Swept`."""
        self.seen.append(now)
        if len(self.seen) == self._looks:
            self._sweep.discard(self)
            self.out.set()


async def test_each_is_looked_at_until_it_is_taken_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pair.relay.sweep.INTERVAL_S", 0.01)
    sweep = Sweep()
    two, five = Counted(sweep, 2), Counted(sweep, 5)
    sweep.add(two)
    sweep.add(five)
    await within(five.out.wait())
    assert (len(two.seen), len(five.seen)) == (2, 5)
    assert five.seen == sorted(five.seen)
    assert two.seen == five.seen[:2]
    assert five.seen[-1] - five.seen[0] < INTERVAL_S, "the interval is not the one at the import"


async def test_it_starts_again_after_it_was_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pair.relay.sweep.INTERVAL_S", 0.01)
    sweep = Sweep()
    for _ in range(2):
        once = Counted(sweep, 1)
        sweep.add(once)
        await within(once.out.wait())
