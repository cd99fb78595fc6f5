"""What a cache of slots is thought to hold, compared with a plain llama.cpp made of tuples."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pair.core.prefix_holders import Holders
from pair.core.prompt import Prompt
from pair.core.slot_cache import GHOSTS_LIMIT, SHELF_LIMIT, SlotCache
from tests.core.prompts import BLOCK, a_replica, prompt, talk

Path = tuple[int, ...]


@dataclass
class PlainSlots:
    """llama.cpp's slots and shelf, in blocks, by comparing one block after the other."""

    slots: int
    shelf_blocks: int
    held: list[Path] = field(default_factory=list)
    used: list[int] = field(default_factory=list)
    busy: set[int] = field(default_factory=set)
    shelf: list[Path] = field(default_factory=list)
    uses: int = 0
    continued: bool = False

    def take(self, path: Path) -> tuple[int, int]:
        """Begin a call: its slot, and how many blocks that had."""
        free = [at for at in range(len(self.held)) if at not in self.busy]
        best = max(free, key=lambda at: (_shared(self.held[at], path), -at), default=None)
        if best is None or _shared(self.held[best], path) * 10 <= len(path):
            if len(self.held) < self.slots:
                self.held.append(())
                self.used.append(0)
                best = len(self.held) - 1
            else:
                best = min(free, key=lambda at: self.used[at])
        cached = _shared(self.held[best], path)
        old = self.held[best]
        self.continued = bool(old) and cached * 2 >= len(old)
        if not self.continued:
            worth = [one for one in self.shelf if _shared(one, path) * 4 >= len(one)]
            found = max(worth, key=lambda one: _shared(one, path), default=())
            if _shared(found, path) > cached:
                cached = _shared(found, path)
                self.shelf.remove(found)
            self._save(old)
        self.held[best] = path
        self.busy.add(best)
        self.touch(best)
        return best, cached

    def touch(self, slot: int) -> None:
        self.uses += 1
        self.used[slot] = self.uses

    def leave(self, slot: int) -> None:
        self.busy.discard(slot)
        self.touch(slot)

    def _save(self, old: Path) -> None:
        if not old or not self.shelf_blocks:
            return
        if any(one[: len(old)] == old for one in self.shelf):
            return
        self.shelf = [one for one in self.shelf if old[: len(one)] != one] + [old]
        while sum(map(len, self.shelf)) > self.shelf_blocks and len(self.shelf) > 1:
            del self.shelf[0]


def _shared(one: Path, other: Path) -> int:
    return next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )


_PATHS = st.lists(st.integers(0, 2), min_size=1, max_size=12).map(tuple)


@given(
    st.integers(1, 3),
    st.integers(0, 40),
    st.lists(st.tuples(_PATHS, st.integers(0, 3)), min_size=1, max_size=30),
)
def test_predictions_are_exact_where_sizes_are_known(
    slots: int, shelf_blocks: int, calls: list[tuple[Path, int]]
) -> None:
    """Also with several calls at once: each ends after as many others as its number says."""
    engine = PlainSlots(slots, shelf_blocks)
    cache = SlotCache(1, Holders())
    replica = a_replica(slots=slots, cache_chars=shelf_blocks * BLOCK)
    running: list[tuple[int, Prompt, float]] = []
    now = 0.0
    for path, others in calls:
        for one in list(running):
            if len(running) >= slots or one[2] <= now:
                now += 1.0
                running.remove(one)
                engine.leave(one[0])
                cache.released(one[1], now, 0)
                replica.in_flight -= 1
        asked = prompt(*path)
        predicted = cache.cached_chars(replica, asked)
        evicted = cache.evicted(replica, asked, now)
        before = _kept(engine)
        slot, cached = engine.take(path)
        assert predicted == cached * BLOCK
        lost = len(before - _kept(engine))
        if not engine.continued:
            assert (0 if evicted is None else evicted.chars) >= lost * BLOCK
        now += 1.0
        replica.in_flight += 1
        cache.prefilled(replica, asked, now)
        cache.corrected(replica, asked, cached * BLOCK)
        running.append((slot, asked, now + others))


def _kept(engine: PlainSlots) -> set[Path]:
    """The blocks that it has, each with those before it."""
    return {path[: at + 1] for path in (*engine.held, *engine.shelf) for at in range(len(path))}


def _rounds(
    cache: SlotCache, engine: PlainSlots, told_blocks: int | None, talks: int, turns: int
) -> list[bool]:
    """Conversations that take turns, with corrections; for each call whether it was foreseen."""
    chars = None if told_blocks is None else told_blocks * BLOCK
    replica = a_replica(slots=engine.slots, cache_chars=chars, ours=1)
    right, now = [], 0.0
    for turn in range(1, turns + 1):
        for name in range(talks):
            path = tuple(hash((name, at)) for at in range(10 + turn))
            asked = prompt(*path)
            now += 1.0
            predicted = cache.cached_chars(replica, asked)
            slot, cached = engine.take(path)
            cache.prefilled(replica, asked, now)
            engine.leave(slot)
            cache.released(asked, now, 0)
            cache.corrected(replica, asked, cached * BLOCK)
            right.append(abs(predicted - cached * BLOCK) <= 2 * BLOCK)
    return right


