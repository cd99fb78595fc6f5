"""The checks notice what they are for: one that cannot fail would make a whole run worthless."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import islice

import pytest

from tests.chaos.checks import Verdict, judge
from tests.chaos.house import Outage
from tests.chaos.plan import Act, draw_calls
from tests.chaos.record import Record, Seen
from tests.chaos.witness import Line, Visit, visits

PLAN = next(islice(draw_calls(1, 60), 1))
VISIT = Visit(0, PLAN.mark, 10.0, 10.0, 11.0, "done", body_sha256="right")
RECORD = Record(
    PLAN, 10.0, 11.0, sent=True, seen=Seen.ANSWERED, content_s=10.1, body_sha256="right"
)
ERROR = replace(RECORD, seen=Seen.ERROR, content_s=None, body_sha256="", status=502)


def verdict_of(record: Record, *seen_by: Visit, outages: tuple[Outage, ...] = ()) -> Verdict:
    return judge([record], [replace(visit) for visit in seen_by], outages)


def faulted(node: int, fault: str = "reset", status: int = 0) -> Visit:
    return Visit(node, PLAN.mark, 10.0, None, 10.1, "faulted", fault, status)


def test_a_right_answer_is_right() -> None:
    assert verdict_of(RECORD, VISIT).violations() == []
    assert verdict_of(RECORD, faulted(1), VISIT).violations() == []


def test_an_error_is_lost_unless_it_met_as_many_failures_as_it_has_attempts() -> None:
    assert len(verdict_of(ERROR).lost) == 1
    assert len(verdict_of(ERROR, faulted(0), faulted(1)).lost) == 1
    verdict = verdict_of(ERROR, faulted(0), faulted(1), faulted(2))
    assert (len(verdict.spent), verdict.violations()) == (1, [])


def test_a_node_out_of_order_counts_as_one_failure() -> None:
    out = Outage(3, Act.KILL, False, 9.0, 12.0)
    assert len(verdict_of(ERROR, faulted(0), outages=(out, out)).lost) == 1
    assert len(verdict_of(ERROR, faulted(0), faulted(1), outages=(out, out)).spent) == 1


def test_two_scripted_500s_are_the_clients() -> None:
    twice = (faulted(0, "status", 500), faulted(1, "status", 500))
    assert len(verdict_of(ERROR, *twice).spent) == 1
    assert len(verdict_of(ERROR, twice[0]).lost) == 1


def test_a_call_without_an_end_hangs() -> None:
    assert len(verdict_of(replace(RECORD, seen=Seen.HUNG)).hung) == 1
    assert len(verdict_of(replace(RECORD, ended_s=0.0), VISIT).hung) == 1


def test_other_bytes_than_an_engine_sent_are_wrong() -> None:
    assert len(verdict_of(replace(RECORD, body_sha256="other"), VISIT).wrong) == 1
    assert len(verdict_of(replace(RECORD, wrong="mixed"), VISIT).wrong) == 1


def test_a_break_needs_a_cause() -> None:
    broken = replace(RECORD, seen=Seen.BROKEN, body_sha256="")
    assert len(verdict_of(broken, VISIT).wrong) == 1
    assert verdict_of(broken, faulted(0, "cut")).violations() == []
    assert verdict_of(broken, VISIT, outages=(Outage(0, Act.KILL, True, 10.5),)).violations() == []


@pytest.mark.parametrize(
    ("first", "doubles"),
    [
        (VISIT, 1),
        (replace(VISIT, fate="hung_up", end_s=10.01), 0),
        (replace(VISIT, fate="hung_up", end_s=15.0), 1),
        (replace(VISIT, fate="done", fault="keeps_computing_after_hangup"), 0),
        (replace(VISIT, fate="faulted", fault="cut", end_s=10.04), 0),
    ],
)
def test_two_generations_of_one_call_are_double_unless_the_first_was_cancelled(
    first: Visit, doubles: int
) -> None:
    again = replace(VISIT, node=1, arrival_s=10.05, start_s=10.05, end_s=12.0)
    verdict = verdict_of(RECORD, first, again)
    assert (len(verdict.doubles), verdict.again) == (doubles, 1 - doubles)


def test_nothing_begins_after_content() -> None:
    late = replace(VISIT, node=1, arrival_s=10.5, start_s=10.5)
    assert len(verdict_of(RECORD, replace(VISIT, fate="faulted", fault="cut"), late).doubles) == 1


def test_a_killed_engine_ends_its_visits() -> None:
    open_ended = replace(VISIT, end_s=math.inf, fate="open")
    again = replace(VISIT, node=1, arrival_s=10.08, start_s=10.08)
    outages = (Outage(0, Act.KILL, False, 10.05, 12.0),)
    assert verdict_of(RECORD, open_ended, again, outages=outages).violations() == []
    assert len(verdict_of(RECORD, open_ended, again).doubles) == 1


def test_visits_are_put_together_over_several_processes() -> None:
    lines = [
        Line("a", 1.0, 1, False, "open"),
        Line("a", 1.1, 1, True, "open"),
        Line("b", 5.0, 1, False, "open"),
        Line("b", 5.1, 1, True, "open"),
        Line("b", 5.2, 1, True, "done", body_sha256="x"),
    ]
    killed, done = visits(0, lines)
    assert (killed.mark, killed.fate, killed.start_s, killed.end_s) == ("a", "open", 1.1, math.inf)
    assert (done.mark, done.fate, done.end_s, done.body_sha256) == ("b", "done", 5.2, "x")
