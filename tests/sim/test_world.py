"""The world under the audit: I1 to I8 after every event, I9 over random fleets, and mishaps."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pair.core.membership import FIRST_LOOK_S
from pair.core.names import NodeId, Outcome, TicketId
from pair.core.snapshot import take_snapshot
from pair.core.strategies import STRATEGIES, strategy_named
from pair.core.waves import graham_ceiling_s, makespan_floor_s
from pair.sim.machines import Incident, Machine, Mishap, random_incidents
from pair.sim.workload import Lengths, PlannedCall, burst, fan_outs, poisson
from pair.sim.world import WARM_UP_S, World
from tests.core.audit import AuditedScheduler
from tests.core.limits import limits


def machines(*slots: int) -> list[Machine]:
    """Equal rates: 1 s for each 1,000 prompt tokens or 50 output tokens."""
    return [Machine(NodeId(f"n{index}"), count, 1000.0, 50.0) for index, count in enumerate(slots)]


def live(
    fleet: list[Machine],
    calls: list[PlannedCall],
    incidents: list[Incident] | None = None,
    strategy: str = "queue-depth",
    **changes: float,
) -> World:
    """Run to the end, then check what must hold at every end."""
    chosen = limits(**({"waiting_limit": 100_000} | changes))
    scheduler = AuditedScheduler(chosen, strategy_named(strategy))
    world = World(scheduler, fleet, calls, incidents or [])
    steps = list(world.run())
    assert steps[-1] == len(calls)
    assert all(record.outcome is not None for record in world.records), "I1: a call without a fate"
    audit = scheduler.audit
    assert len(audit.fates) == len(calls), "I1"
    assert [audit.fates[n + 1] for n in range(len(calls))] == [  # type: ignore[index]
        record.outcome for record in world.records
    ], "I1: the world and the core disagree on a fate"
    assert not audit.tickets, "I1"
    assert not audit.leases, "I3"
    shown = take_snapshot(scheduler, world.now)
    assert (shown.waiting, shown.in_flight) == (0, 0)
    assert all(not place.attempts for place in world.places.values())
    scheduler.replay()
    return world


def times(world: World) -> list[tuple[str | None, float | None, float | None]]:
    return [(record.node, record.granted_s, record.closed_s) for record in world.records]


def ends_s(world: World) -> float:
    return max(record.closed_s or 0.0 for record in world.records)


def outcomes(world: World) -> list[Outcome | None]:
    return [record.outcome for record in world.records]


TWO_SECONDS = PlannedCall(0.0, prompt_tokens=200, output_tokens=90)


def test_5_calls_on_3_nodes() -> None:
    world = live(machines(1, 1, 1), [TWO_SECONDS] * 5)
    assert [record.node for record in world.records] == ["n0", "n1", "n2", "n0", "n1"]
    assert [record.granted_s for record in world.records] == pytest.approx([0, 0, 0, 2, 2])
    assert [record.first_byte_s for record in world.records] == pytest.approx(
        [0.2, 0.2, 0.2, 2.2, 2.2]
    )
    assert [record.closed_s for record in world.records] == pytest.approx([2, 2, 2, 4, 4])


def test_100_calls_in_one_instant_spread_evenly_over_4_nodes() -> None:
    world = live(machines(1, 1, 1, 1), [TWO_SECONDS] * 100)
    shares = [sum(record.node == f"n{n}" for record in world.records) for n in range(4)]
    assert max(shares) - min(shares) <= 1
    assert ends_s(world) == pytest.approx(50.0)


@settings(max_examples=40)
@given(
    slots=st.lists(st.integers(1, 4), min_size=1, max_size=6),
    outputs=st.lists(st.integers(1, 400), min_size=1, max_size=40),
    strategy=st.sampled_from(sorted(STRATEGIES)),
)
def test_i9_a_burst_on_equal_slots_ends_between_the_floor_and_graham_s_ceiling(
    slots: list[int], outputs: list[int], strategy: str
) -> None:
    fleet = machines(*slots)
    calls = [PlannedCall(0.0, 100, output) for output in outputs]
    world = live(fleet, calls, strategy=strategy)
    each_s = [fleet[0].service_s(call) for call in calls]
    total_s, longest_s, count = sum(each_s), max(each_s), sum(slots)
    assert ends_s(world) >= makespan_floor_s(total_s, longest_s, count) - 1e-6, "I9"
    assert ends_s(world) <= graham_ceiling_s(total_s, longest_s, count) + 1e-6, "I9"


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10_000),
    slots=st.lists(st.integers(1, 3), min_size=1, max_size=4),
    mishaps=st.integers(1, 12),
    arrivals=st.sampled_from(["burst", "fan-out", "poisson"]),
    impatience=st.sampled_from([None, 3.0, 30.0]),
)
def test_whatever_befalls_the_machines_every_call_has_one_fate(
    seed: int, slots: list[int], mishaps: int, arrivals: str, impatience: float | None
) -> None:
    random, fleet = Random(seed), machines(*slots)
    lengths = Lengths(200, 90, spread=0.7)
    match arrivals:
        case "burst":
            calls = burst(40, lengths, random)
        case "fan-out":
            calls = fan_outs(40, 8, 5.0, lengths, random)
        case _:
            calls = poisson(40, 0.5 * sum(slots), lengths, random)
    if impatience is not None:
        calls = [replace(call, leaves_after_s=random.expovariate(1 / impatience)) for call in calls]
    live(fleet, calls, random_incidents(fleet, mishaps, 60.0, random), misses_until_lost_in_use=4)


def test_a_death_moves_what_had_not_begun_and_fails_what_had() -> None:
    calls = [
        PlannedCall(0.0, prompt_tokens=20_000, output_tokens=50),
        PlannedCall(0.0, prompt_tokens=100, output_tokens=5_000),
        PlannedCall(0.0, prompt_tokens=100, output_tokens=50),
    ]
    dies = Incident(1.0, NodeId("n0"), Mishap.DIES)
    world = live(machines(2, 1), calls, [dies])
    # By load per slot: the first and the third go to n0, which dies, the second to n1.
    assert outcomes(world) == [Outcome.ANSWERED] * 2 + [Outcome.FAILED]
    assert [record.attempts for record in world.records] == [2, 1, 1]
    assert world.records[0].node == "n1"


def test_a_machine_that_returns_serves_again() -> None:
    calls = [replace(TWO_SECONDS, at_s=float(at)) for at in range(0, 60, 4)]
    incidents = [
        Incident(3.0, NodeId("n0"), Mishap.DIES),
        Incident(30.0, NodeId("n0"), Mishap.RETURNS),
    ]
    world = live(machines(1), calls, incidents, hopeless_grace_s=60.0)
    assert outcomes(world) == [Outcome.ANSWERED] * len(calls)
    assert world.records[1].granted_s == pytest.approx(30.0, abs=0.1)


def test_a_house_that_is_dead_refuses_in_the_end() -> None:
    calls = [TWO_SECONDS] * 3
    world = live(machines(1), calls, [Incident(1.0, NodeId("n0"), Mishap.DIES)])
    assert outcomes(world) == [Outcome.FAILED] + [Outcome.REFUSED] * 2
    assert "No node could serve" in world.records[2].reason


def test_an_engine_that_is_slow_to_answer_probes_loses_nothing() -> None:
    long_call = PlannedCall(0.0, prompt_tokens=60_000, output_tokens=3_000)
    bare = [replace(machine, version="") for machine in machines(1)]
    world = live(bare, [long_call], [Incident(5.0, NodeId("n0"), Mishap.SLOWS)])
    assert outcomes(world) == [Outcome.ANSWERED]
    assert world.records[0].attempts == 1
    assert ends_s(world) == pytest.approx(120.0)


def test_a_node_that_freezes_is_lost_and_its_call_moves() -> None:
    long_call = PlannedCall(0.0, prompt_tokens=60_000, output_tokens=3_000)
    world = live(machines(1, 1), [long_call], [Incident(5.0, NodeId("n0"), Mishap.SLOWS)])
    assert (outcomes(world), world.records[0].attempts) == ([Outcome.ANSWERED], 2)
    assert 5.0 + 15.0 < ends_s(world) - 120.0 < 5.0 + 20.0


def test_a_crash_is_one_more_attempt() -> None:
    calls = [PlannedCall(0.0, prompt_tokens=2_000, output_tokens=50)] * 2
    crash = Incident(1.0, NodeId("n0"), Mishap.RESETS)
    world = live(machines(1, 1), calls, [crash])
    assert outcomes(world) == [Outcome.ANSWERED] * 2
    assert sorted(record.attempts for record in world.records) == [1, 2]


def test_a_client_that_leaves_frees_its_slot() -> None:
    calls = [replace(TWO_SECONDS, leaves_after_s=0.5), TWO_SECONDS]
    world = live(machines(1), calls)
    assert outcomes(world) == [Outcome.CLIENT_LEFT, Outcome.ANSWERED]
    assert world.records[1].granted_s == pytest.approx(0.5 + FIRST_LOOK_S)


def test_a_turn_comes_when_the_one_before_was_answered_and_read() -> None:
    calls = [
        TWO_SECONDS,
        replace(TWO_SECONDS, follows=0, after_s=3.0),
        replace(TWO_SECONDS, follows=1),
        replace(TWO_SECONDS, follows=0, at_s=20.0),
    ]
    world = live(machines(1), calls)
    assert [record.opened_s for record in world.records] == pytest.approx([0.0, 5.0, 7.0, 20.0])


def test_a_turn_comes_also_when_the_one_before_failed() -> None:
    calls = [replace(TWO_SECONDS, leaves_after_s=1.0), replace(TWO_SECONDS, follows=0, after_s=1.0)]
    world = live(machines(1), calls)
    assert outcomes(world) == [Outcome.CLIENT_LEFT, Outcome.ANSWERED]
    assert world.records[1].opened_s == pytest.approx(2.0)


def test_calls_may_stand_in_any_order() -> None:
    calls = [replace(TWO_SECONDS, at_s=at_s) for at_s in (6.0, 0.0, 3.0)]
    world = live(machines(1), calls)
    assert [record.opened_s for record in world.records] == pytest.approx([6.0, 0.0, 3.0])


def test_a_rehearsal_comes_before_and_is_in_no_figure() -> None:
    scheduler = AuditedScheduler(limits())
    rehearsal = [TWO_SECONDS, replace(TWO_SECONDS, follows=0)]
    crash = Incident(0.1, NodeId("n0"), Mishap.RESETS)
    world = World(scheduler, machines(1), [TWO_SECONDS] * 2, [crash], rehearsal=rehearsal)
    assert list(world.run())[-1] == 2
    assert [record.opened_s for record in world.records] == [0.0, 0.0]
    assert sum(record.attempts for record in world.records) == 3, "the crash is not rehearsed"
    fates = scheduler.audit.fates
    assert [fates[TicketId(ticket)] for ticket in (3, 4)] == [Outcome.ANSWERED] * 2
    assert world.now == pytest.approx(2 * WARM_UP_S + 4.0 + (world.records[1].closed_s or 0.0))


def test_after_a_rehearsal_the_scheduler_knows_its_machines() -> None:
    """Cold, equal shares; warm, nearly all on the machine that is ten times as fast."""
    fast, slow = Machine(NodeId("f"), 1, 1000.0, 50.0), Machine(NodeId("s"), 1, 100.0, 5.0)
    calls = [TWO_SECONDS] * 4
    cold = live([slow, fast], calls, strategy="finish-time")
    scheduler = AuditedScheduler(limits(), strategy_named("finish-time"))
    warm = World(scheduler, [slow, fast], calls, rehearsal=[TWO_SECONDS] * 6)
    for _ in warm.run():
        pass
    assert ends_s(cold) == pytest.approx(20.0)
    assert ends_s(warm) == pytest.approx(8.0)


def test_the_same_plan_gives_the_same_run() -> None:
    def one() -> World:
        random, fleet = Random(3), machines(1, 2, 1)
        calls = poisson(60, 1.5, Lengths(200, 90, spread=1.0), random)
        return live(fleet, calls, random_incidents(fleet, 6, 40.0, random))

    assert times(one()) == times(one())


def test_nothing_to_do_takes_no_time() -> None:
    world = World(AuditedScheduler(limits()), machines(1), [])
    assert list(world.run()) == []


def test_1000_calls_with_hang_ups_crashes_and_deaths() -> None:
    random, fleet = Random(5), machines(1, 1, 2, 2, 4, 1, 1, 1)
    calls = [
        replace(call, leaves_after_s=random.expovariate(0.1)) if random.random() < 0.3 else call
        for call in poisson(1000, 6.0, Lengths(200, 90, spread=0.7), random)
    ]
    world = live(fleet, calls, random_incidents(fleet, 40, 170.0, random))
    counts = {fate: sum(fate is other for other in outcomes(world)) for fate in Outcome}
    assert counts[Outcome.REFUSED] == 0
    assert all(counts[fate] for fate in Outcome if fate is not Outcome.REFUSED), counts
