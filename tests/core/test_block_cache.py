"""What a cache of blocks is thought to hold, compared with a plain list of blocks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pair.core.block_cache import CAPACITY_LEAST_CHARS, BlockCache
from pair.core.prefix_holders import Holders
from tests.core.prompts import BLOCK, a_replica, prompt, talk

Path = tuple[int, ...]


class PlainBlocks:
    """Blocks by when they were last used, the oldest first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._blocks: list[Path] = []

    def take(self, path: Path) -> int:
        """Read a prompt; how many of its blocks were there, and how many others went."""
        blocks = [path[: at + 1] for at in range(len(path))]
        cached = next((at for at, one in enumerate(blocks) if one not in self._blocks), len(path))
        kept = [one for one in self._blocks if one not in blocks]
        self._blocks = (kept + blocks[::-1])[-self._limit :] if self._limit else []
        return cached


_PATHS = st.lists(st.integers(0, 2), min_size=1, max_size=12).map(tuple)


@given(st.integers(1, 40), st.lists(_PATHS, min_size=1, max_size=40))
def test_predictions_are_exact_where_the_capacity_is_known(limit: int, paths: list[Path]) -> None:
    engine, cache = PlainBlocks(limit), BlockCache(1, Holders())
    replica = a_replica(kind="vllm", cache_chars=limit * BLOCK)
    for at, path in enumerate(paths):
        predicted = cache.cached_chars(replica, prompt(*path))
        cached = engine.take(path)
        assert predicted == cached * BLOCK
        cache.prefilled(replica, prompt(*path), float(at))
        cache.corrected(replica, prompt(*path), cached * BLOCK)


@pytest.mark.parametrize("told_blocks", [130, 4000])
@pytest.mark.parametrize("limit", [150, 1000])
def test_a_wrong_capacity_is_corrected(told_blocks: int, limit: int) -> None:
    engine, cache = PlainBlocks(limit), BlockCache(1, Holders())
    replica = a_replica(kind="vllm", cache_chars=told_blocks * BLOCK)
    right = []
    for turn in range(1, 30):
        for name in range(10):
            # All share a system prompt, so that a miss is not a start of the engine.
            path = (-1, -2, -3, -4, *(hash((name, at)) for at in range(20 + turn)))
            predicted = cache.cached_chars(replica, prompt(*path))
            cached = engine.take(path) * BLOCK
            cache.prefilled(replica, prompt(*path), float(turn))
            cache.corrected(replica, prompt(*path), cached)
            right.append(abs(predicted - cached) <= 4 * BLOCK)
    assert sum(right[-100:]) >= 95


def test_siblings_share_what_has_been_read_at_once() -> None:
    cache, replica = BlockCache(1, Holders()), a_replica(kind="sglang", slots=8, ours=2)
    assert cache.cached_chars(replica, prompt(1, 2, "b")) == 0
    cache.prefilled(replica, prompt(1, 2, "a"), 1.0)
    assert cache.cached_chars(replica, prompt(1, 2, "b")) == 2 * BLOCK


def test_what_a_newcomer_pushes_out_is_what_was_used_longest_ago() -> None:
    cache, replica = BlockCache(1, Holders()), a_replica(kind="vllm", cache_chars=30 * BLOCK)
    cache.prefilled(replica, talk("a", 1), 1.0)
    cache.prefilled(replica, talk("b", 2), 2.0)
    assert cache.evicted(replica, prompt(*range(6)), 10.0) is None
    assert cache.evicted(replica, talk("b", 2), 10.0) is None
    evicted = cache.evicted(replica, prompt(*range(10)), 10.0)
    assert evicted is not None
    assert (evicted.chars, evicted.idle_s) == (4 * BLOCK, 9.0)
    cache.prefilled(replica, prompt(*range(10)), 3.0)
    assert cache.cached_chars(replica, talk("a", 1)) == 4 * BLOCK, "its end went first"


def test_an_engine_that_was_started_anew_has_what_it_has_read_since() -> None:
    for before in (True, False):
        cache, replica = BlockCache(1, Holders()), a_replica(kind="vllm", slots=8)
        for name in "abc":
            cache.prefilled(replica, talk(name, 2), 1.0)
        for name in "ab":
            if before:
                cache.corrected(replica, talk(name, 3), 0)
            cache.prefilled(replica, talk(name, 3), 2.0)
            if not before:
                cache.corrected(replica, talk(name, 3), 0)
        assert cache.cached_chars(replica, talk("c", 3)) == 0
        assert cache.cached_chars(replica, talk("b", 4)) == talk("b", 3).chars


def test_an_engine_that_never_finds_anything_is_believed_in_the_end() -> None:
    cache, replica = BlockCache(1, Holders()), a_replica(kind="vllm")
    for turn in range(1, 12):
        cache.prefilled(replica, talk("a", turn), float(turn))
        cache.corrected(replica, talk("a", turn), 0)
    assert cache.cached_chars(replica, talk("a", 20)) == 0
    cache.prefilled(replica, talk("a", 12), 12.0)
    cache.corrected(replica, talk("a", 12), talk("a", 11).chars)
    assert cache.cached_chars(replica, talk("a", 20)) == talk("a", 12).chars


@given(st.lists(_PATHS, max_size=60), st.integers(0, 20))
def test_its_size_is_bounded_and_dropping_all_leaves_nothing(paths: list[Path], limit: int) -> None:
    """I7: by its capacity, and as much again of what it no longer has."""
    holders = Holders()
    cache, replica = BlockCache(1, holders), a_replica(kind="vllm", cache_chars=limit * BLOCK)
    for at, path in enumerate(paths):
        cache.prefilled(replica, prompt(*path), float(at))
        assert cache.size <= 2 * (limit or CAPACITY_LEAST_CHARS)
        assert len(holders) <= cache.size
    while cache.size:
        cache.drop_oldest()
    assert len(holders) == 0
    assert cache.oldest_at() == float("inf")
