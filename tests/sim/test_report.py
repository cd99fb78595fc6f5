from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pair.core.names import FlowId, NodeId, Outcome
from pair.core.strategies import strategy_named
from pair.sim.machines import CacheKind, Machine
from pair.sim.place import CallRecord
from pair.sim.report import (
    Quantiles,
    behind_best_s,
    fairness,
    fastest,
    is_equal_burst,
    lower_bound_s,
    quantiles,
    simulation_report,
)
from pair.sim.text import Run
from pair.sim.workload import PlannedCall
from pair.sim.world import World
from tests.core.audit import AuditedScheduler
from tests.core.limits import limits


def machine(name: str, *, slots: int = 1, speed: float = 1.0, decode: float = 50.0) -> Machine:
    return Machine(NodeId(name), slots, 1000.0 * speed, decode * speed)


def run(machines: list[Machine], calls: list[PlannedCall]) -> World:
    scheduler = AuditedScheduler(limits(), strategy_named("queue-depth"))
    world = World(scheduler, machines, calls)
    for _ in world.run():
        pass
    return world


CALL = PlannedCall(0.0, 200, 90)


def test_the_classic_in_figures() -> None:
    machines = [machine(name) for name in "abc"]
    report = simulation_report(run(machines, [CALL] * 5), run(machines[:1], [CALL] * 5))
    assert (report.strategy, report.calls, report.attempts, report.waves) == (
        "queue-depth",
        5,
        5,
        2,
    )
    assert report.outcomes == {"answered": 5, "refused": 0, "client_left": 0, "failed": 0}
    figures = (report.makespan_s, report.bound_s, report.alone_s, report.limit, report.achieved)
    assert figures == pytest.approx((4.0, 4.0, 10.0, 2.5, 2.5))
    assert [report.efficiency, report.over_bound] == pytest.approx([1.0, 1.0])
    assert (report.cached_share, report.ideal_cached_share, report.fairness) == (0.0, 0.0, None)
    assert (report.regret.calls, report.busy_refusals) == (0, 0)
    assert report.alone_node == "a"
    assert [(share.node, share.calls) for share in report.nodes] == [("a", 2), ("b", 2), ("c", 1)]
    assert [share.utilization for share in report.nodes] == pytest.approx([1.0, 1.0, 0.5])
    assert report.ttft_s.p50 == pytest.approx(0.2)
    assert report.ttft_s.p99 == pytest.approx(2.2)
    assert report.queue_s.p99 == pytest.approx(2.0)


def test_quantiles_are_durations_that_some_call_had() -> None:
    assert quantiles([float(n) for n in range(100, 0, -1)]) == Quantiles(51.0, 91.0, 100.0)
    assert quantiles([3.0]) == Quantiles(3.0, 3.0, 3.0)
    assert quantiles([]) == Quantiles(None, None, None)


def test_the_fastest_alone_is_not_always_the_fastest_for_one_call() -> None:
    quick, wide = machine("quick"), machine("wide", slots=4, speed=0.5)
    assert fastest([quick, wide], [CALL]) is quick
    assert fastest([quick, wide], [CALL] * 8) is wide
    assert fastest([quick, machine("equal")], [CALL]) is quick


@pytest.mark.parametrize(
    ("calls", "equal"),
    [
        ([CALL, CALL], True),
        ([CALL, PlannedCall(1.0, 200, 90)], False),
        ([CALL, PlannedCall(0.0, 201, 90)], False),
        ([CALL, PlannedCall(0.0, 200, 91)], False),
    ],
)
def test_waves_are_about_equal_calls_at_once(calls: list[PlannedCall], equal: bool) -> None:
    assert is_equal_burst(calls) == equal


def test_the_bound_of_unequal_calls() -> None:
    two = [machine("a"), machine("b", speed=0.5)]
    long, short = PlannedCall(0.0, 1000, 450), PlannedCall(0.0, 100, 45)
    assert lower_bound_s([long, short], two) == pytest.approx(10.0), "the longest"
    # 31 s of work on a; b is worth half a slot.
    assert lower_bound_s([long] * 3 + [short], two) == pytest.approx(31.0 / 1.5)
    late = PlannedCall(100.0, 100, 45)
    assert lower_bound_s([short, late], two) == pytest.approx(101.0), "the last to come"


