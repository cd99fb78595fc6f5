"""The true caches: exact where a plain account is easy, and never more than a cache without end."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pair.core.names import NodeId
from pair.errors import BookkeepingError
from pair.sim.agents import conversations
from pair.sim.machine_cache import (
    BLOCK_TOKENS,
    MachineCache,
    PagedCache,
    SlotCache,
    cache_of,
    ideal_cached_tokens,
)
from pair.sim.machines import CacheKind, Machine
from pair.sim.text import Run, Text, shared_tokens, tokens_of
from pair.sim.workload import Lengths, PlannedCall

TEXTS = st.lists(
    st.lists(st.builds(Run, st.integers(0, 2), st.integers(1, 200)), min_size=1, max_size=4).map(
        tuple
    ),
    max_size=12,
)


def served(cache: MachineCache, text: Text, answer: Text = ()) -> int:
    """One call from its beginning to its end; what it found cached."""
    seat = cache.seat(text)
    cache.read(seat, text)
    cache.leave(seat, (*text, *answer))
    return seat.cached_tokens


def plain(text: Text, earlier: list[Text]) -> int:
    return max((shared_tokens(text, other) for other in earlier), default=0)


def calls_of(texts: list[Text]) -> list[PlannedCall]:
    return [PlannedCall(0.0, tokens_of(text), 10, text=text) for text in texts]


@given(TEXTS)
def test_ideal_is_the_longest_beginning_that_was_ever_read(texts: list[Text]) -> None:
    expected = [
        min(plain(text, texts[:place]), tokens_of(text) - 1) for place, text in enumerate(texts)
    ]
    assert ideal_cached_tokens(calls_of(texts)) == expected


def test_ideal_knows_answers_and_prompts_without_a_text() -> None:
    first = PlannedCall(0.0, 100, 50, text=(Run(1, 100),), answer=2)
    second = PlannedCall(0.0, 170, 5, text=(Run(1, 100), Run(2, 50), Run(3, 20)))
    unknown = PlannedCall(0.0, 100, 5)
    assert ideal_cached_tokens([unknown, first, unknown, second]) == [0, 0, 0, 150]


@given(TEXTS)
def test_blocks_without_end_lose_only_what_fills_no_block(texts: list[Text]) -> None:
    cache = PagedCache(10**6)
    found = [served(cache, text) for text in texts]
    ideal = ideal_cached_tokens(calls_of(texts))
    assert found == [tokens // BLOCK_TOKENS * BLOCK_TOKENS for tokens in ideal]


@given(TEXTS, st.integers(1, 3), st.sampled_from([0, 100, 300, 10_000]), st.sampled_from(CacheKind))
def test_no_cache_has_more_than_one_without_end(
    texts: list[Text], slots: int, tokens: int, kind: CacheKind
) -> None:
    cache = cache_of(Machine(NodeId("a"), slots, 1.0, 1.0, cache_kind=kind, cache_tokens=tokens))
    found = [served(cache, text) for text in texts]
    assert all(
        0 <= one <= best
        for one, best in zip(found, ideal_cached_tokens(calls_of(texts)), strict=True)
    )


@given(TEXTS)
def test_one_slot_has_what_it_had_last(texts: list[Text]) -> None:
    cache = SlotCache(1, 0)
    for place, text in enumerate(texts):
        expected = plain(text, texts[max(0, place - 1) : place])
        assert served(cache, text) == min(expected, tokens_of(text) - 1)


@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 1000))
def test_with_a_slot_each_conversations_read_only_what_is_new(
    agents: int, turns: int, seed: int
) -> None:
    calls = conversations(
        agents * turns,
        turns,
        system_tokens=100,
        turn=Lengths(100, 50, spread=0.5),
        every_s=0.0,
        think_s=0.0,
        random=Random(seed),
    )
    # All first turns, all second ones, and so on; a system prompt shared is a tenth of no prompt.
    rounds = [calls[turn::turns] for turn in range(turns)]
    cache = SlotCache(agents, 0)
    seats = [cache.seat(call.text) for call in rounds[0]]
    said = []
    for seat, call in zip(seats, rounds[0], strict=True):
        said.append((*call.text, Run(call.answer or 0, call.output_tokens)))
        cache.read(seat, call.text)
        cache.leave(seat, said[-1])
    for later in rounds[1:]:
        for place, call in enumerate(later):
            answer = (Run(call.answer or 0, call.output_tokens),)
            assert served(cache, call.text, answer) == tokens_of(said[place])
            said[place] = (*call.text, *answer)


A, B, C, D = ((Run(number, 1000),) for number in range(1, 5))


def test_a_new_prompt_takes_the_slot_used_longest_ago() -> None:
    cache = SlotCache(2, 0)
    assert [served(cache, text) for text in (A, B, A, C, A, B)] == [0, 0, 999, 0, 999, 0]


def test_a_slot_that_works_is_no_slot_to_choose() -> None:
    cache = SlotCache(2, 0)
    served(cache, A)
    first = cache.seat(A)
    assert (first.cached_tokens, cache.seat(A).cached_tokens) == (999, 0), "the twin reads it all"
    with pytest.raises(BookkeepingError):
        cache.seat(B)


def test_the_shelf_keeps_what_was_overwritten_while_it_has_room() -> None:
    cache = SlotCache(1, 2000)
    assert [served(cache, text) for text in (A, B, C, A)] == [0, 0, 0, 999]
    # B and C lie there; D brings A there, and pushes out B, which has lain there longest.
    assert [served(cache, text) for text in (D, C, B)] == [0, 999, 0]


def test_a_conversation_that_goes_on_is_not_put_on_the_shelf() -> None:
    cache = SlotCache(1, 2500)
    longer = (*A, Run(9, 500))
    served(cache, B)
    assert [served(cache, text) for text in (A, longer, B, longer)] == [0, 1000, 999, 1499]


def test_blocks_used_longest_ago_go_first_and_ends_before_beginnings() -> None:
    cache = PagedCache(2 * 1024)
    system, one, two = Run(1, 512), Run(2, 512), Run(3, 512)
    served(cache, (system, one))
    served(cache, (system, two))
    assert served(cache, (Run(4, 1024),)) == 0
    # 2,560 tokens in all: what was only the first one's is half gone, from its end.
    cached = served(cache, (system, one))
    assert cached == 512
    assert served(cache, (system, two)) in range(512, 1024)


def test_what_is_in_use_is_not_evicted() -> None:
    cache = PagedCache(1024)
    running = cache.seat((Run(1, 1024),))
    cache.read(running, (Run(1, 1024),))
    served(cache, (Run(2, 1024),))
    assert served(cache, (Run(1, 1024),)) == 1024 - BLOCK_TOKENS
    cache.leave(running, (Run(1, 1024),))
    assert served(cache, (Run(1, 1024),)) == 1024 - BLOCK_TOKENS


@pytest.mark.parametrize("kind", CacheKind)
def test_twins_at_once_gain_nothing_from_each_other(kind: CacheKind) -> None:
    cache = cache_of(Machine(NodeId("a"), 2, 1.0, 1.0, cache_kind=kind, cache_tokens=10_000))
    assert [cache.seat(A).cached_tokens for _ in range(2)] == [0, 0]


@pytest.mark.parametrize("kind", CacheKind)
def test_a_new_engine_knows_nothing(kind: CacheKind) -> None:
    cache = cache_of(Machine(NodeId("a"), 2, 1.0, 1.0, cache_kind=kind, cache_tokens=10_000))
    served(cache, A)
    assert served(cache, A) > 0
    cache.clear()
    assert served(cache, A) == 0
