"""Leases: to whom the strategy gives them, their words, and what a job learns of the fleet."""

from __future__ import annotations

import pytest

from pair.core.decisions import Dispatch
from pair.core.events import FailureKind
from pair.core.names import JobId, LeaseId, NodeId, TicketId
from pair.core.ticket import Ticket
from tests.core.audit import AuditedScheduler
from tests.core.hesitant import Hesitant
from tests.core.house import replica, report
from tests.core.limits import limits
from tests.core.story import (
    Story,
    answered,
    call,
    calls,
    comes,
    failed,
    hangs_up,
)

ONE, LEASE = TicketId(1), LeaseId(1)


def test_a_dispatch_says_why_for_how_long_and_for_which_job() -> None:
    story = Story("a").at(1.0).sees(call(1, job="team"), call(2, job="team"))
    story.at(3.0).sees(answered(1)).sees(failed(2, FailureKind.RESET, "cable pulled")).at(4.5)
    first, second, again = (d for d in story.house.said if isinstance(d, Dispatch))
    assert first.reason == "shortest queue: 0 of 1 slots used, 1 free to choose from"
    assert second.queued_s == pytest.approx(2.0)
    assert second.job == "team"
    assert again.reason.endswith("; attempt 2 after: cable pulled")
    assert again.queued_s == pytest.approx(3.0)
    story.sees(answered(2)).ends()


def test_a_pinned_job_is_measured_against_its_node_only() -> None:
    story = Story("abc").at(1.0).sees(*(call(n, job="t/alone", pin="b") for n in (1, 2)))
    story.sees(call(3, job="t"))
    jobs = story.house.scheduler.desk.jobs
    alone, team = jobs.job(JobId("t/alone")), jobs.job(JobId("t"))
    assert alone is not None
    assert team is not None
    assert list(alone.fleet) == ["b"]
    assert list(team.fleet) == ["a", "b", "c"]
    story.sees(*map(hangs_up, (1, 2, 3)))


def test_a_node_that_joins_a_running_job_counts_for_its_limit() -> None:
    story = Story("a").at(1.0).sees(*(call(n, job="t") for n in (1, 2, 3))).sees(comes("b")).at(2.0)
    team = story.house.scheduler.desk.jobs.job(JobId("t"))
    assert team is not None
    assert list(team.fleet) == ["a", "b"]
    story.sees(*map(hangs_up, (1, 2, 3))).ends()


class Waiting(Hesitant):
    """Leaves the tickets of `patient` waiting, and no others."""

    def __init__(self, *patient: int) -> None:
        super().__init__()
        self.patient = set(patient)

        self.asked: list[int] = []

    def declines(self, ticket: Ticket, now: float) -> bool:
        self.asked.append(ticket.id)
        return ticket.id in self.patient


def told_with(strategy: Waiting) -> Story:
    story = Story()
    story.house.scheduler = AuditedScheduler(limits(), strategy)
    return story


def test_a_strategy_may_leave_a_ticket_waiting_until_the_next_event() -> None:
    strategy = Waiting(1)
    story = told_with(strategy).sees(comes("a")).at(0.5).sees(call(1)).expects()
    strategy.patient.clear()
    story.at(1.1).expects("1 to a")
    assert story.house.scheduler.audit.leases.keys() == {LEASE}
    assert story.house.leases[ONE].replica.node == NodeId("a")


def test_whom_a_strategy_leaves_waiting_is_asked_once_at_an_event() -> None:
    strategy = Waiting(1, 2)
    story = told_with(strategy).sees(comes("a")).at(0.5).sees(call(1))
    assert strategy.asked == [1]
    story.sees(call(2))
    assert strategy.asked == [1, 1, 2]
    story.sees(*map(hangs_up, (1, 2)))


def test_whom_a_strategy_leaves_waiting_holds_up_nobody_else() -> None:
    strategy = Waiting(1, 3)
    story = told_with(strategy)
    two_models = report("a", replica("m", slots=2), replica("n"))
    story.sees(comes("a", says=two_models)).at(0.5).sees(*calls(1, 2, 3, 4), call(5, "n"))
    story.expects("2 to a", "4 to a", "5 to a")
    story.sees(call(6), call(7), answered(2)).expects("6 to a")
    strategy.patient.clear()
    story.sees(answered(4)).expects("1 to a").sees(answered(1)).expects("3 to a")
    story.sees(answered(3)).expects("7 to a").sees(*map(answered, (5, 6, 7)))


def test_a_pinned_ticket_that_a_strategy_leaves_waiting_keeps_its_place() -> None:
    strategy = Waiting(1, 2)
    story = told_with(strategy).sees(comes("a"))
    story.at(0.5).sees(call(1, pin="a"), call(2), call(3)).expects("3 to a")
    strategy.patient.clear()
    story.sees(answered(3)).expects("1 to a").sees(answered(1)).expects("2 to a")
    story.sees(answered(2))
