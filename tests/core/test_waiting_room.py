from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pair.core.events import Opened
from pair.core.names import ModelName, NodeId, TicketId
from pair.core.ticket import Ticket
from pair.core.waiting_room import WaitingRoom

M, N = ModelName("m"), ModelName("n")


def ticket(arrival: int, model: ModelName = M, *, pin: str | None = None) -> Ticket:
    opened = Opened(TicketId(100 + arrival), model)
    return Ticket(opened, arrival, 0.0, pin=None if pin is None else NodeId(pin))


def test_each_model_has_its_line_and_the_room_one_count() -> None:
    room = WaitingRoom(limit=3)
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


def test_heads_are_the_head_of_the_free_lane_among_the_few_by_arrival() -> None:
    room = WaitingRoom(limit=9)
    pinned_early, free, free_later, pinned_late = (
        ticket(1, pin="a"),
        ticket(2),
        ticket(3),
        ticket(4, pin="b"),
    )
    for one in (free, pinned_late, free_later, pinned_early):
        room.add(one)
    line = room.line(M)
    assert line is not None
    assert list(line.heads()) == [pinned_early, free, pinned_late]
    assert line.oldest() is pinned_early


def test_who_comes_back_stands_where_it_stood() -> None:
    room = WaitingRoom(limit=9)
    back, later = ticket(1), ticket(2)
    room.add(back)
    room.remove(back)
    room.add(later)
    room.add(back)
    line = room.line(M)
    assert line is not None
    assert line.oldest() is back
    room.remove(back)
    assert line.oldest() is later


def test_a_ticket_may_change_what_it_avoids_while_it_is_out() -> None:
    room = WaitingRoom(limit=9)
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
    room = WaitingRoom(limit=5)
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
            heads = [one.arrival for one in line.heads()]
            assert heads == sorted(heads)
            assert heads[0] == min(there)
            bound = {number for number in there if not tickets[number].anywhere}
            assert bound <= set(heads)


def test_a_line_that_is_renamed_joins_the_other_by_arrival() -> None:
    room = WaitingRoom(limit=9)
    for one in (ticket(1), ticket(2, N), ticket(3), ticket(4, N, pin="a")):
        room.add(one)
    room.rename(N, M)
    assert room.names() == (M,)
    assert [one.arrival for one in room.all(M)] == [1, 2, 3, 4]
    assert {one.name for one in room.all(M)} == {M}
    assert len(room) == 4
