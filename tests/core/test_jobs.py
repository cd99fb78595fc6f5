from __future__ import annotations

import pytest

from pair.core.events import Opened, Usage
from pair.core.jobs import JobLog
from pair.core.names import JobId, ModelName, NodeId, Outcome, TicketId
from pair.core.ticket import Ticket
from tests.core.limits import limits
from tests.core.test_ledger import a_replica


class Log:
    """A job log with the tickets that go in and out of it."""

    def __init__(self, **changes: float) -> None:
        self.log = JobLog(limits(job_gap_s=2.0, **changes))
        self.tickets: dict[int, Ticket] = {}

    def open(
        self,
        ticket: int,
        now: float,
        *,
        model: str = "m",
        job: str | None = None,
        served: bool = True,
    ) -> str:
        named = None if job is None else JobId(job)
        one = Ticket(Opened(TicketId(ticket), ModelName(model), job=named), ticket, now)
        self.tickets[ticket] = one
        found = self.log.open(one, now).id
        if served:
            self.log.granted(one, a_replica(), "", now)
        return found

    def close(self, ticket: int, now: float, outcome: Outcome = Outcome.ANSWERED) -> None:
        self.log.close(self.tickets.pop(ticket), outcome, Usage(output_tokens=7), "", now)


def test_calls_that_overlap_or_follow_soon_are_one_job() -> None:
    log = Log()
    assert log.open(1, 0.0) == "found-1"
    assert log.open(2, 0.1) == "found-1"
    log.close(1, 5.0)
    assert log.open(3, 9.0) == "found-1", "2 still runs"
    log.close(2, 10.0)
    log.close(3, 11.0)
    assert log.open(4, 13.0) == "found-1"
    log.close(4, 14.0)
    assert log.open(5, 16.1) == "found-2"


def test_models_are_told_apart_and_names_put_together() -> None:
    log = Log()
    assert log.open(1, 0.0, model="m") == "found-1"
    assert log.open(2, 0.0, model="n") == "found-2"
    assert log.open(3, 0.0, model="m", job="team") == "team"
    assert log.open(4, 0.0, model="n", job="team") == "team"
    log.close(3, 1.0)
    log.close(4, 1.0)
    assert log.open(5, 100.0, job="team") == "team"


def test_a_job_knows_its_width_its_idle_time_and_its_size() -> None:
    log = Log(calls_limit=2)
    for ticket, now in ((1, 0.0), (2, 0.0)):
        log.open(ticket, now)
    log.close(1, 2.0)
    log.close(2, 3.0)
    log.open(3, 4.5)
    log.close(3, 6.0)
    (job,) = log.log.jobs()
    assert (job.width, job.calls_total, len(job.calls)) == (2, 3, 2)
    assert job.idle_s == pytest.approx(1.5)
    assert job.last_closed_at == 6.0
    assert not job.running


def test_a_call_s_story_is_kept() -> None:
    log = Log()
    log.open(1, 10.0, served=False)
    ticket, one = log.tickets[1], a_replica("a", slots=3)
    assert log.log.jobs()[0].calls[TicketId(1)].service_s is None
    ticket.attempts, ticket.queued_s = 1, 0.5
    log.log.granted(ticket, one, "shortest queue", 10.5)
    ticket.attempts = 2
    log.log.granted(ticket, a_replica("b"), "shortest queue; attempt 2", 12.0)
    log.log.first_byte(ticket.id, 12.5)
    log.close(1, 14.0)
    (call,) = log.log.jobs()[0].calls.values()
    assert (call.node, call.granted_at, call.first_byte_at, call.service_s) == ("b", 12.0, 12.5, 2)
    assert (call.attempts, call.queued_s, call.outcome) == (2, 0.5, Outcome.ANSWERED)
    assert call.usage.output_tokens == 7
    assert log.log.of_ticket(TicketId(1)) is None


