"""What proxies that share machines see of each other: refusals, and reports that come unasked."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pair.core.events import AttemptFailed, FailureKind, NodeReported
from pair.core.names import FlowId, NodeId, Outcome
from pair.sim.experiment import scheduler_for
from pair.sim.house import PUSH_GAP_S, PUSH_WAY_S
from pair.sim.machines import Incident, Machine, Mishap, random_incidents
from pair.sim.workload import Lengths, PlannedCall, burst, poisson
from pair.sim.world import WARM_UP_S, World
from tests.core.audit import AuditedScheduler
from tests.core.limits import limits
from tests.sim.noting import seen

TWO_SECONDS = PlannedCall(0.0, prompt_tokens=200, output_tokens=90)


def lived(
    machines: list[Machine],
    calls: list[PlannedCall],
    proxies: int,
    incidents: list[Incident] | None = None,
) -> tuple[World, list[AuditedScheduler]]:
    """Run to the end, each proxy under the audit."""
    schedulers = [AuditedScheduler(limits(waiting_limit=10_000)) for _ in range(proxies)]
    world = World(schedulers[0], machines, calls, incidents or [], beside=schedulers[1:])
    for _ in world.run():
        pass
    assert all(record.outcome is not None for record in world.records), "I1"
    assert all(not place.attempts for place in world.places.values())
    for scheduler in schedulers:
        assert not scheduler.audit.tickets, "I1"
        scheduler.replay()
    return world, schedulers


def one_slot(count: int) -> list[Machine]:
    return [Machine(NodeId(f"n{number}"), 1, 1000.0, 50.0) for number in range(count)]


def pushes(scheduler: AuditedScheduler) -> list[tuple[float, NodeReported]]:
    return [(now, event) for now, event in seen(scheduler, NodeReported) if event.pushed]


def test_a_full_machine_turns_a_call_away_at_once() -> None:
    world, (_, second) = lived(one_slot(1), [TWO_SECONDS] * 2, 2)
    assert [record.refusals for record in world.records] == [0, 1]
    (failed,) = seen(second, AttemptFailed)
    assert (failed[0], failed[1].failure.kind) == (WARM_UP_S, FailureKind.BUSY)
    assert [record.outcome for record in world.records] == [Outcome.ANSWERED] * 2


def test_the_other_proxy_hears_of_a_free_slot_at_once() -> None:
    call = PlannedCall(0.0, prompt_tokens=537, output_tokens=90)
    world, _ = lived(one_slot(1), [call] * 2, 2)
    assert world.records[1].granted_s == pytest.approx(2.337 + PUSH_WAY_S)


def test_reports_come_unasked_on_each_change_but_not_too_often() -> None:
    calls = [PlannedCall(0.0, prompt_tokens=1, output_tokens=1)] * 40
    _, (first, second) = lived(one_slot(1), calls, 2)
    times = [now for now, _ in pushes(second)]
    assert len(times) > 2
    assert all(later - now >= PUSH_GAP_S - 1e-9 for now, later in pairwise(times))
    numbers = [event.report.number for _, event in pushes(second)]
    assert numbers == sorted(set(numbers)), "each tells of something new"
    assert [event.report.number for _, event in pushes(first)] == numbers


def test_a_report_says_what_of_the_load_is_whose_and_whose_turn_is_next() -> None:
    calls = [PlannedCall(at_s, 537, 90) for at_s in (0.0, 0.0)]
    _, (first, second) = lived(one_slot(1), calls, 2)
    for scheduler, expected in ((first, {(1, 1), (2, 1)}), (second, {(1, 0), (0, 0)})):
        said = [event.report.replicas[0] for _, event in pushes(scheduler)]
        assert {(one.load, one.yours) for one in said} >= expected


def test_whoever_was_turned_away_goes_before_whoever_was_served() -> None:
    """Else the proxy with many calls, which knows first that one has ended, would serve them all
    before the other one has its first.
    """
    calls = [PlannedCall(0.0, 537, 90, flow=FlowId("many"))] * 6
    calls += [PlannedCall(0.1, 537, 90, flow=FlowId("one"))]
    world, _ = lived(one_slot(1), calls, 2)
    # At the first end it comes too late by a moment, at the second it is its turn.
    assert world.records[-1].granted_s == pytest.approx(2 * 2.337, abs=0.01)
    assert world.records[-1].refusals == 1


def test_a_proxy_that_is_alone_is_told_only_what_it_cannot_know() -> None:
    _, (scheduler,) = lived(one_slot(2), [TWO_SECONDS] * 6, 1)
    assert not pushes(scheduler)


@pytest.mark.parametrize("mishap", [Mishap.DIES, Mishap.SLOWS])
def test_a_machine_that_is_silent_sends_nothing(mishap: Mishap) -> None:
    incidents = [Incident(3.0, NodeId("n0"), mishap)]
    calls = [PlannedCall(at_s, 200, 90) for at_s in (0.0, 0.5, 1.0, 2.5, 3.5, 4.0)]
    _, (first, _) = lived(one_slot(2), calls, 2, incidents)
    after = {event.node for now, event in pushes(first) if now > WARM_UP_S + 3.0 + PUSH_WAY_S}
    assert after == {"n1"}


def test_an_engine_on_its_own_sends_nothing() -> None:
    bare = [Machine(NodeId("n0"), 1, 1000.0, 50.0, version="")]
    world, (first, second) = lived(bare, [TWO_SECONDS] * 4, 2)
    assert not pushes(first)
    assert not pushes(second)
    assert [record.outcome for record in world.records] == [Outcome.ANSWERED] * 4


@pytest.mark.parametrize(("proxies", "refusals_a_call"), [(2, 0.4), (4, 0.6), (8, 0.9)])
def test_proxies_that_share_machines_seldom_collide(proxies: int, refusals_a_call: float) -> None:
    """At 90% of what the machines can do, every proxy with clients of its own. When this was
    written: 0.25, 0.44 and 0.66, and nobody waited longer than with one proxy for all.
    """
    calls = poisson(600, 0.9 * 2.0, Lengths(200, 90, spread=0.5), Random(1))
    wide = limits(waiting_limit=10_000)
    first, *others = (scheduler_for(wide, "queue-depth") for _ in range(proxies))
    world = World(first, one_slot(4), calls, beside=others)
    for _ in world.run():
        pass
    refusals = sum(record.refusals for record in world.records)
    assert [record.outcome for record in world.records] == [Outcome.ANSWERED] * len(calls)
    assert refusals / len(calls) <= refusals_a_call
    assert max(r.closed_s or 0.0 for r in world.records) == pytest.approx(353, abs=5)


def test_one_flow_goes_through_one_proxy_and_turns_with_it() -> None:
    calls = [
        PlannedCall(0.0, 200, 90, flow=FlowId("one")),
        PlannedCall(0.0, 200, 90, flow=FlowId("two")),
        PlannedCall(0.0, 200, 90, follows=1),
        PlannedCall(1.0, 200, 90, flow=FlowId("one")),
    ]
    _, schedulers = lived(one_slot(4), calls, 2)
    assert [sorted(scheduler.audit.fates) for scheduler in schedulers] == [[1, 4], [2, 3]]


@settings(max_examples=15)
@given(
    seed=st.integers(0, 10_000),
    slots=st.lists(st.integers(1, 3), min_size=1, max_size=4),
    mishaps=st.integers(0, 8),
    proxies=st.integers(2, 5),
    together=st.booleans(),
)
def test_whatever_befalls_shared_machines_every_call_has_one_fate(
    seed: int, slots: list[int], mishaps: int, proxies: int, together: bool
) -> None:
    random = Random(seed)
    machines = [Machine(NodeId(f"n{i}"), count, 1000.0, 50.0) for i, count in enumerate(slots)]
    lengths = Lengths(200, 90, spread=0.7)
    calls = burst(40, lengths, random) if together else poisson(40, sum(slots) / 2, lengths, random)
    lived(machines, calls, proxies, random_incidents(machines, mishaps, 60.0, random))
