from __future__ import annotations

from typing import Any

from pair.terminal.bench_report import bench_report, rounds_table, summary
from tests.terminal.samples import call, job, text_of, words


def report(**changes: Any) -> dict[str, Any]:
    done = {
        "job": "bench-1",
        "alone_s": 7.6,
        "together_s": 4.0,
        "direct_s": None,
        "speedup": 1.9,
        "direct_speedup": None,
        "ttft_s_p50": 0.5,
    }
    return {
        "v": 1,
        "model": "tiny",
        "calls": 4,
        "output_tokens": 64,
        "speedup": 1.9,
        "of_direct": None,
        "rounds": [done],
        "job": job(call("a", 0, 0, 0.5, 2)),
    } | changes


def test_the_summary_is_the_median_and_its_share_of_the_best() -> None:
    alone = "1.90x as fast as one node alone (median of 1 round)"
    assert summary(report()).plain == f"{alone} · 4 calls of 64 tokens on tiny"
    assert summary(report(of_direct=0.97)).plain.splitlines()[1] == (
        "97% of the speed-up of a client that drives the engines itself"
    )


def test_each_round_has_its_row_and_an_arm_that_did_not_run_is_unknown() -> None:
    with_direct = report()["rounds"][0] | {"direct_s": 3.9, "direct_speedup": 1.95}
    rounds = [report()["rounds"][0], with_direct]
    _, _, first, second = words(text_of(rounds_table(report(rounds=rounds))))
    assert " ".join(first) == "bench-1 7.60 s 4.00 s – 1.90x – 0.50 s"
    assert " ".join(second) == "bench-1 7.60 s 4.00 s 3.90 s 1.90x 1.95x 0.50 s"


def test_the_proxys_own_report_stands_below() -> None:
    text = text_of(bench_report(report(model="\x1b[2J")))
    assert "job team-1" in text
    assert "\x1b" not in text
