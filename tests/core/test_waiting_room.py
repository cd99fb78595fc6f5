from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pair.core.events import Opened
from pair.core.fairness import Attained
from pair.core.names import FlowId, ModelName, NodeId, Priority, TicketId
from pair.core.ticket import Ticket
from pair.core.waiting_room import WaitingRoom

M, N = ModelName("m"), ModelName("n")


def ticket(
    arrival: int,
    model: ModelName = M,
    *,
    pin: str | None = None,
    flow: str = "",
    priority: Priority = Priority.DEFAULT,
) -> Ticket:
    opened = Opened(TicketId(100 + arrival), model, flow=FlowId(flow), priority=priority)
    return Ticket(opened, arrival, 0.0, pin=None if pin is None else NodeId(pin))


def a_room(limit: int = 9) -> WaitingRoom:
    return WaitingRoom(limit, 60.0, Attained(60.0, 100))


def heads_of(room: WaitingRoom, name: ModelName = M, now: float = 0.0) -> list[int]:
    line = room.line(name)
    return [] if line is None else [one.arrival for one in line.heads(now)]


def test_each_model_has_its_line_and_the_room_one_count() -> None:
    room = a_room(3)
    first, second, other = ticket(1), ticket(2), ticket(3, N)
    for one in (first, other, second):
        room.add(one)
    assert len(room) == 3
    assert not room.overfull
    assert set(room.names()) == {M, N}
    assert room.all(M) == (first, second)
    room.remove(other)
    assert room.line(N) is None
    assert room.all(N) == ()
    for arrival in (4, 5):
        room.add(ticket(arrival))
    assert room.overfull


def test_heads_are_the_first_of_each_lane() -> None:
    """Those who may go to the same places need not be asked one by one."""
    room = a_room()
    for one in (
        ticket(2),
        ticket(4, pin="b"),
        ticket(3),
        ticket(1, pin="a"),
        ticket(5, pin="a"),
    ):
        room.add(one)
    assert heads_of(room) == [1, 2, 4]
    line = room.line(M)
    assert line is not None
    assert line.oldest() is room.all(M)[0]
    assert [one.arrival for one in line.few] == [1, 4, 5]


def test_who_comes_back_stands_where_it_stood() -> None:
    room = a_room()
    back, later = ticket(1), ticket(2)
    room.add(back)
    room.remove(back)
    room.add(later)
    room.add(back)
    assert heads_of(room) == [1]
    room.remove(back)
    line = room.line(M)
    assert line is not None
    assert line.oldest() is later


def test_a_ticket_may_change_what_it_avoids_while_it_is_out() -> None:
    room = a_room()
    one, other = ticket(1), ticket(2)
    room.add(one)
    room.add(other)
    room.remove(one)
    one.avoided.add(NodeId("a"))
    room.add(one)
    assert room.all(M) == (one, other)
    room.remove(one)
    room.remove(other)
    assert len(room) == 0


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=60))
def test_the_room_is_a_sorted_list(steps: list[tuple[int, bool]]) -> None:
    room = a_room(5)
    tickets = [ticket(number, pin="a" if number % 3 == 0 else None) for number in range(10)]
    there: set[int] = set()
    for number, avoids in steps:
        one = tickets[number]
        if number in there:
            room.remove(one)
            there.remove(number)
            if avoids:
                one.avoided.add(NodeId("b"))
        else:
            room.add(one)
            there.add(number)
        assert len(room) == len(there)
        assert [one.arrival for one in room.all(M)] == sorted(there)
        line = room.line(M)
        assert (line is None) == (not there)
        if line is not None:
            heads = heads_of(room)
            assert heads == sorted(heads)
            assert heads[0] == min(there)
            by_reach = {tickets[number].reach: number for number in sorted(there, reverse=True)}
            assert heads == sorted(by_reach.values())
            assert [one.arrival for one in line.few] == [
                number for number in sorted(there) if not tickets[number].anywhere
            ]


