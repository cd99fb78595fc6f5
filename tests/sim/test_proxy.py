"""The shell around a scheduler: what clients say reaches it, and each of them has one end."""

from __future__ import annotations

from pair.core.events import AttemptFailed, Closed, FailureKind, FirstByte, Opened
from pair.core.names import FlowId, JobId, NodeId, Outcome, Priority, SessionId
from pair.sim.machines import MODEL, Incident, Machine, Mishap
from pair.sim.text import Run
from pair.sim.workload import PlannedCall
from pair.sim.world import WARM_UP_S, World
from tests.core.audit import AuditedScheduler
from tests.core.limits import limits
from tests.sim.noting import seen

CALL = PlannedCall(0.0, prompt_tokens=1000, output_tokens=50)


def lived(calls: list[PlannedCall], incidents: list[Incident], **changes: float) -> World:
    scheduler = AuditedScheduler(limits(**changes))
    machines = [Machine(NodeId(name), 1, 1000.0, 50.0) for name in ("a", "b")]
    world = World(scheduler, machines, calls, incidents)
    for _ in world.run():
        pass
    return world


def log_of(world: World) -> AuditedScheduler:
    assert isinstance(world.scheduler, AuditedScheduler)
    return world.scheduler


def test_the_scheduler_is_told_all_that_a_client_says() -> None:
    call = PlannedCall(
        0.0,
        1000,
        50,
        job=JobId("job"),
        text=(Run(1, 600), Run(2, 400)),
        output_limit_tokens=70,
        session=SessionId("talk"),
        flow=FlowId("team"),
        priority=Priority.BULK,
    )
    ((at, opened),) = seen(log_of(lived([call], [])), Opened)
    assert at == WARM_UP_S
    assert (opened.model, opened.job, opened.streamed) == (MODEL, "job", True)
    assert (opened.session, opened.flow, opened.priority) == ("talk", "team", Priority.BULK)
    assert (opened.prompt.chars, opened.prompt.output_limit_tokens) == (4000, 70)
    assert len(opened.prompt.fingerprints) == 4000 // 256


def test_times_in_records_count_from_the_first_call() -> None:
    world = lived([CALL], [])
    (record,) = world.records
    assert (record.opened_s, record.granted_s) == (0.0, 0.0)
    assert (record.first_byte_s, record.closed_s) == (1.0, 2.0)
    assert [now for now, _ in seen(log_of(world), FirstByte)] == [WARM_UP_S + 1.0]


def test_an_answer_that_breaks_off_is_a_cut_and_the_end() -> None:
    world = lived([CALL], [Incident(1.5, NodeId("a"), Mishap.RESETS)])
    ((_, failed),) = seen(log_of(world), AttemptFailed)
    assert failed.failure.kind is FailureKind.CUT
    assert [record.outcome for record in world.records] == [Outcome.FAILED]


def test_before_its_first_byte_it_goes_elsewhere() -> None:
    world = lived([CALL], [Incident(0.5, NodeId("a"), Mishap.RESETS)])
    ((_, failed),) = seen(log_of(world), AttemptFailed)
    assert failed.failure.kind is FailureKind.RESET
    assert [(r.outcome, r.node, r.attempts) for r in world.records] == [(Outcome.ANSWERED, "b", 2)]


def test_a_client_that_leaves_while_it_waits_is_told_of_once() -> None:
    leaves = PlannedCall(0.0, 1000, 50, leaves_after_s=0.5)
    world = lived([CALL, CALL, leaves], [])
    fates = [(event.ticket, event.outcome) for _, event in seen(log_of(world), Closed)]
    assert fates == [(3, Outcome.CLIENT_LEFT), (1, Outcome.ANSWERED), (2, Outcome.ANSWERED)]
    assert world.records[2].granted_s is None


def test_a_refused_client_knows_why() -> None:
    world = lived([CALL] * 4, [], waiting_limit=1)
    assert [record.outcome for record in world.records] == [Outcome.ANSWERED] * 3 + [
        Outcome.REFUSED
    ]
    assert world.records[3].reason