@pytest.mark.parametrize("told_blocks", [None, 40, 4000])
@pytest.mark.parametrize("shelf_blocks", [0, 100, 400])
def test_a_wrong_size_is_corrected(told_blocks: int | None, shelf_blocks: int) -> None:
    cache, engine = SlotCache(1, Holders()), PlainSlots(1, shelf_blocks)
    right = _rounds(cache, engine, told_blocks, talks=6, turns=16)
    assert all(right[-24:])


def test_slots_that_nobody_tells_of_are_found_as_a_shelf() -> None:
    cache, engine = SlotCache(1, Holders()), PlainSlots(4, 0)
    replica = a_replica(slots=1, ours=1)
    right = []
    for turn in range(1, 8):
        for name in range(4):
            path = tuple(hash((name, at)) for at in range(30 + turn))
            predicted = cache.cached_chars(replica, prompt(*path))
            slot, cached = engine.take(path)
            cache.prefilled(replica, prompt(*path), float(turn))
            engine.leave(slot)
            cache.corrected(replica, prompt(*path), cached * BLOCK)
            right.append(predicted == cached * BLOCK)
    assert all(right[-8:])


def test_two_siblings_at_once_gain_nothing_from_each_other() -> None:
    cache, replica = SlotCache(1, Holders()), a_replica(slots=2)
    one, other = prompt(1, 2, 3, 4, "a"), prompt(1, 2, 3, 4, "b")
    replica.in_flight = 2
    assert cache.cached_chars(replica, one) == cache.cached_chars(replica, other) == 0
    cache.prefilled(replica, one, 1.0)
    replica.in_flight = 1
    assert cache.cached_chars(replica, other) == 0, "its slot still answers the first"
    cache.released(one, 2.0, 0)
    replica.in_flight = 0
    assert cache.cached_chars(replica, other) == 4 * BLOCK


def test_of_a_replica_without_a_free_slot_it_says_what_there_is_once_one_is() -> None:
    cache, replica = SlotCache(1, Holders()), a_replica(slots=1, ours=1)
    cache.prefilled(replica, talk("a", 1), 1.0)
    assert cache.cached_chars(replica, talk("a", 2)) == talk("a", 1).chars


def test_an_end_that_nobody_tells_of_is_guessed_from_the_calls_that_are_left() -> None:
    cache, replica = SlotCache(1, Holders()), a_replica(slots=3, ours=1)
    for at, name in enumerate("ab"):
        cache.prefilled(replica, talk(name, 1), float(at))
    replica.in_flight = 1
    assert cache.cached_chars(replica, talk("a", 2)) == talk("a", 1).chars
    assert cache.cached_chars(replica, talk("b", 2)) == 0, "the latest is the one that goes on"


def test_what_a_newcomer_pushes_out() -> None:
    cache, replica = SlotCache(1, Holders()), a_replica(slots=2)
    assert cache.evicted(replica, talk("new", 1), 0.0) is None, "an empty slot"
    for at, name in enumerate("ab"):
        cache.prefilled(replica, talk(name, at + 1), 10.0 + at)
    assert cache.evicted(replica, talk("a", 2), 20.0) is None, "it goes on"
    evicted = cache.evicted(replica, talk("new", 1), 20.0)
    assert evicted is not None
    assert (evicted.chars, evicted.idle_s) == (talk("a", 1).chars, 10.0)


def test_with_a_shelf_only_what_falls_off_is_lost() -> None:
    room = talk("a", 3).chars
    cache, replica = SlotCache(1, Holders()), a_replica(slots=1, cache_chars=room)
    for at, name in enumerate("abc"):
        cache.prefilled(replica, talk(name, 1), float(at))
    assert cache.evicted(replica, talk("d", 1), 9.0) is None
    cache.prefilled(replica, talk("d", 1), 3.0)
    evicted = cache.evicted(replica, talk("e", 1), 9.0)
    assert evicted is not None
    assert (evicted.chars, evicted.idle_s) == (talk("a", 1).chars, 9.0)
    assert cache.evicted(replica, talk("a", 2), 9.0) is None, "what comes back makes room"


def test_a_shelf_has_an_end_whatever_its_engine_says() -> None:
    """Each question looks at all that is on it."""
    cache, replica = SlotCache(1, Holders()), a_replica(slots=1, cache_chars=10**12)
    for number in range(SHELF_LIMIT + GHOSTS_LIMIT + 9):
        cache.prefilled(replica, talk(number, 1), float(number))
    assert cache.size == (1 + SHELF_LIMIT + GHOSTS_LIMIT) * (len(talk(0, 1).fingerprints) + 1)
    assert cache.cached_chars(replica, talk(0, 1)) == 0
    assert cache.cached_chars(replica, talk(GHOSTS_LIMIT + 9, 1)) > 0


