"""The cache of vLLM and SGLang: blocks that all sequences of an engine share.

Least recently used out, the end of a prompt before its beginning, so that what is left of a prompt
is always its beginning. Calls at once share what is there. How much the engine keeps is told by few
and learned by steps: up when it had what was thought gone, down when it lacked what was thought
there.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from pair.core.prefix_cache import (
    CHARS_PER_TOKEN,
    COLD_CALLS,
    NOISE_CHARS,
    UNCACHED_CALLS,
    Awaited,
    Evicted,
    Evidence,
    worth,
)
from pair.core.prefix_holders import Holders
from pair.core.prompt import Prompt, block_end
from pair.core.replica import Replica

PAGED_TOKENS: Final = 131_072
"""First guess of the size, in tokens: about what an 8B model has on a card of 24 GB."""

GROWTH: Final = 1.25
SHRINKAGE: Final = 0.8
"""Steps of a capacity that has shown to be wrong."""

CAPACITY_LEAST_CHARS: Final = 32_768
"""No engine that shares pages has less than one long prompt."""

ANSWER_CHARS: Final = 16_384
"""What is cached beyond what was expected may be the latest answer, but few are longer."""

_Block = tuple[float, int]
"""When it was last used (s), and its characters."""


class BlockCache:
    """A `PrefixCache` whose slots share one pool."""

    def __init__(self, number: int, holders: Holders) -> None:
        self._number = number
        self._holders = holders
        self._blocks: OrderedDict[int, _Block] = OrderedDict()
        self._ghosts: OrderedDict[int, int] = OrderedDict()
        self._chars = 0
        self._ghost_chars = 0
        self._capacity_chars = PAGED_TOKENS * CHARS_PER_TOKEN
        self._told_tokens: int | None = None
        self._awaited = Awaited()
        self._cold_calls = 0
        self.size = 0

    def cached_chars(self, replica: Replica, prompt: Prompt) -> int:
        if self._cold_calls >= UNCACHED_CALLS:
            return 0
        return block_end(self._holders.depth(self._number, prompt.fingerprints))

    def prefilled(self, replica: Replica, prompt: Prompt, now: float) -> None:
        self._hear(replica)
        if not prompt.fingerprints:
            return
        self._awaited.came(prompt, self._evidence(prompt))
        blocks, added = self._blocks, []
        for at in range(len(prompt.fingerprints) - 1, -1, -1):
            fingerprint = prompt.fingerprints[at]
            block = (now, block_end(at + 1) - block_end(at))
            if fingerprint in blocks:
                blocks[fingerprint] = block
                blocks.move_to_end(fingerprint)
                continue
            blocks[fingerprint] = block
            added.append(fingerprint)
            self._chars += block[1]
            self._unhaunt(fingerprint)
        self._holders.add(self._number, added)
        self.size += len(added)
        self._trim()

    def released(self, prompt: Prompt, now: float, answer_chars: int) -> None:
        """Of no use: calls share what is there, and which blocks an answer made is not known."""

    def corrected(self, replica: Replica, prompt: Prompt, cached_chars: int) -> None:
        self._hear(replica)
        evidence = self._awaited.take(prompt) or self._evidence(prompt)
        if evidence.missed(cached_chars):
            self._missed(prompt, cached_chars)
        elif cached_chars >= NOISE_CHARS:
            self._cold_calls = 0
        unforeseen = cached_chars - evidence.expected_chars > ANSWER_CHARS
        if unforeseen or evidence.found_ghost(cached_chars):
            self._capacity_chars = int(self._capacity_chars * GROWTH)

    def evicted(self, replica: Replica, prompt: Prompt, now: float) -> Evicted | None:
        depth = self._holders.depth(self._number, prompt.fingerprints)
        over = self._chars + prompt.chars - block_end(depth) - self._capacity_chars
        own = frozenset(prompt.fingerprints[:depth])
        chars, used_at = 0, 0.0
        for fingerprint, (block_used_at, block_chars) in self._blocks.items():
            if chars >= over:
                break
            if fingerprint not in own:
                chars += block_chars
                used_at = block_used_at
        return worth(chars, used_at, now)

    def oldest_at(self) -> float:
        if self._ghosts:
            return 0.0
        return next(iter(self._blocks.values()))[0] if self._blocks else float("inf")

    def drop_oldest(self) -> None:
        if self._ghosts:
            self._ghost_chars -= self._ghosts.popitem(last=False)[1]
            self.size -= 1
        elif self._blocks:
            fingerprint, (_, chars) = self._blocks.popitem(last=False)
            self._chars -= chars
            self.size -= 1
            self._holders.remove(self._number, (fingerprint,))

    def clear(self) -> None:
        while self.size:
            self.drop_oldest()
        self._awaited.clear()
        self._cold_calls = 0

    def _evidence(self, prompt: Prompt) -> Evidence:
        """With the blocks that follow among the ghosts; what distance they have nobody counts."""
        depth = self._holders.depth(self._number, prompt.fingerprints)
        known = depth
        while known < len(prompt.fingerprints) and prompt.fingerprints[known] in self._ghosts:
            known += 1
        return Evidence(block_end(depth), ghost_chars=block_end(known) if known > depth else 0)

    def _missed(self, prompt: Prompt, cached_chars: int) -> None:
        cold = cached_chars < NOISE_CHARS
        self._cold_calls = self._cold_calls + 1 if cold else 0
        if self._cold_calls >= COLD_CALLS:
            self._forget_but(prompt)
            return
        shrunk = int(self._capacity_chars * SHRINKAGE)
        self._capacity_chars = max(shrunk, CAPACITY_LEAST_CHARS)
        self._trim()

    def _forget_but(self, prompt: Prompt) -> None:
        """Forget everything that this prompt does not have."""
        own = frozenset(prompt.fingerprints)
        gone = [fingerprint for fingerprint in self._blocks if fingerprint not in own]
        for fingerprint in gone:
            self._chars -= self._blocks.pop(fingerprint)[1]
        self._holders.remove(self._number, gone)
        self.size -= len(gone) + len(self._ghosts)
        self._ghosts.clear()
        self._ghost_chars = 0

    def _hear(self, replica: Replica) -> None:
        """Begin anew with the capacity, where the engine tells another one."""
        told = replica.report.cache_tokens
        if told != self._told_tokens:
            self._told_tokens = told
            self._capacity_chars = (told or PAGED_TOKENS) * CHARS_PER_TOKEN
            self._trim()

    def _trim(self) -> None:
        """Make ghosts of what is over the capacity, as many as the capacity again."""
        gone = []
        while self._chars > self._capacity_chars:
            fingerprint, (_, chars) = self._blocks.popitem(last=False)
            gone.append(fingerprint)
            self._chars -= chars
            self._ghosts[fingerprint] = chars
            self._ghost_chars += chars
        self._holders.remove(self._number, gone)
        while self._ghost_chars > self._capacity_chars:
            self._ghost_chars -= self._ghosts.popitem(last=False)[1]
            self.size -= 1

    def _unhaunt(self, fingerprint: int) -> None:
        chars = self._ghosts.pop(fingerprint, None)
        if chars is not None:
            self._ghost_chars -= chars
            self.size -= 1
