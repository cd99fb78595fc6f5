"""The chaos run of one minute, with a seed that every CI run has."""

from __future__ import annotations

import faulthandler
from pathlib import Path

from tests.chaos.run import run

SEED = 3
SHOWN = 10
LIMIT_S = 240.0
"""Thirteen processes start before the minute and settle after it, on two noisy cores."""


async def test_a_minute_of_chaos_loses_nothing(tmp_path: Path) -> None:
    # pytest's own limit is for tests that take seconds; it is armed anew with the next test.
    faulthandler.dump_traceback_later(LIMIT_S, exit=True, file=2)
    report = await run(SEED, 1.0, tmp_path, print)
    print(report.table())
    assert report.violations[:SHOWN] == [], f"again with: make chaos C='--seed {SEED} --minutes 1'"
    assert int(str(report.figures["calls answered"])) > 0
