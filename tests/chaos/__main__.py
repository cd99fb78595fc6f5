"""`make chaos`: random deaths, stalls, cuts, slow readers and returns, and what users see of them.

Run: `make chaos`, or `make chaos C="--seed 7 --minutes 10 --json"`. Exit code 1 if anything was
violated; the same seed draws the same mishaps and calls.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
from pathlib import Path

from tests.chaos.report import put_section
from tests.chaos.run import run

_SHOWN = 40
_PAGE = Path(__file__).parents[2] / "docs" / "measurements" / "chaos.md"


def main() -> int:
    """Run and print; the exit code."""
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=None, help="drawn and printed if not given")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--folder", type=Path, default=None, help="for logs; must be empty")
    parser.add_argument("--json", action="store_true", help="the report as JSON on stdout")
    parser.add_argument("--page", action="store_true", help=f"write the table into {_PAGE.name}")
    asked = parser.parse_args()
    seed = random.randrange(1_000_000) if asked.seed is None else asked.seed
    folder = asked.folder or Path(tempfile.mkdtemp(prefix="pair-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)

    def say(line: str) -> None:
        print(line, file=sys.stderr if asked.json else sys.stdout, flush=True)

    report = asyncio.run(run(seed, asked.minutes, folder, say))
    if asked.json:
        print(json.dumps(report.as_json(), indent=1))
    else:
        print(f"\n{report.section()}")
    if asked.page:
        page = put_section(_PAGE.read_text(encoding="utf-8"), report.section())
        _PAGE.write_text(page, encoding="utf-8")
    for line in [*report.violations, *report.spent][:_SHOWN]:
        say(line)
    verdict = "passed" if report.passed else f"{len(report.violations)} violations"
    say(f"{verdict}; again with: make chaos C='--seed {seed} --minutes {asked.minutes:g}'")
    return 0 if report.passed else 1


if __name__ == "__main__":
    sys.exit(main())