def test_prompts_that_begin_alike_are_told_with_what_a_cache_without_end_would_have() -> None:
    def turn(at_s: float, tokens: int) -> PlannedCall:
        return PlannedCall(at_s, tokens, 10, text=(Run(1, tokens),))

    calls = [turn(0.0, 1000), turn(100.0, 2000), turn(200.0, 3000)]
    one = [machine("a")]
    report = simulation_report(run(one, calls), run(one, calls))
    assert (report.prompt_tokens, report.cached_tokens) == (6000, 3000)
    assert report.cached_share == report.ideal_cached_share == pytest.approx(0.5)
    other = [PlannedCall(0.0, 1000, 10, text=(Run(2, 1000),)), *calls[1:]]
    assert simulation_report(run(one, other), run(one, other)).cached_tokens == 2000
    assert report.makespan_s == pytest.approx(200.0 + 1.0 + 0.2)
    assert 200.2 <= report.bound_s <= report.makespan_s
    # All at once, 3,000 tokens in 3 s and 30 in 0.6 s on one slot.
    at_once = lower_bound_s([turn(0.0, 1000), turn(0.0, 2000), turn(0.0, 3000)], one)
    assert at_once == pytest.approx(3.6, abs=0.01)
    nothing_to_say = PlannedCall(0.0, 1, 0, text=(Run(1, 1),))
    assert lower_bound_s([nothing_to_say] * 2, one) == pytest.approx(0.002), "never 0"


def test_a_chain_of_turns_ends_no_sooner_than_its_turns_and_thoughts() -> None:
    first = PlannedCall(0.0, 200, 90)
    chain = [
        first,
        PlannedCall(0.0, 200, 90, follows=0, after_s=10.0),
        PlannedCall(0.0, 200, 90, follows=1, after_s=20.0),
    ]
    assert not is_equal_burst(chain)
    many = [machine(name) for name in "abc"]
    assert lower_bound_s(chain, many) == pytest.approx(3 * 2.0 + 30.0)
    assert simulation_report(run(many, chain), run(many[:1], chain)).over_bound == pytest.approx(
        1.0
    )


def flow_record(flow: str, held_up: float) -> CallRecord:
    """A call of 2 s that took so many times as long."""
    call = PlannedCall(0.0, 200, 90, flow=FlowId(flow))
    return CallRecord(call, opened_s=5.0, closed_s=5.0 + 2.0 * held_up, outcome=Outcome.ANSWERED)


def test_fairness_is_about_flows_not_calls() -> None:
    machines = [machine("slow", speed=0.1), machine("fast")]
    alike = [flow_record("a", 2.0), flow_record("b", 2.0), flow_record("b", 1.0)]
    assert fairness([*alike, flow_record("b", 3.0)], machines) == pytest.approx(1.0)
    # One flow is held up three times as long as the other: (1 + 3)^2 / (2 * (1 + 9)).
    assert fairness([flow_record("a", 1.0), flow_record("b", 3.0)], machines) == pytest.approx(0.8)
    assert fairness([flow_record("a", 1.0), flow_record("a", 9.0)], machines) is None
    failed = flow_record("b", 9.0)
    failed.outcome = Outcome.FAILED
    assert fairness([flow_record("a", 1.0), failed], machines) is None


def test_behind_the_best() -> None:
    machines = [machine("a"), machine("b")]
    short, long = [CALL] * 2, [CALL] * 4
    alone = run(machines[:1], short)
    reports = [simulation_report(run(machines, each), alone) for each in (long, short)]
    assert behind_best_s(reports) == pytest.approx([2.0, 0.0])


CALLS = st.builds(
    PlannedCall,
    at_s=st.integers(0, 20).map(float),
    prompt_tokens=st.integers(1, 4000),
    output_tokens=st.integers(1, 400),
)
MACHINES = st.builds(
    Machine,
    id=st.just(NodeId("x")),
    slots=st.integers(1, 3),
    prefill_rate_tokens_per_s=st.sampled_from([200.0, 1000.0, 3000.0]),
    decode_rate_tokens_per_s=st.sampled_from([10.0, 50.0]),
    cache_kind=st.sampled_from(CacheKind),
    cache_tokens=st.sampled_from([0, 100_000]),
)


@settings(max_examples=60, deadline=None)
@given(
    calls=st.lists(CALLS, min_size=1, max_size=20),
    machines=st.lists(MACHINES, min_size=1, max_size=4),
    texts=st.integers(0, 3),
    chained=st.booleans(),
)
def test_no_run_ends_before_the_bound(
    calls: list[PlannedCall], machines: list[Machine], texts: int, chained: bool
) -> None:
    named = [replace(each, id=NodeId(f"n{index}")) for index, each in enumerate(machines)]
    ordered = sorted(calls, key=lambda call: call.at_s)
    planned = []
    for index, call in enumerate(ordered):
        shared = min(500, call.prompt_tokens)
        own = Run(100 + index % texts, call.prompt_tokens - shared) if texts else Run(0, 0)
        text = tuple(run for run in (Run(1, shared), own) if run.tokens) if texts else ()
        follows = index - 2 if chained and index >= 2 else None
        at_s = call.at_s - ordered[0].at_s
        planned.append(replace(call, at_s=at_s, text=text, follows=follows, after_s=1.0))
    world = run(named, planned)
    end_s = max(record.closed_s or 0.0 for record in world.records)
    assert end_s >= lower_bound_s(planned, named) - 1e-6
