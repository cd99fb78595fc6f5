from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType

from pair.terminal.simulation import (
    SHARES_SHOWN,
    comparison_table,
    heading,
    runs_table,
    shares_table,
)
from tests.terminal.samples import text_of

RUN: dict[str, Any] = {
    "strategy": "finish-time",
    "calls": 20,
    "outcomes": {"answered": 17, "refused": 0, "client_left": 1, "failed": 2},
    "makespan_s": 5.71,
    "bound_s": 5.6,
    "over_bound": 1.02,
    "waves": 7,
    "alone_s": 7.14,
    "alone_node": "tower",
    "limit": 1.25,
    "achieved": 1.24,
    "ttft_s": {"p50": 2.2, "p90": 5.04, "p99": None},
    "queue_s": {"p50": 2.14, "p90": 5.0, "p99": 5.36},
    "busy_refusals": 3,
    "cached_share": 0.75,
    "ideal_cached_share": 0.9,
    "fairness": 0.875,
    "behind_best_s": 0.0,
    "regret": {"calls": 1, "mean_s": 1.5, "worst_s": 2.5},
    "nodes": [
        {"node": "tower", "slots": 2, "calls": 15, "utilization": 0.96},
        {"node": "lap\x1b[31mtop", "slots": 1, "calls": 5, "utilization": 0.5},
    ],
}


def lines(*parts: RenderableType) -> list[str]:
    return [" ".join(line.split()) for line in text_of(Group(*parts), width=160).splitlines()]


def test_what_was_simulated() -> None:
    assert lines(*heading(RUN)) == [
        "20 calls on 2 nodes with 3 slots: 7 waves",
        "tower alone needs 7.14 s, all together at least 5.60 s (T_LB): limit 1.25x",
    ]
    assert lines(*heading({**RUN, "waves": None}))[0] == "20 calls on 2 nodes with 3 slots"


def test_times_of_a_run() -> None:
    assert lines(runs_table([RUN]))[-1] == (
        "finish-time 5.71 s 1.02x 1.24x 2.20 s 5.04 s – 2.14 s 5.36 s 1 client left, 2 failed"
    )
    fine = {**RUN, "outcomes": {"answered": 20, "failed": 0}}
    assert lines(runs_table([fine]))[-1].endswith("5.36 s –")


def test_what_is_compared() -> None:
    found = lines(comparison_table([RUN, {**RUN, "strategy": "other", "behind_best_s": 1.0}]))
    assert found[-2] == "finish-time – 75% 90% 0.88 1 call 1.50 s 2.50 s 3"
    assert found[-1] == "other 1.00 s 75% 90% 0.88 1 call 1.50 s 2.50 s 3"
    nothing = {
        "cached_share": 0.0,
        "ideal_cached_share": 0.0,
        "fairness": None,
        "busy_refusals": 0,
        "regret": {"calls": 0, "mean_s": 0.0, "worst_s": 0.0},
    }
    assert lines(comparison_table([{**RUN, **nothing}]))[-1] == "finish-time – – – – 0 calls – – –"


def test_shares_of_nodes_up_to_a_limit_and_without_escape_codes() -> None:
    assert lines(shares_table(RUN))[-2:] == ["tower 2 15 96%", "lap�[31mtop 1 5 50%"]
    many = {**RUN, "nodes": RUN["nodes"][:1] * (SHARES_SHOWN + 2)}
    found = lines(shares_table(many))
    assert found[-1] == "and 2 more"
    assert len(found) == SHARES_SHOWN + 3
