from __future__ import annotations

from pair.sim.agenda import Agenda
from pair.sim.turns import TURN_S, Turns


class Bench:
    """Turns at one machine, and how often one was over unused."""

    def __init__(self, slots: int) -> None:
        self.agenda = Agenda()
        self.turns = Turns(self.agenda, slots, self.changed)
        self.unused = 0

    def changed(self) -> None:
        self.unused += 1

    def passes(self, time_s: float) -> None:
        """Let everything happen that is due by then."""
        end: list[None] = []
        self.agenda.at(self.agenda.now + time_s, end.append, None)
        while not end:
            self.agenda.go_on()


def test_whoever_was_turned_away_goes_before_whoever_was_served() -> None:
    bench = Bench(1)
    bench.turns.look(1)
    bench.turns.turned_away("second")
    bench.turns.turned_away("third")
    assert [bench.turns.ahead(who) for who in ("first", "second", "third")] == [2, 0, 1]
    bench.turns.turned_away("second")
    assert bench.turns.ahead("third") == 1, "asking again costs nobody a place"
    bench.turns.came("second")
    assert [bench.turns.ahead(who) for who in ("first", "third")] == [1, 0]


def test_time_runs_only_for_those_who_could_come() -> None:
    bench = Bench(1)
    bench.turns.look(1)
    bench.turns.turned_away("second")
    bench.turns.turned_away("third")
    bench.passes(1.0)
    assert bench.unused == 0
    bench.turns.look(0)
    bench.passes(TURN_S)
    assert (bench.unused, bench.turns.ahead("first")) == (1, 1), "now it is the third one's turn"
    bench.passes(TURN_S)
    assert (bench.unused, bench.turns.ahead("first")) == (2, 0)


def test_a_slot_that_is_taken_again_stops_the_time() -> None:
    bench = Bench(1)
    bench.turns.look(1)
    bench.turns.turned_away("second")
    bench.turns.look(0)
    bench.passes(TURN_S / 2)
    bench.turns.look(1)
    bench.passes(TURN_S)
    assert (bench.unused, bench.turns.ahead("first")) == (0, 1)
    bench.turns.look(0)
    bench.passes(TURN_S / 2)
    assert bench.unused == 0, "a whole turn, not what was left of the first"
    bench.passes(TURN_S / 2)
    assert bench.unused == 1


def test_a_machine_that_starts_anew_owes_nobody_a_turn() -> None:
    bench = Bench(1)
    bench.turns.look(1)
    bench.turns.turned_away("second")
    bench.turns.forget()
    assert bench.turns.ahead("first") == 0
