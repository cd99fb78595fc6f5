"""The chaos run of one minute, with a seed that every CI run has."""

from __future__ import annotations

from pathlib import Path

from tests.chaos.run import run

SEED = 3


async def test_a_minute_of_chaos_loses_nothing(tmp_path: Path) -> None:
    report = await run(SEED, 1.0, tmp_path, print)
    print(report.table())
    assert report.violations == []
    assert int(str(report.figures["calls answered"])) > 0
