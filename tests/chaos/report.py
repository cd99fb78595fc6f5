"""The figures of a run, as a table for people, as JSON for scripts, and whether it passed."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from statistics import linear_regression, median

from tests.chaos.checks import Verdict
from tests.chaos.record import Record, Seen
from tests.chaos.watch import Size, Watch

FILES_MARGIN = 16
"""Probes' connections come and go; a leak of one a call would be hundreds."""
GROWTH_LIMIT_MIB = 32.0
"""From a quarter of the run to its idle end. Job log and tables fill within their bounds, and an
allocator keeps pages; a body kept a call would be gigabytes."""
WARM_SHARE = 0.25


@dataclass
class Report:
    """One run."""

    seed: int
    minutes: float
    day: str
    machine: str
    versions: str
    figures: dict[str, object] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    spent: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return not self.violations

    def as_json(self) -> dict[str, object]:
        return {**asdict(self), "passed": self.passed}

    def table(self) -> str:
        """Markdown, as it stands in docs/measurements/chaos.md."""
        rows = [f"| {name} | {value} |" for name, value in self.figures.items()]
        return "\n".join(["| figure | value |", "|---|---|", *rows])

    def section(self) -> str:
        """The run's section of docs/measurements/chaos.md."""
        command = f'make chaos C="--seed {self.seed} --minutes {self.minutes:g}"'
        where = f"{self.day}; {self.machine}; {self.versions}"
        return f"## Seed {self.seed}\n\n`{command}`; {where}.\n\n{self.table()}\n"


def put_section(page: str, section: str) -> str:
    """The page with this section in the place of the one with the same heading, or at its end."""
    heading = section.partition("\n")[0]
    before, found, after = page.partition(f"{heading}\n")
    _, more, rest = after.partition("\n## ")
    following = f"\n## {rest}" if more else ""
    return (before if found else f"{page.rstrip()}\n\n") + section + following


@dataclass(frozen=True)
class Memory:
    """How the proxy's process grew; `per_1000_calls_kib` is the slope after the warm-up."""

    warm_mib: float
    end_mib: float
    per_1000_calls_kib: float
    files_before: int
    files_after: int


def memory(sizes: Sequence[Size], before: Size, after: Size) -> Memory:
    """Growth over a run; `before` and `after` were taken while nothing ran."""
    warm = list(sizes[int(len(sizes) * WARM_SHARE) :])
    slope = 0.0
    if len({size.opened for size in warm}) > 1:
        slope = linear_regression(
            [size.opened for size in warm], [size.memory_kib for size in warm]
        ).slope
    first = median(size.memory_kib for size in warm[: max(1, len(warm) // 20)])
    return Memory(first / 1024, after.memory_kib / 1024, slope * 1000, before.files, after.files)


def make_report(
    seed: int,
    minutes: float,
    records: Sequence[Record],
    verdict: Verdict,
    watch: Watch,
    grown: Memory,
    house: dict[str, object],
    log_errors: list[str],
) -> Report:
    """Put everything together."""
    names = ("aiohttp", "httptools", "uvloop", "openai")
    report = Report(
        seed,
        minutes,
        day=f"{datetime.now(tz=UTC):%Y-%m-%d}",
        machine=f"{os.cpu_count()} cores, {platform.system()} {platform.release()}",
        versions=", ".join(
            [f"Python {platform.python_version()}", *(f"{name} {version(name)}" for name in names)]
        ),
    )
    seen = Counter(record.seen for record in records)
    lasted_s = sorted(record.ended_s - record.began_s for record in records)
    tickets = watch.snapshot["tickets"]
    report.figures = {
        "calls": len(records),
        **{f"calls {name.value}": seen[name] for name in Seen},
        "tickets at the proxy": ", ".join(f"{name} {count}" for name, count in tickets.items()),
        "lost though another replica was there": len(verdict.lost),
        "failed with all attempts met by failures": len(verdict.spent),
        "wrong or mixed answers": len(verdict.wrong),
        "double generations": len(verdict.doubles),
        "generations begun again for a reason": verdict.again,
        "looks at the counters": watch.looks,
        "counter errors": watch.wrong_looks,
        "most tickets waiting": watch.most_waiting,
        "slowest look": f"{watch.slowest_look_s * 1000:.0f} ms",
        "longest call": f"{lasted_s[-1]:.1f} s" if lasted_s else "none",
        "p50 / p99 of a call": f"{_at(lasted_s, 0.5):.2f} / {_at(lasted_s, 0.99):.2f} s",
        "proxy's memory, warm to idle end": f"{grown.warm_mib:.1f} to {grown.end_mib:.1f} MiB",
        "slope per 1000 calls": f"{grown.per_1000_calls_kib:.0f} KiB",
        "proxy's open files before and after": f"{grown.files_before}, {grown.files_after}",
        "errors in logs": len(log_errors),
        **house,
    }
    report.spent = verdict.spent
    report.violations = [
        *verdict.violations(),
        *(f"counters: {each}" for each in watch.wrong),
        *(f"log: {each}" for each in log_errors),
        *_growth(grown),
        *_fates(seen, tickets, watch),
    ]
    return report


def _growth(grown: Memory) -> list[str]:
    found = []
    if grown.end_mib - grown.warm_mib > GROWTH_LIMIT_MIB:
        found.append(f"memory grew from {grown.warm_mib:.1f} to {grown.end_mib:.1f} MiB")
    if grown.files_after > grown.files_before + FILES_MARGIN:
        found.append(f"open files grew from {grown.files_before} to {grown.files_after}")
    return found


def _fates(seen: Counter[Seen], tickets: dict[str, int], watch: Watch) -> list[str]:
    found = []
    if not watch.idle():
        found.append(f"not idle at the end: {watch.snapshot}")
    if tickets["answered"] < seen[Seen.ANSWERED]:
        found.append(f"{seen[Seen.ANSWERED]} answers were seen, {tickets['answered']} counted")
    if (
        tickets["failed"] + tickets["refused"]
        > seen[Seen.BROKEN] + seen[Seen.ERROR] + seen[Seen.LEFT]
    ):
        found.append(f"more failed and refused tickets than clients saw: {tickets}, {seen}")
    return found


def _at(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0
