from __future__ import annotations

from pair.core.names import NodeId, TicketId
from pair.core.siblings import ALIKE_CHARS, Siblings
from tests.core.speeds_of import prompt

A, B = NodeId("a"), NodeId("b")
LONG = prompt("x", chars=2 * ALIKE_CHARS)


def nobody(mark: int) -> bool:
    """Holds it."""
    return False


def opened(count: int, *, cold: bool = True) -> Siblings:
    siblings = Siblings()
    for ticket in range(count):
        siblings.open(TicketId(ticket), LONG, lambda mark: not cold)
    return siblings


def test_a_nodes_share_of_a_cold_wave_is_calls_by_nodes_rounded_up() -> None:
    siblings = opened(7)
    wave = siblings.of(TicketId(6))
    assert wave is not None
    for ticket in range(4):
        assert not wave.has_share(A, 2)
        siblings.granted(TicketId(ticket), A)
    assert wave.has_share(A, 2)
    assert not wave.has_share(B, 2)
    siblings.failed(TicketId(3), A)
    assert not wave.has_share(A, 2)


def test_a_warm_wave_has_no_shares() -> None:
    siblings = opened(4, cold=False)
    for ticket in range(4):
        siblings.granted(TicketId(ticket), A)
    wave = siblings.of(TicketId(0))
    assert wave is not None
    assert not wave.has_share(A, 2)


def test_a_wave_ends_with_its_last_call() -> None:
    siblings = opened(3)
    for ticket in range(2):
        siblings.close(TicketId(ticket))
    assert len(siblings) == 1
    siblings.close(TicketId(2))
    siblings.close(TicketId(2))
    assert len(siblings) == 0
    siblings.open(TicketId(9), LONG, lambda mark: mark in LONG.fingerprints)
    wave = siblings.of(TicketId(9))
    assert wave is not None
    assert (wave.cold, wave.calls) == (False, 1)


def test_who_begins_otherwise_or_is_short_is_no_sibling() -> None:
    siblings = Siblings()
    siblings.open(TicketId(1), LONG, nobody)
    siblings.open(TicketId(2), prompt("y", chars=2 * ALIKE_CHARS), nobody)
    siblings.open(TicketId(3), prompt("x", chars=ALIKE_CHARS - 256), nobody)
    assert len(siblings) == 2
    assert siblings.of(TicketId(3)) is None


def test_what_one_has_beyond_the_others_is_not_in_common() -> None:
    siblings = Siblings()
    siblings.open(TicketId(1), prompt("x", "y", chars=4 * ALIKE_CHARS), nobody)
    wave = siblings.of(TicketId(1))
    assert wave is not None
    assert not wave.goes_beyond(4 * ALIKE_CHARS)
    siblings.open(TicketId(2), prompt("x", "z", chars=4 * ALIKE_CHARS), nobody)
    assert not wave.goes_beyond(2 * ALIKE_CHARS)
    assert wave.goes_beyond(3 * ALIKE_CHARS)
