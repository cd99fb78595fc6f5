"""Where in the house a prompt is warm: what each replica probably still has of what it has read.

The caches of single replicas (`prefix_cache.py`) under one bound and one question. The scheduler
reckons with it in seconds: characters that are cached need no prefill. It is told what became of
each call, and never of one that is still being read: two cold siblings at once gain nothing from
each other.

Bounded by fingerprints over all replicas, least recently used out: 90 bytes each where a slot holds
them, 250 in pages. A conversation of 100,000 characters has 145.

Measured 2026-11-30 on the shared 2-core test machine with 1,000 replicas that all hold the system
prompt: `cached_chars` 3 us (12 us where the replica holds the system prompt
only), `evicted` 6 to 15 us, `prefilled` 0.1 ms for 144 blocks.
"""

from __future__ import annotations

import heapq
from typing import Final

from pair.core.block_cache import BlockCache
from pair.core.names import ReplicaId
from pair.core.prefix_cache import Evicted, PrefixCache
from pair.core.prefix_holders import Holders
from pair.core.prompt import Prompt
from pair.core.replica import Replica
from pair.core.slot_cache import SlotCache

PAGED_KINDS: Final = frozenset(("vllm", "sglang"))
"""Kinds of engines whose slots share one cache of blocks; all others are taken for llama.cpp."""


class PrefixIndex:
    """What all replicas hold. An unreadable prompt is held by nobody.

    A replica is known by its id, so what it held survives a moment of absence; a restart of its
    engine shows by corrections, after two calls.
    """

    def __init__(self, fingerprints_limit: int) -> None:
        self._limit = fingerprints_limit
        self._holders = Holders()
        self._numbers: dict[ReplicaId, int] = {}
        self._caches: dict[int, tuple[ReplicaId, PrefixCache]] = {}
        self._next_number = 1
        self._size = 0
        # One entry a cache: when its oldest was used, at some time. What it says now is looked up
        # when its turn comes.
        self._oldest: list[tuple[float, int]] = []

    def __len__(self) -> int:
        """Fingerprints that are remembered, and one for each sequence."""
        return self._size

    def cached_chars(self, replica: Replica, prompt: Prompt) -> int:
        """Characters at the start of the prompt that the replica need not read, predicted; 0 where
        nothing is known. Of a replica without a free slot: once it has one.
        """
        if not prompt.fingerprints:
            return 0
        cache = self._cache(replica)
        return 0 if cache is None else cache.cached_chars(replica, prompt)

    def held(self, fingerprint: int) -> bool:
        """Whether any replica holds this block of some prompt, and so all before it."""
        return fingerprint in self._holders

    def prefilled(self, replica: Replica, prompt: Prompt, now: float) -> None:
        """The engine has read it: its first content byte came, or its answer. One without
        fingerprints leaves nothing behind, and still takes a slot from what was there.
        """
        cache = self._cache(replica)
        if cache is None:
            if not prompt.fingerprints:
                return
            cache = self._new(replica, now)
        before = cache.size
        cache.prefilled(replica, prompt, now)
        self._resized(cache, before)

    def released(self, replica: Replica, prompt: Prompt, now: float, answer_chars: int = 0) -> None:
        """A call that was prefilled is over: its slot is free for others to go on from. Untold, the
        replica's count of our calls is the guess.
        """
        if (cache := self._cache(replica)) is not None:
            cache.released(prompt, now, answer_chars)

    def corrected(self, replica: Replica, prompt: Prompt, cached_chars: int, now: float) -> None:
        """What the engine says that it had cached when this call came; to be told once, before or
        after `prefilled` of the same call.
        """
        if not prompt.fingerprints:
            return
        cache = self._cache(replica) or self._new(replica, now)
        before = cache.size
        cache.corrected(replica, prompt, cached_chars)
        self._resized(cache, before)

    def evicted(self, replica: Replica, prompt: Prompt, now: float) -> Evicted | None:
        """What the prompt would push out there; None for an empty slot, its own prefix, or nothing
        that is known.
        """
        cache = self._cache(replica)
        return None if cache is None else cache.evicted(replica, prompt, now)

    def _cache(self, replica: Replica) -> PrefixCache | None:
        number = self._numbers.get(replica.id)
        return None if number is None else self._caches[number][1]

    def _new(self, replica: Replica, now: float) -> PrefixCache:
        number, self._next_number = self._next_number, self._next_number + 1
        paged = replica.report.engine_kind in PAGED_KINDS
        cache: PrefixCache = (BlockCache if paged else SlotCache)(number, self._holders)
        self._numbers[replica.id] = number
        self._caches[number] = (replica.id, cache)
        heapq.heappush(self._oldest, (now, number))
        return cache

    def _resized(self, cache: PrefixCache, before: int) -> None:
        """Count what a cache has come to hold, and keep the bound (I7)."""
        self._size += cache.size - before
        while self._size > self._limit:
            _, number = heapq.heappop(self._oldest)
            if number not in self._caches:
                continue
            replica, old = self._caches[number]
            used_at = old.oldest_at()
            if not self._oldest or used_at <= self._oldest[0][0]:
                had = old.size
                old.drop_oldest()
                self._size += old.size - had
                used_at = old.oldest_at()
            if old.size:
                heapq.heappush(self._oldest, (used_at, number))
            else:
                del self._caches[number], self._numbers[replica]
