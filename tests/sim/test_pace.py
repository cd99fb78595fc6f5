from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pair.sim.agenda import Agenda
from pair.sim.pace import Pace


class Bench:
    """Works that begin at given times, and when each ended."""

    def __init__(self, slowdown: float) -> None:
        self.agenda = Agenda()
        self.pace = Pace(self.agenda, slowdown)
        self.ends: dict[str, float] = {}
        self.left = 0

    def begins(self, name: str, at: float, alone_s: float) -> None:
        self.left += 1
        self.agenda.at(at, lambda _: self.pace.work(name, alone_s, self.ended), None)

    def is_dropped(self, name: str, at: float) -> None:
        self.left -= 1
        self.agenda.at(at, self.pace.drop, name)

    def ended(self, name: str) -> None:
        self.ends[name] = self.agenda.now

    def live(self) -> dict[str, float]:
        while len(self.ends) < self.left:
            self.agenda.go_on()
        return self.ends


def test_without_slowdown_nobody_feels_the_others() -> None:
    bench = Bench(0.0)
    bench.begins("a", 0.0, 2.0)
    bench.begins("b", 1.0, 5.0)
    assert bench.live() == {"a": 2.0, "b": 6.0}


def test_two_at_once_take_longer_while_they_are_two() -> None:
    bench = Bench(1.0)
    bench.begins("long", 0.0, 3.0)
    bench.begins("short", 1.0, 1.0)
    # From 1 s on each gets on at half its speed; the short one is done at 3 s, and the long one,
    # which has 1 s left then, goes on alone.
    assert bench.live() == pytest.approx({"short": 3.0, "long": 4.0})


def test_who_is_dropped_slows_nobody_any_more() -> None:
    bench = Bench(1.0)
    bench.begins("stays", 0.0, 3.0)
    bench.begins("goes", 1.0, 10.0)
    bench.is_dropped("goes", 2.0)
    assert bench.live() == pytest.approx({"stays": 3.5})


def test_a_work_of_no_time_is_done_at_once() -> None:
    bench = Bench(0.5)
    bench.begins("other", 0.0, 1.0)
    bench.begins("none", 0.5, 0.0)
    assert bench.live() == pytest.approx({"none": 0.5, "other": 1.0})


@given(
    works=st.lists(st.tuples(st.floats(0, 10), st.floats(0.001, 5)), min_size=1, max_size=12),
    slowdown=st.floats(0.01, 3),
)
def test_no_work_ends_before_its_time_nor_later_than_in_a_crowd(
    works: list[tuple[float, float]], slowdown: float
) -> None:
    bench = Bench(slowdown)
    for number, (at, alone_s) in enumerate(works):
        bench.begins(str(number), at, alone_s)
    ends = bench.live()
    slowest = 1 + slowdown * (len(works) - 1)
    for number, (at, alone_s) in enumerate(works):
        took_s = ends[str(number)] - at
        assert alone_s - 1e-6 <= took_s <= alone_s * slowest + 1e-6


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0.001, 5)), min_size=1, max_size=12))
def test_at_a_slowdown_of_1_sharing_gains_and_loses_nothing(
    works: list[tuple[float, float]],
) -> None:
    """The last one ends as if one after another had been done."""
    bench = Bench(1.0)
    done_at = 0.0
    for number, (at, alone_s) in enumerate(sorted(works)):
        bench.begins(str(number), at, alone_s)
        done_at = max(done_at, at) + alone_s
    assert max(bench.live().values()) == pytest.approx(done_at)
