from __future__ import annotations

import time

import pytest

from pair.errors import SettingsError
from pair.sim.experiment import Arrivals, Experiment, Plan
from tests.core.limits import limits


def carried_out(plan: Plan, *strategies: str) -> Experiment:
    experiment = Experiment(plan, strategies or ("queue-depth",), limits())
    steps = list(experiment.steps())
    assert steps == sorted(steps)
    assert steps[-1] == experiment.total_calls
    return experiment


def test_the_default_is_the_classic() -> None:
    (report,) = carried_out(Plan()).reports
    assert report.waves == 2
    assert report.limit == pytest.approx(2.5)
    assert report.makespan_s == pytest.approx(4.0)


def test_strategies_are_compared_on_the_same_calls_and_mishaps() -> None:
    plan = Plan(calls=60, spread=0.5, failures=4, arrivals=Arrivals.POISSON)
    experiment = carried_out(plan, "queue-depth", "round-robin")
    assert [report.strategy for report in experiment.reports] == ["queue-depth", "round-robin"]
    first, second = experiment.worlds
    assert [r.call for r in first.records] == [r.call for r in second.records]
    assert experiment.reports[0].alone_s == experiment.reports[1].alone_s
    again = carried_out(plan, "queue-depth", "round-robin")
    assert again.reports == experiment.reports


def test_another_seed_is_another_run() -> None:
    plans = [Plan(calls=30, spread=0.5, seed=seed) for seed in (1, 2)]
    one, other = (carried_out(plan).reports[0] for plan in plans)
    assert one.makespan_s != other.makespan_s


@pytest.mark.parametrize("arrivals", [Arrivals.FAN_OUT, Arrivals.POISSON])
def test_without_a_rate_the_nodes_are_nearly_full(arrivals: Arrivals) -> None:
    (report,) = carried_out(Plan(calls=400, width=4, arrivals=arrivals, seed=3)).reports
    assert all(0.75 < share.utilization <= 1.0 for share in report.nodes)


def test_a_rate_is_kept() -> None:
    plan = Plan(calls=100, arrivals=Arrivals.POISSON, rate_per_s=0.1)
    (report,) = carried_out(plan).reports
    assert report.makespan_s > 700
    assert report.queue_s.p50 == 0.0


def test_everyone_has_a_place_in_the_waiting_room() -> None:
    (report,) = carried_out(Plan(calls=1500, output_tokens=1, prompt_tokens=1)).reports
    assert report.outcomes["answered"] == 1500


def test_an_unknown_strategy_is_told_before_anything_runs() -> None:
    with pytest.raises(SettingsError, match="'luck' does not exist"):
        Experiment(Plan(), ["luck"], limits())


def test_ten_thousand_calls_over_64_nodes_take_seconds() -> None:
    """1.2 s of CPU time where this was written, with as many again for the fastest node alone. The
    bound leaves room for slower machines, and none for a scheduler that is ten times slower or
    walks over all who wait.
    """
    start_s = time.process_time()
    (report,) = carried_out(Plan(speeds=(1.0,) * 64, calls=10_000, spread=0.5)).reports
    assert report.outcomes["answered"] == 10_000
    assert time.process_time() - start_s < 8.0
