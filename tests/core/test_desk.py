"""The ticket side: what contradicts the books, light requests, and the words on a dispatch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pair.core.decisions import Dispatch, Refuse
from pair.core.events import AttemptFailed, Closed, Failure, FailureKind, FirstByte, Opened
from pair.core.names import JobId, LeaseId, ModelName, NodeId, Outcome, TicketId
from pair.core.ticket import Ticket
from pair.errors import BookkeepingError
from tests.core.audit import AuditedScheduler
from tests.core.hesitant import Hesitant
from tests.core.house import replica, report
from tests.core.limits import limits
from tests.core.story import (
    Happening,
    Story,
    answered,
    call,
    calls,
    comes,
    drains,
    ends_failed,
    failed,
    hangs_up,
    refused,
)

ONE, LEASE = TicketId(1), LeaseId(1)
RESET = Failure(FailureKind.RESET, "gone")


@pytest.mark.parametrize(
    ("happening", "message"),
    [
        (Opened(ONE, ModelName("m")), "I1: ticket 1 is open already"),
        (Closed(TicketId(9), Outcome.ANSWERED), "I1: ticket 9 is not open"),
        (FirstByte(TicketId(9), LEASE), "I1: ticket 9 is not open"),
        (FirstByte(ONE, LeaseId(7)), "first byte for ticket 1, which does not hold lease 7"),
        (AttemptFailed(TicketId(2), LEASE, RESET), "I3: ticket 2 does not hold lease 1"),
        (AttemptFailed(ONE, LeaseId(7), RESET), "I3: ticket 1 does not hold lease 7"),
        (Opened(TicketId(9), None), "ticket 9 names no model and is not light"),
    ],
)
def test_what_contradicts_the_books_raises(happening: Happening, message: str) -> None:
    story = Story("a").at(1.0).sees(*calls(1, 2)).expects("1 to a")
    with pytest.raises(BookkeepingError, match=message):
        story.sees(happening)


def test_a_second_close_raises() -> None:
    story = Story("a").at(1.0).sees(call(1), answered(1)).expects("1 to a")
    with pytest.raises(BookkeepingError, match="I1: ticket 1 is not open"):
        story.sees(answered(1))


def test_a_light_ticket_moves_on_from_a_node_that_is_full_instead_of_going_in_circles() -> None:
    story = Story("ab").at(1.0).sees(call(1, light=True)).expects("1 to a")
    story.sees(failed(1, FailureKind.BUSY)).expects("1 to b, try 2")
    story.sees(failed(1, FailureKind.LOADING, "still loading")).expects("1 refused: attempts_spent")
    assert story.detail(1) == "2 attempts failed, the last one so: still loading."
    story.sees(ends_failed(1)).ends()


def test_a_light_ticket_goes_where_its_path_is_known() -> None:
    ollama = replace(replica(engine="ollama:11434"), engine_kind="ollama")
    story = Story("a").sees(comes("b", says=report("b", ollama))).at(1.0)
    version = Opened(ONE, None, light=True, prefers=frozenset({"ollama"}))
    story.sees(version).expects("1 to b")
    story.sees(failed(1, FailureKind.RESET)).expects("1 to a, try 2")
    story.sees(answered(1), call(2, None, light=True)).expects("2 to a").sees(answered(2)).ends()


def test_a_light_ticket_never_waits() -> None:
    story = Story("", start_grace_s=3.0).sees(call(1, None, light=True))
    story.expects("1 refused: no_node").sees(comes("a")).at(1.0)
    story.sees(call(2, "other", light=True)).expects("2 refused: unknown_model")
    story.sees(call(3), call(4, light=True)).expects("3 to a", "4 to a")
    story.sees(drains("a"), call(5, light=True)).expects("5 refused: no_node")
    story.sees(*map(refused, (1, 2, 5)), *map(answered, (3, 4))).ends()


def test_what_no_node_has_is_asked_of_each_once_and_not_round_and_round() -> None:
    story = Story("ab").at(1.0).sees(call(1)).expects("1 to a")
    story.sees(failed(1, FailureKind.NOT_THERE)).expects("1 to b, try 2")
    story.sees(failed(1, FailureKind.NOT_THERE)).expects("1 refused: attempts_spent")
    story.sees(ends_failed(1)).ends()


def test_a_light_answer_forgives_nothing() -> None:
    story = Story("a", pause_s=30.0).at(1.0).sees(call(1)).expects("1 to a")
    story.sees(failed(1, FailureKind.RESET), call(2, light=True)).expects("2 to a")
    story.sees(answered(2)).at(30.9).expects().at(31.0).expects("1 to a, try 2")
    story.sees(answered(1)).ends()


def test_an_answer_forgives_at_once() -> None:
    story = Story()
    story.sees(comes("a", says=report("a", replica(slots=2)))).at(1.0)
    story.sees(*calls(1, 2)).expects("1 to a", "2 to a").sees(failed(1, FailureKind.RESET))
    story.expects().sees(answered(2)).expects("1 to a, try 2").sees(answered(1)).ends()


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


def test_retry_after_follows_the_service_time_within_bounds() -> None:
    story = Story("a", waiting_limit=0)

    def retry_after_s() -> int | None:
        ticket = 1000 + len(story.house.scheduler.log)
        story.sees(call(ticket), refused(ticket))
        refusal = story.house.said[-1]
        assert isinstance(refusal, Refuse)
        return refusal.retry_after_s

    story.at(1.0).sees(call(1))
    assert retry_after_s() == 1
    story.at(11.0).sees(answered(1), call(2))
    assert retry_after_s() == 3
    for ticket in range(2, 14):
        story.at(story.house.now + 300.0).sees(answered(ticket), call(ticket + 1))
    assert retry_after_s() == 60
    story.sees(call(100, "never"))
    last = story.house.said[-1]
    assert isinstance(last, Refuse)
    assert last.retry_after_s is None, "coming back would not help"
    story.sees(answered(14), refused(100)).ends()


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

    def declines(self, ticket: Ticket, now: float) -> bool:
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
