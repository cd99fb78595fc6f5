from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pair.core.alarms import Alarms


def test_alarms_ring_in_order_of_time_and_once() -> None:
    alarms = Alarms()
    for key, at in (("c", 3.0), ("a", 1.0), ("b", 2.0)):
        alarms.set(key, at)
    assert alarms.next_at() == 1.0
    assert list(alarms.due(2.0)) == ["a", "b"]
    assert list(alarms.due(2.5)) == []
    assert list(alarms.due(3.0)) == ["c"]
    assert alarms.next_at() is None


def test_alarms_at_one_time_ring_in_the_order_in_which_they_were_set() -> None:
    alarms = Alarms()
    for key in "bca":
        alarms.set(key, 1.0)
    assert list(alarms.due(1.0)) == ["b", "c", "a"]


def test_an_alarm_moves_and_can_be_cancelled() -> None:
    alarms = Alarms()
    alarms.set("a", 1.0)
    alarms.set("a", 5.0)
    alarms.set("b", 2.0)
    alarms.cancel("b")
    alarms.cancel("never set")
    assert "b" not in alarms
    assert "a" in alarms
    assert list(alarms.due(4.0)) == []
    assert alarms.next_at() == 5.0


def test_an_alarm_set_while_ringing_rings_if_it_is_due() -> None:
    alarms = Alarms()
    alarms.set("a", 1.0)
    rung = []
    for key in alarms.due(2.0):
        rung.append(key)
        if key == "a":
            alarms.set("b", 1.5)
            alarms.set("c", 9.0)
    assert rung == ["a", "b"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["set", "cancel", "due"]),
            st.integers(0, 5),
            st.floats(0, 100, allow_nan=False),
        ),
        max_size=60,
    )
)
def test_alarms_behave_like_a_table_of_times(steps: list[tuple[str, int, float]]) -> None:
    alarms, table = Alarms(), dict[object, float]()
    for what, key, at in steps:
        match what:
            case "set":
                alarms.set(key, at)
                table[key] = at
            case "cancel":
                alarms.cancel(key)
                table.pop(key, None)
            case _:
                rung = list(alarms.due(at))
                assert set(rung) == {key for key, when in table.items() if when <= at}
                times = [table.pop(key) for key in rung]
                assert times == sorted(times)
        assert alarms.next_at() == min(table.values(), default=None)


def test_moving_one_alarm_for_ever_takes_no_memory() -> None:
    alarms = Alarms()
    alarms.set("stays", 1e9)
    for step in range(10_000):
        alarms.set("moves", float(step))
    assert len(alarms) <= 64 + 2 * 2 + 1
    assert list(alarms.due(1e9)) == ["moves", "stays"]


def test_an_alarm_is_brought_forward_but_never_put_off() -> None:
    alarms = Alarms()
    alarms.bring_forward("x", 5.0)
    alarms.bring_forward("x", 7.0)
    assert alarms.next_at() == 5.0
    alarms.bring_forward("x", 3.0)
    assert list(alarms.due(4.0)) == ["x"]
    assert alarms.next_at() is None