def test_a_line_that_is_renamed_joins_the_other_by_arrival() -> None:
    room = a_room()
    for one in (ticket(1), ticket(2, N), ticket(3), ticket(4, N, pin="a")):
        room.add(one)
    room.rename(N, M)
    assert room.names() == (M,)
    assert [one.arrival for one in room.all(M)] == [1, 2, 3, 4]
    assert {one.name for one in room.all(M)} == {M}
    assert len(room) == 4


def test_a_pin_that_is_found_out_changes_the_lane() -> None:
    room = a_room()
    by_name, by_id = ticket(1, pin="gaming-pc"), ticket(2, pin="id-7")
    for one in (by_name, by_id):
        room.add(one)
    by_name.pin = NodeId("id-7")
    room.replace(by_name)
    assert heads_of(room) == [1]
    room.remove(by_name)
    assert heads_of(room) == [2]


def test_a_charge_moves_a_flow_in_every_line_of_its_model() -> None:
    """Two names of one model compete for its slots, so who has had turns under one of them is
    behind under the other, too.
    """
    room = a_room()
    for one in (ticket(1, flow="a"), ticket(3, flow="b")):
        room.add(one, M)
    for one in (ticket(2, N, flow="a"), ticket(4, N, flow="b")):
        room.add(one, M)
    line, other = room.line(M), room.line(N)
    assert line is not None
    assert other is not None
    assert heads_of(room, N) == [2]
    line.turn(room.all(M)[0], 100.0, 0.0)
    assert heads_of(room, N) == [4]
    assert line.rank(room.all(M)[1], 0.0) < other.rank(room.all(N)[1], 0.0)


def test_what_came_to_nothing_is_paid_back_once() -> None:
    room, one = a_room(), ticket(1, flow="a")
    room.add(one)
    line = room.line(M)
    assert line is not None
    line.turn(one, 100.0, 0.0)
    assert one.charge is not None
    account = one.charge.account
    room.remove(one)
    room.refund(one)
    room.refund(one)
    room.correct(one, 1000.0, 0.0)
    assert room.attained.of(account, 0.0) == 0.0


def test_what_a_call_really_cost_counts() -> None:
    room = a_room()
    cheap, dear = ticket(1, flow="cheap"), ticket(2, flow="dear")
    for one in (cheap, dear, ticket(3, flow="cheap"), ticket(4, flow="dear")):
        room.add(one)
    line = room.line(M)
    assert line is not None
    for one, cost in ((cheap, 10.0), (dear, 500.0)):
        line.turn(one, 100.0, 0.0)
        room.remove(one)
        room.correct(one, cost, 1.0)
    assert heads_of(room, now=1.0) == [3]
    line.turn(room.all(M)[0], 480.0, 1.0)
    assert heads_of(room, now=1.0) == [3]


class Steps:
    """Counts what Python does, bytecode by bytecode: growth without a clock."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, frame: FrameType, event: str, arg: object) -> Steps:
        frame.f_trace_opcodes = True
        self.count += event == "opcode"
        return self

    def of(self, work: Callable[[], object]) -> int:
        before = sys.gettrace()
        self.count = 0
        sys.settrace(self)
        try:
            work()
        finally:
            sys.settrace(before)
        return self.count


@pytest.mark.parametrize("flows", [1, 10, 10_000], ids=lambda flows: f"{flows} flows")
def test_a_step_among_ten_thousand_costs_little_more_than_among_a_hundred(flows: int) -> None:
    def work(room: WaitingRoom, arrival: int) -> None:
        line = room.line(M)
        assert line is not None
        for _ in range(20):
            (head,) = line.heads(0.0)
            line.turn(head, 100.0, 0.0)
            room.remove(head)
            room.refund(head)
            room.add(head)
            room.add(ticket(arrival, flow=str(arrival % flows)))
            line.step_aside(next(line.heads(0.0)))
            line.all_back()
            line.oldest()
            arrival += 1

    counts = []
    for size in (100, 10_000):
        room = a_room(20_000)
        for arrival in range(size):
            room.add(ticket(arrival, flow=str(arrival % flows)))
        counts.append(Steps().of(partial(work, room, size)))
    assert counts[1] < 1.5 * counts[0], counts