def test_the_fleet_counts_every_node_at_its_largest() -> None:
    log = Log()
    log.open(1, 0.0)
    (job,) = log.log.jobs()
    job.note_fleet([a_replica("a", slots=1), a_replica("a", slots=2), a_replica("b")])
    job.note_fleet([a_replica("a", slots=1), a_replica("c", slots=4)])
    assert job.fleet == {NodeId("a"): ("a", 3), NodeId("b"): ("b", 1), NodeId("c"): ("c", 4)}


def test_the_log_is_bounded_and_forgets_finished_jobs_first() -> None:
    log = Log(jobs_limit=2)
    log.open(1, 0.0, job="runs")
    log.open(2, 0.0, job="ends")
    log.close(2, 1.0)
    log.open(3, 1.0, job="new")
    assert [job.id for job in log.log.jobs()] == ["runs", "new"]
    log.open(4, 1.0, job="newer")
    assert [job.id for job in log.log.jobs()] == ["new", "newer"], "the oldest goes if all run"
    log.close(1, 2.0)
    assert log.log.job(JobId("runs")) is None


def test_named_jobs_that_nobody_served_push_out_no_served_one() -> None:
    log = Log(jobs_limit=3)
    log.open(1, 0.0, job="served")
    log.close(1, 1.0)
    for number in range(2, 10):
        log.open(number, 2.0, job=f"refused-{number}", served=False)
        log.close(number, 2.0, Outcome.REFUSED)
    assert [job.id for job in log.log.jobs()] == ["served", "refused-8", "refused-9"]


def test_a_found_job_takes_no_name_that_a_client_gave() -> None:
    log = Log()
    assert log.open(1, 0.0, model="other", job="found-1") == "found-1"
    assert log.open(2, 0.0) == "found-2"
    assert [(job.id, job.named) for job in log.log.jobs()] == [
        ("found-1", True),
        ("found-2", False),
    ]


def test_names_that_clients_make_up_fill_no_table() -> None:
    log = Log(jobs_limit=3)
    for number in range(50):
        log.open(number, 10.0 * number, model=f"m{number}", served=number % 2 == 0)
        log.close(number, 10.0 * number + 1.0)
    tables = [value for value in vars(log.log).values() if isinstance(value, dict)]
    assert len(tables) == 3
    assert all(len(table) <= 3 for table in tables), tables


def test_a_found_job_that_was_forgotten_is_not_continued() -> None:
    log = Log(jobs_limit=1)
    assert log.open(1, 0.0) == "found-1"
    log.open(2, 0.0, job="team")
    assert log.open(3, 0.0) == "found-2"
    assert len(log.log) == 1


def test_a_baseline_is_the_finished_job_of_that_name() -> None:
    log = Log()
    log.open(1, 0.0, job="team/alone")
    log.open(2, 0.0, job="team")
    team = log.log.job(JobId("team"))
    assert team is not None
    assert log.log.baseline_of(team) is None, "it still runs"
    log.close(1, 1.0)
    alone = log.log.baseline_of(team)
    assert alone is not None
    assert alone.id == "team/alone"
    assert log.log.baseline_of(alone) is None


def test_what_nobody_could_serve_leaves_no_job_behind_unless_it_was_named() -> None:
    log = Log()
    log.open(1, 0.0, model="nowhere", served=False)
    log.open(2, 0.0, model="nowhere", served=False)
    log.close(1, 1.0, Outcome.REFUSED)
    assert [job.id for job in log.log.jobs()] == ["found-1"], "2 still waits"
    log.close(2, 1.0, Outcome.REFUSED)
    assert log.log.jobs() == ()
    assert log.open(3, 1.5, model="nowhere", served=False) == "found-2"
    log.close(3, 2.0, Outcome.REFUSED)
    log.open(4, 2.0, job="team", served=False)
    log.close(4, 3.0, Outcome.REFUSED)
    assert [job.id for job in log.log.jobs()] == ["team"]


def test_light_tickets_are_in_no_job() -> None:
    log = Log()
    light = Ticket(Opened(TicketId(1), None, light=True), 1, 0.0)
    log.log.granted(light, a_replica(), "", 0.0)
    log.log.first_byte(light.id, 0.0)
    log.log.close(light, Outcome.ANSWERED, Usage(), "", 1.0)
    assert len(log.log) == 0
