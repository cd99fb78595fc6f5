"""What a correction teaches, and how it finds the call that it is about."""

from __future__ import annotations

from pair.core.prefix_cache import Awaited, Evicted, Evidence, worth
from tests.core.prompts import prompt


def test_only_a_clear_difference_teaches_anything() -> None:
    """The engine counts tokens, and what a token is in characters is a guess."""
    expected = Evidence(10_000)
    assert not any(expected.missed(said) for said in (9_000, 12_000, 7_000))
    assert expected.missed(4_000)
    assert not Evidence(256).missed(0), "a single block may be the template's doing"
    ghost = Evidence(2_000, ghost_chars=10_000, ghost_distance_chars=50_000)
    assert ghost.found_ghost(9_000)
    assert not ghost.found_ghost(5_000)
    assert not Evidence(9_900, ghost_chars=10_000).found_ghost(10_000)


def test_a_correction_finds_its_call_whichever_comes_first() -> None:
    awaited, call = Awaited(), prompt(1, 2)
    awaited.came(call, Evidence(5))
    assert awaited.take(call) == Evidence(5)
    assert awaited.take(call) is None, "of the next call, which is yet to come"
    awaited.came(call, Evidence(6))
    assert awaited.take(call) is None


def test_calls_that_never_get_their_correction_are_forgotten() -> None:
    """I7."""
    awaited = Awaited()
    for at in range(1000):
        awaited.came(prompt(at), Evidence(at))
    assert awaited.take(prompt(0)) is None
    assert awaited.take(prompt(999)) == Evidence(999)


def test_nothing_pushed_out_is_none() -> None:
    assert worth(0, 1.0, 2.0) is None
    assert worth(5, 1.0, 3.0) == Evicted(5, 2.0)
    assert worth(5, 9.0, 3.0) == Evicted(5, 0.0)
