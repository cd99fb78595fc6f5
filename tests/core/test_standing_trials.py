"""I12: a replica that has failed gets one call when its pause is over, and more when that works."""

from __future__ import annotations

from pair.core.events import FailureKind
from pair.core.snapshot import take_snapshot
from tests.core.house import replica, report
from tests.core.story import (
    Story,
    answered,
    call,
    calls,
    comes,
    ends_failed,
    failed,
    first_byte,
    hangs_up,
    refused,
)


def big(attempts_limit: int = 3) -> Story:
    """One node of several slots whose first call has been reset."""
    story = Story(pause_s=1.0, attempts_limit=attempts_limit)
    story.sees(comes("a", says=report("a", replica(slots=3, running=0)))).at(1.0)
    story.sees(call(1)).expects("1 to a").sees(failed(1, FailureKind.RESET)).expects()
    return story


def reason(story: Story) -> tuple[bool, str]:
    shown = take_snapshot(story.house.scheduler, story.house.now)
    ((view,),) = (node.replicas for node in shown.nodes)
    return view.unproven, view.set_aside_reason


def test_one_goes_and_the_rest_wait_until_it_begins_to_answer() -> None:
    story = big().sees(*calls(2, 3)).at(1.9).expects().at(2.1).expects("1 to a, try 2")
    assert reason(story) == (True, "it failed")
    story.at(60.0).expects().sees(first_byte(1)).expects("2 to a", "3 to a")
    assert reason(story) == (False, "")
    story.sees(*map(answered, (1, 2, 3))).ends()


def test_an_answer_proves_it_too() -> None:
    story = big().sees(call(2)).at(2.1).expects("1 to a, try 2").sees(answered(1)).expects("2 to a")
    story.sees(answered(2)).ends()


def test_a_trial_that_fails_doubles_the_pause_and_the_next_one_is_one_call_again() -> None:
    story = big(attempts_limit=2).sees(*calls(2, 3)).at(2.1).expects("1 to a, try 2")
    story.sees(failed(1, FailureKind.RESET)).expects("1 refused: attempts_spent")
    story.sees(ends_failed(1)).at(4.0).expects().at(4.2).expects("2 to a")
    story.sees(first_byte(2)).expects("3 to a").sees(answered(2), answered(3)).ends()


def test_a_client_that_leaves_during_the_trial_lets_the_next_one_try() -> None:
    story = big().sees(*calls(2, 3)).at(2.1).expects("1 to a, try 2").sees(hangs_up(1))
    story.expects("2 to a").sees(answered(2)).expects("3 to a").sees(answered(3)).ends()


def test_others_take_the_rest_meanwhile() -> None:
    story = big().sees(comes("b", says=report("b", replica(slots=2)))).at(1.1)
    story.expects("1 to b, try 2").at(2.5).sees(*calls(2, 3, 4)).expects("2 to a", "3 to b")
    story.sees(first_byte(2)).expects("4 to a").sees(*map(answered, (1, 2, 3, 4))).ends()


def test_a_crash_under_many_calls_is_one_mishap() -> None:
    story = Story(pause_s=1.0)
    story.sees(comes("a", says=report("a", replica(slots=8)))).at(1.0)
    story.sees(*calls(*range(1, 9))).expects(*(f"{n} to a" for n in range(1, 9)))
    story.sees(*(failed(n, FailureKind.RESET) for n in range(1, 9))).at(1.9).expects()
    story.at(2.1).expects("1 to a, try 2").sees(first_byte(1))
    story.expects(*(f"{n} to a, try 2" for n in range(2, 9)))
    story.sees(*(answered(n) for n in range(1, 9))).ends()


def test_full_and_loading_need_no_trial() -> None:
    for kind in (FailureKind.BUSY, FailureKind.LOADING):
        story = Story(pause_s=1.0, busy_pause_s=1.0)
        story.sees(comes("a", says=report("a", replica(slots=2)))).at(1.0)
        story.sees(*calls(1, 2, 3)).expects("1 to a", "2 to a").sees(failed(1, kind)).at(2.1)
        story.expects("1 to a").sees(*map(answered, (1, 2))).expects("3 to a")
        story.sees(answered(3)).ends()


def test_a_light_call_proves_nothing_and_is_no_trial() -> None:
    story = big().at(2.05).expects("1 to a, try 2").sees(call(2), call(3, light=True))
    story.expects("3 to a").sees(first_byte(3), answered(3)).expects()
    story.sees(answered(1)).expects("2 to a").sees(answered(2)).ends()


def test_what_cuts_every_answer_is_paused_for_longer_and_longer() -> None:
    story = big(attempts_limit=9)
    pauses = []
    for ticket in range(1, 5):
        began_at = story.house.now
        while not story.house.said:
            story.at(story.house.now + 0.1)
        pauses.append(round(story.house.now - began_at))
        story.house.said.clear()
        story.sees(first_byte(ticket), failed(ticket, FailureKind.CUT), ends_failed(ticket))
        story.sees(call(ticket + 1))
    assert pauses == [1, 2, 4, 8]
    story.sees(hangs_up(5)).ends()


def failing(*, pause_s: float) -> Story:
    """One node that fails every call; the second pause is above the grace of 3 s."""
    story = Story(pause_s=pause_s, attempts_limit=9, hopeless_grace_s=3.0)
    story.sees(comes("a", says=report("a", replica(slots=3, running=0)))).at(1.0)
    story.sees(*calls(1, 2, 3)).expects("1 to a", "2 to a", "3 to a")
    story.sees(*(failed(n, FailureKind.RESET) for n in (1, 2, 3))).at(3.1)
    return story.expects("1 to a, try 2").sees(failed(1, FailureKind.RESET)).expects()


def test_those_who_wait_for_one_that_always_fails_are_told_so_after_the_grace() -> None:
    story = failing(pause_s=2.0).at(6.0).expects().at(6.2)
    story.expects(*(f"{n} refused: no_node" for n in (1, 2, 3)))
    assert "calls fail there (it failed)" in story.detail(1)
    story.sees(*map(refused, (1, 2, 3)), call(4)).at(7.2).expects("4 to a").sees(answered(4)).ends()


def test_a_trial_under_way_at_the_end_of_the_grace_is_worth_waiting_for() -> None:
    story = failing(pause_s=1.6)  # of which the second is 3.2 s, and the alarm is set anew below
    story.at(6.0).sees(hangs_up(1), hangs_up(2), hangs_up(3)).sees(call(4), call(5)).at(6.4)
    story.expects("4 to a").at(9.2).expects().sees(answered(4)).expects("5 to a")
    story.sees(answered(5)).ends()
