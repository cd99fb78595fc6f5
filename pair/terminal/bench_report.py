"""A bench told: one node alone against the house, round by round, then the proxy's own report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pair.terminal.figures import UNKNOWN, percent, plain, ratio, seconds, several
from pair.terminal.job_report import job_report
from pair.terminal.panels import table_of

Json = Mapping[str, Any]


def bench_report(report: Json) -> RenderableType:
    """The whole report; `report` is what `pair bench --json` prints."""
    gap = Text("")
    return Group(summary(report), gap, rounds_table(report), gap, job_report(report["job"]))


def summary(report: Json) -> Text:
    """The median of the rounds, and its share of what no proxy could beat."""
    rounds = several(len(report["rounds"]), "round")
    line = Text.assemble(
        (ratio(report["speedup"]), "bold"),
        f" as fast as one node alone (median of {rounds}) ·"
        f" {several(report['calls'], 'call')} of {several(report['output_tokens'], 'token')}"
        f" on {plain(report['model'])}",
    )
    if report["of_direct"] is not None:
        line.append(
            f"\n{percent(report['of_direct'])} of the speed-up of a client that drives the engines"
            " itself"
        )
    return line


def rounds_table(report: Json) -> Table:
    """Each round's makespans."""
    numbers = ("alone", "together", "direct", "speed-up", "direct speed-up", "TTFT p50")
    table = table_of("round", *numbers, right=numbers)
    for each in report["rounds"]:
        direct = each["direct_s"]
        table.add_row(
            Text(plain(each["job"])),
            seconds(each["alone_s"]),
            seconds(each["together_s"]),
            UNKNOWN if direct is None else seconds(direct),
            ratio(each["speedup"]),
            ratio(each["direct_speedup"]),
            seconds(each["ttft_s_p50"]),
        )
    return table
