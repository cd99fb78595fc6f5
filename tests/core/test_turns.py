"""Whose turn it is: one lane, as the waiting room uses it, without a house around it."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pair.core.decisions import Dispatch
from pair.core.events import FailureKind, Opened
from pair.core.fairness import Attained
from pair.core.names import FlowId, ModelName, NodeId, Priority, TicketId
from pair.core.ticket import Ticket
from pair.core.waiting_room import Line, WaitingRoom
from tests.core.house import replica, report
from tests.core.story import Story, answered, call, comes, failed

M = ModelName("m")
COST = 100.0
BOUND_S = 60.0
INTERACTIVE, DEFAULT, BULK = Priority


class Booth:
    """A room with one line and one lane; turns are given one after the other, at `now`."""

    def __init__(self) -> None:
        self.room = WaitingRoom(1000, BOUND_S, Attained(60.0, 1000))
        self.now = 1000.0
        self.arrivals = 0

    @property
    def line(self) -> Line:
        line = self.room.line(M)
        assert line is not None
        return line

    def head(self) -> Ticket | None:
        return None if self.room.line(M) is None else next(self.line.heads(self.now), None)

    def waiting(self, flow: str) -> int:
        return sum(one.opened.flow == flow for one in self.room.all(M))

    def comes(self, flow: str, priority: Priority = DEFAULT) -> Ticket:
        self.arrivals += 1
        opened = Opened(TicketId(self.arrivals), M, flow=FlowId(flow), priority=priority)
        ticket = Ticket(opened, self.arrivals, self.now, waiting_since=self.now)
        self.room.add(ticket)
        return ticket

    def next(self, cost: float = COST) -> Ticket:
        """Give the turn to whose it is."""
        ticket = self.head()
        assert ticket is not None
        self.line.turn(ticket, cost, self.now)
        self.room.remove(ticket)
        return ticket

    def flows(self, count: int, **costs: float) -> str:
        """The flows of the next turns."""
        told = ""
        for _ in range(count):
            head = self.head()
            assert head is not None
            flow = head.opened.flow
            told += flow
            self.next(costs.get(flow, COST))
        return told


def test_within_a_flow_whoever_arrived_first() -> None:
    booth = Booth()
    first, second, third = (booth.comes("a") for _ in range(3))
    assert booth.next() is first
    booth.room.remove(second)
    assert booth.next() is third


def test_who_comes_back_stands_first_in_its_flow() -> None:
    booth = Booth()
    first, _ = booth.comes("a"), booth.comes("a")
    assert booth.next() is first
    booth.room.add(first)
    assert booth.next() is first


def test_flows_take_turns_by_what_they_cost() -> None:
    booth = Booth()
    for flow in "aaaaaaaabbbbbbbb":
        booth.comes(flow)
    assert booth.flows(8) in ("abababab", "abbabaab", "abbaabba")
    told = booth.flows(6, a=2 * COST)
    assert Counter(told)["b"] >= Counter(told)["a"]


def test_a_single_call_goes_before_two_hundred() -> None:
    booth = Booth()
    for _ in range(200):
        booth.comes("a")
    booth.next()
    for _ in range(10):
        booth.comes("b")
        assert booth.flows(1) == "b"
        assert booth.flows(3) == "aaa"


def test_two_hundred_that_come_later_do_not_hold_up_who_pauses_between_calls() -> None:
    booth = Booth()
    for _ in range(30):
        booth.comes("b")
        booth.flows(1)
        booth.now += 3.0
    for _ in range(200):
        booth.comes("a")
    booth.flows(1)
    for _ in range(5):
        booth.now += 3.0
        booth.comes("b")
        assert "b" in booth.flows(2)


def test_who_was_away_has_saved_up_nothing() -> None:
    booth = Booth()
    for flow in "b" + 50 * "a":
        booth.comes(flow)
    booth.flows(40)
    for _ in range(9):
        booth.comes("b")
    assert Counter(booth.flows(8)) == Counter(a=4, b=4)


def test_no_stream_of_newcomers_keeps_out_who_waits() -> None:
    """Each of them is new and never comes again, and there is always another one."""
    booth = Booth()
    for _ in range(20):
        booth.comes("a")
    booth.next()
    passed, bound = 0, 5
    for number in range(200):
        booth.comes(f"n{number}")
        if number < 2:
            continue
        others = len(booth.room) - booth.waiting("a")
        if booth.next().opened.flow == "a":
            # Those who are there, and as many who come while those have their turns.
            passed, bound = 0, 2 * others + 1
        else:
            passed += 1
            assert passed <= bound, f"turn {number}"
    assert booth.waiting("a") < 15


def test_no_stream_of_newcomers_keeps_out_who_had_a_call_before() -> None:
    """As of a client that calls itself otherwise each time: nobody of them ever had anything."""
    booth = Booth()
    booth.comes("a")
    assert booth.flows(1) == "a"
    booth.comes("a")
    waited, longest = 0, 0
    for number in range(1000):
        while len(booth.room) < 50:
            booth.arrivals += 1
            booth.comes(f"n{booth.arrivals}")
        booth.now += 2.0
        waited += 1
        if booth.next().opened.flow == "a":
            waited = 0
            booth.comes("a")
        longest = max(longest, waited)
        assert waited < 2 * 50 + BOUND_S, f"turn {number}"
    assert longest > BOUND_S / 2.0, "a newcomer's first call goes first"


def test_a_single_call_waits_for_one_of_two_hundred_however_long_they_take() -> None:
    booth = Booth()
    for _ in range(200):
        booth.comes("a")
    for number in range(20):
        booth.now += 3 * BOUND_S
        booth.next()
        booth.comes(f"n{number}")
        booth.now += 3 * BOUND_S
        assert booth.next().opened.flow == f"n{number}"


def test_a_flow_has_one_place_in_all_lanes() -> None:
    """Who has failed somewhere stands with others than the rest of its flow, and still before
    them.
    """
    booth = Booth()
    first, _ = booth.comes("a"), booth.comes("a")
    booth.comes("b")
    assert booth.next() is first
    first.avoided.add(NodeId("a"))
    booth.room.refund(first)
    booth.room.add(first)
    booth.room.remove(next(one for one in booth.room.all(M) if one.opened.flow == "b"))
    mine = list(booth.line.heads(booth.now))
    assert [one.arrival for one in mine] == [1, 2]
    early, late = (booth.line.rank(one, booth.now) for one in mine)
    assert early[:2] == late[:2]
    assert early[2][:2] == late[2][:2]


def test_the_most_urgent_class_goes_first() -> None:
    booth = Booth()
    for priority in (BULK, DEFAULT, INTERACTIVE, DEFAULT, INTERACTIVE):
        booth.comes("a", priority)
    got = [booth.next().opened.priority for _ in range(5)]
    assert got == [INTERACTIVE, INTERACTIVE, DEFAULT, DEFAULT, BULK]


def test_a_class_that_has_waited_for_the_bound_gets_one_turn() -> None:
    booth = Booth()
    for _ in range(5):
        booth.comes("a", BULK)
    booth.now += BOUND_S
    for _ in range(9):
        booth.comes("b", DEFAULT)
    assert booth.next().opened.priority is DEFAULT
    booth.now += 0.1
    assert [booth.next().opened.priority for _ in range(3)] == [BULK, DEFAULT, DEFAULT]
    booth.now += BOUND_S + 0.1
    assert [booth.next().opened.priority for _ in range(3)] == [BULK, DEFAULT, DEFAULT]


def test_where_turns_are_rarer_than_the_bound_the_urgent_get_every_second_one() -> None:
    booth = Booth()
    for priority in (*[BULK] * 9, *[DEFAULT] * 9, *[INTERACTIVE] * 9):
        booth.comes("a", priority)
    got = []
    for _ in range(8):
        booth.now += 2 * BOUND_S
        got.append(booth.next().opened.priority)
    assert got[1::2] == [INTERACTIVE] * 4
    assert Counter(got[::2]) == Counter({BULK: 2, DEFAULT: 2})


def test_a_class_that_was_empty_waits_anew() -> None:
    booth = Booth()
    left = booth.comes("a", BULK)
    booth.now += 2 * BOUND_S
    booth.room.remove(left)
    booth.comes("a", BULK)
    booth.comes("b", DEFAULT)
    assert booth.next().opened.priority is DEFAULT


def test_who_steps_aside_keeps_the_place_and_its_flow_has_not_been_away() -> None:
    booth = Booth()
    for flow in "aab":
        booth.comes(flow)
    booth.next()
    head = booth.head()
    assert head is not None
    assert head.opened.flow == "b"
    line = booth.line
    line.step_aside(head)
    assert [one.opened.flow for one in line.heads(booth.now)] == ["a"]
    line.step_aside(next(line.heads(booth.now)))
    assert not list(line.heads(booth.now))
    line.all_back()
    assert booth.next() is head


@given(
    st.lists(
        st.one_of(st.sampled_from("abc"), st.floats(0.0, 90.0), st.just("next")),
        max_size=120,
    )
)
def test_no_flow_that_waits_is_passed_over_by_another_more_than_twice(
    steps: list[str | float],
) -> None:
    """With calls of equal cost: whatever came before, and however long it is ago."""
    booth = Booth()
    passed: dict[FlowId, Counter[FlowId]] = {}
    for step in steps:
        if isinstance(step, float):
            booth.now += step
        elif step != "next":
            booth.comes(step)
            passed.setdefault(FlowId(step), Counter())
        elif booth.head() is not None:
            flow = booth.next().opened.flow
            del passed[flow]
            if booth.waiting(flow):
                passed[flow] = Counter()
            for other, by in passed.items():
                if other != flow:
                    by[flow] += 1
                    assert by[flow] <= 2, f"{flow} passes over {other}"


@pytest.mark.parametrize("strategy", ["queue-depth", "finish-time"])
@pytest.mark.parametrize("slots", [1, 3])
def test_single_calls_beside_two_hundred_wait_for_one_of_them_at_most(
    strategy: str, slots: int
) -> None:
    """In a house: calls of one second, singles at odd moments, each a job of its own."""
    story = Story(strategy=strategy)
    story.sees(comes("a", says=report("a", replica(slots=slots)))).at(0.5)
    story.sees(*(call(number, flow="big") for number in range(200)))
    running = [(1.5 + 0.3 * slot, slot) for slot in range(slots)]
    came_at: dict[int, float] = {}
    waits: dict[int, float] = {}
    story.house.said.clear()
    singles = [(3.1 + 2.7 * number, 1000 + number) for number in range(20)]
    while singles or running:
        if singles and singles[0][0] < running[0][0]:
            at, number = singles.pop(0)
            story.at(at).sees(call(number, flow=f"single {number}"))
            came_at[number] = at
        else:
            at, number = running.pop(0)
            story.at(at).sees(answered(number))
        for one in story.house.said:
            assert isinstance(one, Dispatch)
            running.append((at + 1.0, one.ticket))
            if one.ticket in came_at:
                waits[one.ticket] = at - came_at[one.ticket]
        running.sort()
        story.house.said.clear()
    assert len(waits) == 20
    assert max(waits.values()) <= 1.0
    story.ends()


def test_an_attempt_that_came_to_nothing_costs_its_flow_no_turn() -> None:
    story = Story("a").sees(*(call(number, flow="a") for number in (1, 2, 3)))
    story.sees(*(call(number, flow="b") for number in (4, 5))).expects("1 to a")
    story.sees(failed(1, FailureKind.BUSY)).at(2.0).expects("1 to a")
    story.sees(answered(1)).expects("4 to a").sees(answered(4)).expects("2 to a")
    story.sees(answered(2)).expects("5 to a").sees(answered(5)).expects("3 to a")
    story.sees(answered(3)).ends()


def test_bulk_waits_for_the_others_and_not_for_ever() -> None:
    story = Story("a", priority_bound_s=10.0)
    story.sees(call(1), call(2, priority=BULK), call(3), call(4, priority=INTERACTIVE))
    story.expects("1 to a").sees(answered(1)).expects("4 to a").sees(answered(4)).expects("3 to a")
    story.sees(call(5), call(6), call(7, priority=BULK)).at(10.2)
    story.sees(answered(3)).expects("2 to a").sees(answered(2)).expects("5 to a")
    story.sees(answered(5)).expects("6 to a").sees(answered(6)).expects("7 to a")
    story.sees(answered(7)).ends()
