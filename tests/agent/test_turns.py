"""Who comes first at a full replica, and for how long a slot is kept."""

from __future__ import annotations

import asyncio

from pair.agent.admission import Admission
from pair.agent.turns import PROXIES_LIMIT, TURN_S, ReplicaKey
from pair.core.names import EngineName, ModelName
from tests.agent.face import until

A: ReplicaKey = (EngineName("ollama:11434"), ModelName("a"))


async def test_who_was_turned_away_goes_before_who_was_served() -> None:
    admission = Admission()
    first = admission.admit(A, 1, "greedy")
    assert first is not None
    assert admission.admit(A, 1, "patient") is None
    assert admission.turns.ahead(A, "greedy") == 1, "so it need not ask"
    assert admission.turns.ahead(A, "patient") == 0
    admission.settle(first)
    assert admission.admit(A, 1, "greedy") is None
    second = admission.admit(A, 1, "patient")
    assert second is not None
    assert admission.turns.ahead(A, "patient") == 1, "for the other has been turned away by now"
    admission.settle(second)
    assert admission.admit(A, 1, "greedy") is not None


async def test_turns_come_in_the_order_in_which_they_were_asked_for() -> None:
    admission = Admission()
    held = [admission.admit(A, 2, "greedy") for _ in range(2)]
    for proxy in ("b", "c", "b"):
        assert admission.admit(A, 2, proxy) is None
    assert [admission.turns.ahead(A, proxy) for proxy in ("b", "c", "greedy", None)] == [0, 1, 2, 2]
    for one in held:
        assert one is not None
        admission.settle(one)
    assert admission.admit(A, 2, "greedy") is None
    assert admission.admit(A, 2, "c") is not None, "there is room for both"
    assert admission.admit(A, 2, "greedy") is None
    assert admission.admit(A, 2) is None, "nor is there for whoever comes through no proxy"
    assert admission.admit(A, 2, "b") is not None


async def test_a_turn_that_is_not_used_is_over_soon_and_that_is_told() -> None:
    told: list[int] = []
    admission = Admission(lambda: told.append(admission.turns.ahead(A, "greedy")))
    first = admission.admit(A, 1, "greedy")
    assert first is not None
    assert admission.admit(A, 1, "gone elsewhere") is None
    loop = asyncio.get_running_loop()
    admission.settle(first)
    began_at = loop.time()
    await until(lambda: told[-1] == 0)
    assert loop.time() - began_at > TURN_S / 2
    assert admission.admit(A, 1, "greedy") is not None


async def test_time_runs_only_while_there_is_room() -> None:
    """Somebody else's slot, taken and given back meanwhile, starts it anew."""
    admission = Admission()
    held = [admission.admit(A, 2, "greedy") for _ in range(2)]
    for proxy in ("b", "c"):
        assert admission.admit(A, 2, proxy) is None
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + 2 * TURN_S
    await until(lambda: loop.time() > ends_at)
    assert admission.turns.ahead(A, "greedy") == 2, "nobody's turn has come yet"
    for one in held:
        assert one is not None
        admission.settle(one)
    assert admission.admit(A, 2, "c") is not None


async def test_the_line_is_bounded_whatever_marks_come() -> None:
    admission = Admission()
    assert admission.admit(A, 1) is not None
    for number in range(PROXIES_LIMIT * 2):
        assert admission.admit(A, 1, f"made up {number}") is None
    assert admission.turns.ahead(A, "x") == PROXIES_LIMIT


async def test_slots_that_come_later_open_it_to_those_who_wait() -> None:
    admission = Admission()
    assert admission.admit(A, 1, "greedy") is not None
    assert admission.admit(A, 1, "patient") is None
    assert admission.admit(A, 2, "greedy") is None
    assert admission.admit(A, 2, "patient") is not None


async def test_a_slot_is_kept_while_the_body_of_whoever_has_the_turn_is_on_its_way() -> None:
    admission = Admission()
    first = admission.admit(A, 1, "greedy")
    assert first is not None
    assert admission.admit(A, 1, "far away") is None
    admission.settle(first)
    assert not admission.full(A, 1, "far away"), "what its head was told"
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + 2 * TURN_S
    await until(lambda: loop.time() > ends_at)
    assert admission.admit(A, 1, "greedy") is None
    assert admission.admit(A, 1, "far away") is not None
