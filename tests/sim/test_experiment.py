from __future__ import annotations

import time
from random import Random

import pytest

from pair.core.names import NodeId
from pair.core.snapshot import take_snapshot
from pair.errors import SettingsError
from pair.sim.agents import wave
from pair.sim.experiment import Arrivals, Experiment, Plan, Scenario, drawn
from pair.sim.machine_cache import ideal_cached_tokens
from pair.sim.machines import Machine
from pair.sim.workload import Lengths, PlannedCall
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


def test_what_would_take_for_ever_is_not_begun() -> None:
    """A trace with a wall clock's time in one line: every simulated second costs a question."""
    calls = (PlannedCall(0.0, 100, 10), PlannedCall(1.7e9, 100, 10))
    with pytest.raises(SettingsError, match=r"would last 1\.97e\+04 days"):
        Experiment(Scenario((Machine(NodeId("n"), 1, 100.0, 10.0),), calls), ["session"], limits())


def test_a_run_in_which_nothing_was_answered_is_told() -> None:
    small = Machine(NodeId("n"), 1, 100.0, 10.0, context_tokens=1)
    experiment = Experiment(Scenario((small,), (PlannedCall(0.0, 900, 1),)), ["session"], limits())
    with pytest.raises(SettingsError, match="no call was answered: The prompt has 3600 char"):
        list(experiment.steps())


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


def test_a_scenario_needs_no_plan() -> None:
    calls = tuple(wave(12, 1500, Lengths(100, 90), Random(1)))
    machines = tuple(
        Machine(NodeId(name), 1, 1000.0, 50.0, cache_tokens=10_000) for name in ("a", "b", "c")
    )
    experiment = Experiment(Scenario(machines, calls), ["queue-depth"], limits())
    assert list(experiment.steps())[-1] == experiment.total_calls == 24
    (world,) = experiment.worlds
    cached = [record.cached_tokens for record in world.records]
    assert cached == [0] * 3 + [1500] * 9, "each machine reads the common prompt once"


def test_conversations_are_a_plan() -> None:
    plan = Plan(calls=30, turns=6, arrivals=Arrivals.CONVERSATIONS, shared_tokens=500, slots=2)
    experiment = carried_out(plan)
    (world,) = experiment.worlds
    prompts = [record.call.prompt_tokens for record in world.records[:6]]
    assert prompts == [500 + 200 + turn * 290 for turn in range(6)]
    assert sum(record.cached_tokens for record in world.records) > 0


@pytest.mark.parametrize("arrivals", [Arrivals.BURST, Arrivals.FAN_OUT, Arrivals.POISSON])
def test_any_calls_may_share_a_system_prompt(arrivals: Arrivals) -> None:
    scenario = drawn(Plan(calls=9, width=3, arrivals=arrivals, shared_tokens=300, spread=0.5))
    own = drawn(Plan(calls=9, width=3, arrivals=arrivals, spread=0.5)).calls
    assert [call.prompt_tokens - 300 for call in scenario.calls] == [
        one.prompt_tokens for one in own
    ]
    assert ideal_cached_tokens(scenario.calls) == [0] + [300] * 8


def test_a_rehearsal_is_of_the_same_kind_in_other_words() -> None:
    plain = drawn(Plan(calls=9, spread=0.5, shared_tokens=300, failures=2))
    scenario = drawn(Plan(calls=9, spread=0.5, shared_tokens=300, failures=2, rehearsal=20))
    assert (scenario.calls, scenario.incidents) == (plain.calls, plain.incidents)
    assert len(scenario.rehearsal) == 20
    both = ideal_cached_tokens([*scenario.rehearsal, *scenario.calls])
    assert both[20:] == ideal_cached_tokens(scenario.calls)


def test_several_proxies_share_the_work() -> None:
    experiment = carried_out(Plan(calls=60, proxies=3, rehearsal=6))
    (world,) = experiment.worlds
    closed = [sum(take_snapshot(p.scheduler, world.now).closed.values()) for p in world.proxies]
    assert closed == [22] * 3
    assert experiment.reports[0].outcomes["answered"] == 60


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
