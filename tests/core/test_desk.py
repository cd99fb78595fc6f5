"""The ticket side: what contradicts the books, light requests, forgiveness."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pair.core.decisions import Refuse
from pair.core.events import AttemptFailed, Closed, Failure, FailureKind, FirstByte, Opened
from pair.core.names import LeaseId, ModelName, Outcome, TicketId
from pair.errors import BookkeepingError
from tests.core.house import replica, report
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


def test_what_one_engine_lacks_another_one_on_the_same_node_may_have() -> None:
    story = Story("").sees(
        comes("a", says=report("a", replica("m", engine="e:1"), replica("n", engine="e:2"))),
        comes("b"),
    )
    story.at(1.0).sees(call(1, None, light=True)).expects("1 to a")
    story.sees(failed(1, FailureKind.NOT_THERE)).expects("1 to a")
    story.sees(failed(1, FailureKind.NOT_THERE)).expects("1 to b")
    story.sees(failed(1, FailureKind.NOT_THERE)).expects("1 refused: attempts_spent")
    assert [one.failed for one in story.house.scheduler.fleet.everyone()] == [0, 0, 0]
    story.sees(ends_failed(1)).ends()


def test_a_light_failure_hurts_no_replica() -> None:
    """Its success would not heal one, and a client may ask for anything."""
    story = Story("a").at(1.0).sees(call(1, light=True)).expects("1 to a")
    story.sees(failed(1, FailureKind.RESET)).expects("1 refused: attempts_spent")
    story.sees(call(2)).expects("2 to a").sees(ends_failed(1), answered(2)).ends()


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