def test_the_correction_may_come_before_or_after() -> None:
    """The engine was started anew in between, and lacks what a slot should have had."""
    kept = []
    for before in (True, False):
        cache, replica = SlotCache(1, Holders()), a_replica(slots=3, ours=1)
        for at, name in enumerate("abc"):
            cache.prefilled(replica, talk(name, 2), float(at))
            cache.released(talk(name, 2), float(at), 0)
        for name in "ab":
            if before:
                cache.corrected(replica, talk(name, 3), 0)
            cache.prefilled(replica, talk(name, 3), 9.0)
            if not before:
                cache.corrected(replica, talk(name, 3), 0)
        replica.in_flight = 0
        kept.append([cache.cached_chars(replica, talk(name, 4)) for name in "abc"])
    assert kept[0][2] == kept[1][2] == 0, "two calls without any of it: nothing is left"
    assert kept[0][1] == kept[1][1] == talk("b", 3).chars


def test_an_engine_that_never_finds_anything_is_believed_in_the_end() -> None:
    cache, replica = SlotCache(1, Holders()), a_replica(slots=1, ours=1)
    for turn in range(1, 12):
        cache.prefilled(replica, talk("a", turn), float(turn))
        cache.corrected(replica, talk("a", turn), 0)
    assert cache.cached_chars(replica, talk("a", 20)) == 0
    cache.prefilled(replica, talk("a", 12), 12.0)
    cache.corrected(replica, talk("a", 12), talk("a", 11).chars)
    assert cache.cached_chars(replica, talk("a", 20)) == talk("a", 12).chars


def test_fewer_slots_than_before() -> None:
    cache, replica = SlotCache(1, Holders()), a_replica(slots=4)
    for at, name in enumerate("abcd"):
        cache.prefilled(replica, talk(name, 1), float(at))
    fewer = a_replica(slots=1)
    cache.prefilled(fewer, talk("d", 2), 9.0)
    assert [cache.cached_chars(fewer, talk(name, 9)) > 0 for name in "abcd"] == [0, 0, 0, 1]


@given(st.lists(_PATHS, max_size=80), st.integers(0, 60))
def test_its_size_is_what_it_holds_and_bounded_whatever_comes(
    paths: list[Path], shelf_blocks: int
) -> None:
    """I7: by its slots, its shelf and its ghosts; and dropping all leaves nothing."""
    holders = Holders()
    cache, replica = SlotCache(1, holders), a_replica(slots=2, cache_chars=shelf_blocks * BLOCK)
    for at, path in enumerate(paths):
        cache.prefilled(replica, prompt(*path), float(at))
        assert cache.size <= (2 + GHOSTS_LIMIT) * 13 + 2 * shelf_blocks
    sizes = [cache.size]
    while cache.size:
        assert cache.oldest_at() <= len(paths)
        cache.drop_oldest()
        sizes.append(cache.size)
    assert sizes == sorted(set(sizes), reverse=True)
    assert len(holders) == 0
    assert cache.oldest_at() == float("inf")


def test_the_answer_is_in_the_cache_of_whoever_goes_on_from_it() -> None:
    cache, replica = SlotCache(1, Holders()), a_replica(slots=1)
    asked = prompt(1, 2, more=100)
    cache.prefilled(replica, asked, 1.0)
    cache.released(asked, 2.0, 700)
    next_turn = prompt(1, 2, "answer", "question", more=500)
    assert cache.cached_chars(replica, next_turn) == asked.chars + 700
    assert cache.cached_chars(replica, prompt(1, 2, more=150)) == 2 * BLOCK + 150, "never more"
    assert cache.cached_chars(replica, prompt(1, "other")) == BLOCK, "it goes on from elsewhere"
    assert cache.cached_chars(replica, prompt(1, 2)) == 2 * BLOCK, "it ends before"


def test_a_llamacpp_that_does_not_tell_has_its_usual_shelf_until_it_turns_out_otherwise() -> None:
    cache, replica = SlotCache(1, Holders()), a_replica(kind="llamacpp", slots=1)
    for at, name in enumerate("abc"):
        cache.prefilled(replica, talk(name, 2), float(at))
        cache.released(talk(name, 2), float(at), 0)
    assert cache.cached_chars(replica, talk("a", 3)) == talk("a", 2).chars
    for turn in range(3, 8):
        for name in "abc":  # it keeps none but the latest, and says so
            asked = talk(name, turn)
            cache.prefilled(replica, asked, 9.0 + turn)
            cache.corrected(replica, asked, 0)
            cache.released(asked, 9.0 + turn, 0)
    assert cache.cached_chars(replica, talk("a", 8)) == 0
