"""Context windows, told through the scheduler: nothing goes where it has no room."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pair.core.events import FailureKind
from pair.core.names import Phase
from pair.core.prompt import Prompt
from tests.core.house import replica, report
from tests.core.speeds_of import prompted
from tests.core.story import Happening, Story, call, comes, failed, hangs_up, refused, says

STRATEGIES = ["finish-time", "queue-depth", "round-robin", "prefix-aware", "kv-aware", "session"]


def house(strategy: str, **windows: int | None) -> Story:
    story = Story((), strategy)
    for node, tokens in windows.items():
        one = replace(replica(), context_tokens=tokens)
        story.sees(comes(node, says=report(node, one)))
    return story.at(0.05).expects()


def long(ticket: int, chars: int) -> Happening:
    return prompted(ticket, Prompt(chars, (), None))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_prompt_never_goes_where_it_cannot_fit_if_it_fits_elsewhere(strategy: str) -> None:
    story = house(strategy, a=1000, b=8000).sees(long(1, 20_000)).expects("1 to b")
    story.sees(long(2, 20_000)).expects()
    story.sees(call(3)).expects("3 to a")
    story.sees(hangs_up(3)).expects().sees(*map(hangs_up, (2, 1)))


def test_a_short_call_is_not_held_up_by_a_long_one_before_it() -> None:
    story = house("queue-depth", a=1000, b=8000).sees(call(1), call(2)).expects("1 to a", "2 to b")
    story.sees(long(3, 20_000), call(4), hangs_up(1)).at(6.0).expects("4 to a")
    story.sees(*map(hangs_up, (2, 3, 4)))


def test_what_fits_nowhere_is_refused_with_the_largest_window() -> None:
    story = house("queue-depth", a=1000, b=8000).sees(long(1, 100_000))
    story.expects("1 refused: too_long").sees(refused(1))
    assert story.detail(1).endswith("context window for 'm' in this house, 8000 tokens.")


def test_an_estimate_alone_refuses_nothing() -> None:
    """60,000 characters are 15,000 tokens, probably: the engine has the last word."""
    story = house("queue-depth", a=1000, b=8000).sees(long(1, 60_000)).expects("1 to b")
    story.sees(hangs_up(1))


def test_an_unknown_window_may_be_large_enough() -> None:
    story = house("queue-depth", a=1000, b=None).sees(long(1, 1_000_000)).expects("1 to b")
    story.sees(hangs_up(1))


def test_the_users_own_word_counts() -> None:
    story = house("queue-depth", a=1000, b=8000)
    story.sees(prompted(1, Prompt(20_000, (), None), pin="a")).expects("1 to a")
    story.sees(hangs_up(1))


def test_who_waits_is_measured_again_when_a_window_changes() -> None:
    story = house("queue-depth", a=1000, b=8000).sees(call(1), call(2)).expects("1 to a", "2 to b")
    story.sees(long(3, 20_000)).at(0.5)
    story.sees(says("a", report("a", replace(replica(), context_tokens=16_000))))
    story.sees(hangs_up(1)).at(6.0).expects("3 to a").sees(*map(hangs_up, (2, 3)))


def test_nobody_waits_for_room_on_a_node_that_is_lost() -> None:
    """Which may be for ever: a node that the user named is never forgotten."""
    story = house("queue-depth", a=1000, b=8000).sees(long(1, 5_000)).expects("1 to b")
    story.sees(long(2, 5_000)).expects()
    del story.house.words["b"]  # type: ignore[arg-type]
    story.at(30.0).finds("b", Phase.LOST).expects("1 taken from b", "1 to a, try 2")
    story.sees(hangs_up(1)).at(35.0).expects("2 to a").sees(hangs_up(2)).at(40.0)
    story.sees(long(3, 5_000)).expects("3 to a").sees(
        comes("b", says=report("b", replace(replica(), context_tokens=8000)))
    ).at(50.0)
    story.sees(long(4, 5_000)).expects("4 to b").sees(*map(hangs_up, (3, 4)))


def test_who_was_failed_where_there_is_room_is_tried_there_again() -> None:
    story = house("queue-depth", a=1000, b=8000).sees(long(1, 20_000)).expects("1 to b")
    story.sees(failed(1, FailureKind.RESET)).at(10.0).expects("1 to b, try 2")
    story.sees(failed(1, FailureKind.ENGINE_ERROR)).expects("1 refused: attempts_spent")
    story.sees(refused(1))


def test_who_came_before_the_first_report_is_judged_by_it() -> None:
    story = Story((), "queue-depth").sees(long(1, 100_000), call(2)).expects()
    story.sees(comes("a", says=report("a", replace(replica(), context_tokens=1000)))).at(0.5)
    story.expects("1 refused: too_long", "2 to a").sees(refused(1), hangs_up(2))
