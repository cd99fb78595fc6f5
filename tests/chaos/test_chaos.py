"""The chaos run of one minute, with a seed that every CI run has."""

from __future__ import annotations

from pathlib import Path

from tests.chaos.run import run

SEED = 3
SHOWN = 10


async def test_a_minute_of_chaos_loses_nothing(tmp_path: Path) -> None:
    report = await run(SEED, 1.0, tmp_path, print)
    print(report.table())
    assert report.violations[:SHOWN] == [], f"again with: make chaos C='--seed {SEED} --minutes 1'"
    assert int(str(report.figures["calls answered"])) > 0
