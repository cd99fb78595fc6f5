"""Simulated runs as tables: what the house could do at best, what each strategy made of it.

Pure: the report as `pair simulate --json` tells it in, rich renderables out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from pair.terminal.figures import UNKNOWN, count, percent, plain, ratio, seconds, several
from pair.terminal.panels import Json, table_of

SHARES_SHOWN: Final = 16
"""Most nodes listed; `--json` has them all."""


def heading(run: Json) -> Iterator[RenderableType]:
    """What was simulated, from any of its runs."""
    slots = sum(share["slots"] for share in run["nodes"])
    waves = "" if run["waves"] is None else f": {several(run['waves'], 'wave')}"
    yield Text(
        f"{several(run['calls'], 'call')} on {several(len(run['nodes']), 'node')} with"
        f" {several(slots, 'slot')}{waves}"
    )
    yield Text(
        f"{plain(run['alone_node'])} alone needs {seconds(run['alone_s'])}, all together at least"
        f" {seconds(run['bound_s'])} (T_LB): limit {ratio(run['limit'])}"
    )


def runs_table(runs: Sequence[Json]) -> Table:
    """A row for each strategy: how long it all took, and how long calls waited."""
    times = ("TTFT p50", "TTFT p90", "TTFT p99", "wait p50", "wait p99")
    figures = ("makespan", "/ T_LB", "achieved", *times)
    table = table_of("strategy", *figures, "calls without an answer", right=figures)
    for run in runs:
        lost = [
            f"{count(calls)} {fate.replace('_', ' ')}"
            for fate, calls in run["outcomes"].items()
            if fate != "answered" and calls
        ]
        ttft_s, queue_s = run["ttft_s"], run["queue_s"]
        table.add_row(
            Text(plain(run["strategy"])),
            seconds(run["makespan_s"]),
            ratio(run["over_bound"]),
            ratio(run["achieved"]),
            *(seconds(ttft_s[each]) for each in ("p50", "p90", "p99")),
            *(seconds(queue_s[each]) for each in ("p50", "p99")),
            ", ".join(lost) or UNKNOWN,
        )
    return table


def comparison_table(runs: Sequence[Json]) -> Table:
    """A row for each strategy: what it made of caches, of flows, and of its own promises."""
    figures = ("behind", "cached", "of at most", "fairness", "regretted", "by", "at worst")
    columns = ("strategy", *figures, "turned away", "")
    table = table_of(*columns, right=(*figures, "turned away"))
    for run in runs:
        regret = run["regret"]
        alike = bool(run["ideal_cached_share"])
        table.add_row(
            Text(plain(run["strategy"])),
            seconds(run["behind_best_s"]) if run["behind_best_s"] else UNKNOWN,
            percent(run["cached_share"]) if alike else UNKNOWN,
            percent(run["ideal_cached_share"]) if alike else UNKNOWN,
            UNKNOWN if run["fairness"] is None else f"{run['fairness']:.2f}",
            several(regret["calls"], "call"),
            *(
                seconds(regret[each]) if regret["calls"] else UNKNOWN
                for each in ("mean_s", "worst_s")
            ),
            count(run["busy_refusals"]) if run["busy_refusals"] else UNKNOWN,
            "",
        )
    return table


LEGEND: Final = (
    "behind: ended after the best of these · cached: share of prompt tokens that a cache had, of at"
    " most: a cache without end · fairness: Jain's index of how flows were slowed, 1 is equal ·"
    " regretted: ended later than a node that was free when they came would have ended them ·"
    " turned away: attempts that a full node refused"
)
"""The words of `comparison_table`."""


def shares_table(run: Json) -> Table:
    """A row for each node, up to a limit."""
    table = table_of(run["strategy"], "slots", "calls", "busy", right=("slots", "calls", "busy"))
    for share in run["nodes"][:SHARES_SHOWN]:
        table.add_row(
            Text(plain(share["node"])),
            count(share["slots"]),
            count(share["calls"]),
            percent(share["utilization"]),
        )
    if len(run["nodes"]) > SHARES_SHOWN:
        table.add_row(f"and {len(run['nodes']) - SHARES_SHOWN} more", "", "", "")
    return table
