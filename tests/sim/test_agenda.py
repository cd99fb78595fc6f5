from __future__ import annotations

from pair.sim.agenda import Agenda


def test_things_happen_in_order_of_time_and_then_of_their_putting_down() -> None:
    agenda, done = Agenda(), []
    for at, what in ((2.0, "c"), (1.0, "a"), (2.0, "d"), (1.5, "b")):
        agenda.at(at, lambda what: done.append((agenda.now, what)), what)
    for _ in range(4):
        agenda.go_on()
    assert done == [(1.0, "a"), (1.5, "b"), (2.0, "c"), (2.0, "d")]


def test_what_is_done_may_put_down_more_for_the_same_time() -> None:
    agenda, done = Agenda(), []

    def twice(left: int) -> None:
        done.append((agenda.now, left))
        if left:
            agenda.at(agenda.now, twice, left - 1)

    agenda.at(3.0, twice, 1)
    agenda.at(3.0, done.append, "between")
    for _ in range(3):
        agenda.go_on()
    assert done == [(3.0, 1), "between", (3.0, 0)]


def test_records_count_from_the_first_call() -> None:
    agenda = Agenda()
    agenda.origin = 1.0
    agenda.at(1.25, lambda _: None, None)
    agenda.go_on()
    assert agenda.since_origin_s == 0.25
