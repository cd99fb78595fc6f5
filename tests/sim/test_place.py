"""One machine, whose calls a real proxy sends: what an engine does with them, second by second."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pair.core.events import Closed, NodeReported, Usage
from pair.core.names import NodeId, Outcome
from pair.sim.machines import Incident, Machine, Mishap
from pair.sim.place import CallRecord
from pair.sim.text import Run
from pair.sim.workload import PlannedCall
from pair.sim.world import WARM_UP_S, World
from tests.core.audit import AuditedScheduler
from tests.core.limits import limits
from tests.sim.noting import seen

MACHINE = Machine(NodeId("n"), 1, 1000.0, 50.0)
TURN = PlannedCall(0.0, 1000, 50, text=(Run(1, 1000),), answer=2)
"""Two seconds: one to read, one to write."""
NEXT_TURN = PlannedCall(10.0, 1150, 50, text=(Run(1, 1000), Run(2, 50), Run(3, 100)))


def lived(
    machine: Machine, *calls: PlannedCall, incidents: tuple[Incident, ...] = ()
) -> tuple[list[CallRecord], AuditedScheduler]:
    """What became of the calls, and what the scheduler saw."""
    scheduler = AuditedScheduler(limits())
    world = World(scheduler, [machine], calls, incidents)
    for _ in world.run():
        pass
    return world.records, scheduler


def usages(scheduler: AuditedScheduler) -> list[Usage]:
    return [event.usage for _, event in seen(scheduler, Closed)]


def took_s(record: CallRecord) -> float:
    assert record.closed_s is not None
    assert record.opened_s is not None
    return record.closed_s - record.opened_s


def test_a_turn_that_goes_on_reads_only_what_is_new() -> None:
    (first, second), scheduler = lived(MACHINE, TURN, NEXT_TURN)
    assert (first.cached_tokens, second.cached_tokens) == (0, 1050)
    assert took_s(first) == pytest.approx(2.0)
    assert second.first_byte_s == pytest.approx(10.1)
    told = usages(scheduler)[1]
    assert (told.prompt_tokens, told.cached_tokens, told.output_tokens) == (1150, 1050, 50)
    assert (told.prefill_s, told.decode_s, told.load_s) == pytest.approx((0.1, 1.0, 0.0))


def test_an_engine_may_keep_its_clock_to_itself() -> None:
    _, scheduler = lived(replace(MACHINE, tells_times=False), TURN)
    assert usages(scheduler) == [Usage(1000, 0, 50)]


@pytest.mark.parametrize(("leaves_after_s", "read"), [(0.25, 250), (1.0 + 0.5, 1025)])
def test_what_was_read_before_a_hang_up_stays_read(leaves_after_s: float, read: int) -> None:
    (_, second), _ = lived(MACHINE, replace(TURN, leaves_after_s=leaves_after_s), NEXT_TURN)
    assert second.cached_tokens == read


@pytest.mark.parametrize("ends", [(Mishap.RESETS,), (Mishap.DIES, Mishap.RETURNS)])
def test_a_new_engine_has_read_nothing(ends: tuple[Mishap, ...]) -> None:
    incidents = tuple(
        Incident(4.0 + number, MACHINE.id, mishap) for number, mishap in enumerate(ends)
    )
    (_, second), _ = lived(MACHINE, TURN, replace(NEXT_TURN, at_s=30.0), incidents=incidents)
    assert (second.outcome, second.cached_tokens) == (Outcome.ANSWERED, 0)


def test_calls_at_once_slow_each_other() -> None:
    machine = replace(MACHINE, slots=2, slowdown=0.5)
    records, scheduler = lived(machine, PlannedCall(0.0, 1000, 50), PlannedCall(0.0, 1000, 50))
    assert [took_s(record) for record in records] == pytest.approx([3.0, 3.0])
    assert usages(scheduler)[0].decode_s == pytest.approx(1.5), "its own clock shows it"


def test_a_cold_model_is_loaded_once_for_all_who_wait_for_it() -> None:
    machine = replace(MACHINE, slots=2, load_s=5.0, resident=False)
    calls = [PlannedCall(at_s, 1000, 50) for at_s in (0.0, 2.0, 20.0)]
    records, scheduler = lived(machine, *calls)
    assert [record.load_s for record in records] == pytest.approx([5.0, 3.0, 0.0])
    assert [took_s(record) for record in records] == pytest.approx([7.0, 5.0, 2.0])
    assert [usage.load_s for usage in usages(scheduler)] == pytest.approx([5.0, 3.0, 0.0])
    said = [
        (now - WARM_UP_S, event.report.replicas[0].resident)
        for now, event in seen(scheduler, NodeReported)
    ]
    assert all(resident == (at >= 5.0) for at, resident in said), said
    assert any(5.0 <= at < 5.1 for at, resident in said if resident), "it says so at once"


def test_an_idle_model_is_dropped_and_its_prompts_with_it() -> None:
    machine = replace(MACHINE, load_s=5.0, unload_after_s=60.0)
    kept, dropped = replace(NEXT_TURN, at_s=50.0), replace(NEXT_TURN, at_s=130.0)
    records, scheduler = lived(machine, TURN, kept, dropped)
    assert [record.load_s for record in records] == [0.0, 0.0, 5.0]
    assert [record.cached_tokens for record in records] == [0, 1050, 0]
    before = [
        event.report.replicas[0].resident
        for now, event in seen(scheduler, NodeReported)
        if 120.0 < now - WARM_UP_S < 130.0
    ]
    assert before
    assert not any(before)


def test_who_hangs_up_while_the_model_loads_leaves_nothing_behind() -> None:
    machine = replace(MACHINE, load_s=5.0, resident=False)
    first = replace(TURN, leaves_after_s=1.0)
    (left, second), _ = lived(machine, first, replace(NEXT_TURN, at_s=2.0))
    assert left.outcome is Outcome.CLIENT_LEFT
    assert (second.outcome, second.cached_tokens) == (Outcome.ANSWERED, 0)
    assert second.load_s < 5.0, "the model goes on loading"


def test_busy_time_is_that_of_answers() -> None:
    scheduler = AuditedScheduler(limits())
    calls = [TURN, replace(TURN, at_s=10.0, leaves_after_s=0.5)]
    world = World(scheduler, [MACHINE], calls)
    for _ in world.run():
        pass
    assert world.places[MACHINE.id].busy_s == pytest.approx(2.0)


def test_a_call_that_does_not_fit_is_answered_so_at_once() -> None:
    """Nobody could know: the client does not say how long its answer will be."""
    (record,), _ = lived(replace(MACHINE, context_tokens=1020), TURN)
    assert (record.outcome, record.too_long) == (Outcome.ANSWERED, True)
    assert took_s(record) == 0.0
