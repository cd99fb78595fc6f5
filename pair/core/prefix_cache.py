"""What the engine behind one replica probably still holds of the prompts that it has read.

Engines differ: `slot_cache.py` has those that keep a sequence per slot, `block_cache.py` those that
share pages. This is what both have in common, apart because the index over all replicas
(`prefix_index.py`) needs no more.

Both are guesses, since other clients use the engine, too, and capacities in characters are not
known. So each is corrected by what the engine says it had cached. What is over a capacity is
remembered for a while as a *ghost*: if the engine still has it, the capacity was too small; if it
lacks what should be there, it was too large.

The latest answer lies in the engine's cache, too, but nobody has seen its text before the next
prompt repeats it; of an engine with slots its length is reckoned with.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, Protocol

from pair.core.prompt import Prompt
from pair.core.replica import Replica

CHARS_PER_TOKEN: Final = 4
"""Of English text; only a first guess of a capacity that an engine tells in tokens."""

_AWAITED_LIMIT: Final = 64
"""Calls of one replica whose correction is awaited; the oldest never come."""

MISSED_SHARE: Final = 0.6
FOUND_SHARE: Final = 0.8
"""Of what was predicted: below the first the engine had not got it, above the second it had. What
lies between may be the error of reckoning characters in tokens, and teaches nothing."""

NOISE_CHARS: Final = 512
"""Difference that teaches nothing: a chat template and two blocks."""

COLD_CALLS: Final = 2
"""Calls in a row that found nothing where much was due: the engine has been started again."""


UNCACHED_CALLS: Final = 6
"""So many in a row: it keeps nothing at all, or does not say so."""


@dataclass(frozen=True, slots=True)
class Evicted:
    """What a prompt would push out of a replica's cache.

    Attributes:
        chars: characters that would have to be read again.
        idle_s: since the latest of it was in use.
    """

    chars: int
    idle_s: float


class PrefixCache(Protocol):
    """One replica's cache. `size` is what it takes of the index's memory: fingerprints, and one
    for each sequence.
    """

    size: int

    def cached_chars(self, replica: Replica, prompt: Prompt) -> int:
        """Characters of the prompt that need no prefill there."""

    def prefilled(self, replica: Replica, prompt: Prompt, now: float) -> None:
        """The engine has read it."""

    def released(self, prompt: Prompt, now: float, answer_chars: int) -> None:
        """The call is over; its answer has about so many characters, 0 where there is none."""

    def corrected(self, replica: Replica, prompt: Prompt, cached_chars: int) -> None:
        """What the engine says it had cached of this prompt when it came."""

    def evicted(self, replica: Replica, prompt: Prompt, now: float) -> Evicted | None:
        """What the prompt would push out."""

    def oldest_at(self) -> float:
        """When that was last used which has not been for the longest (s); infinite when empty."""

    def drop_oldest(self) -> None:
        """Forget that."""

    def clear(self) -> None:
        """Forget everything."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was expected of a call: what its correction teaches depends on it.

    Attributes:
        expected_chars: that should have been cached.
        distance_chars: kept since then, itself included, in what has a capacity; 0 where it lay in
            a slot.
        ghost_chars: that would have been cached were the capacity larger.
        ghost_distance_chars: how large it would have to be.
    """

    expected_chars: int
    distance_chars: int = 0
    ghost_chars: int = 0
    ghost_distance_chars: int = 0

    def missed(self, cached_chars: int) -> bool:
        """Whether the engine evidently had not got what was expected."""
        return cached_chars < MISSED_SHARE * self.expected_chars - NOISE_CHARS / 2

    def found_ghost(self, cached_chars: int) -> bool:
        """Whether it evidently had what a larger capacity would have kept."""
        return (
            self.ghost_chars > self.expected_chars + NOISE_CHARS / 2
            and cached_chars > self.expected_chars + NOISE_CHARS / 2
            and cached_chars > FOUND_SHARE * self.ghost_chars
        )


class Awaited:
    """The evidence of calls whose correction may still come, by prompt; a correction may also come
    first. Bounded.
    """

    def __init__(self) -> None:
        self._by_prompt: OrderedDict[tuple[int, int], Evidence | None] = OrderedDict()

    def came(self, prompt: Prompt, evidence: Evidence) -> None:
        """A call was read by the engine."""
        key = prompt_key(prompt)
        if key in self._by_prompt and self._by_prompt.pop(key) is None:
            return  # its correction has come already
        self._put(key, evidence)

    def take(self, prompt: Prompt) -> Evidence | None:
        """The evidence for a correction, None if the call is yet to come."""
        key = prompt_key(prompt)
        evidence = self._by_prompt.pop(key, None)
        if evidence is None:
            self._put(key, None)
        return evidence

    def clear(self) -> None:
        self._by_prompt.clear()

    def _put(self, key: tuple[int, int], evidence: Evidence | None) -> None:
        self._by_prompt[key] = evidence
        if len(self._by_prompt) > _AWAITED_LIMIT:
            self._by_prompt.popitem(last=False)


def prompt_key(prompt: Prompt) -> tuple[int, int]:
    """What tells prompts apart, as far as they can be."""
    return (prompt.fingerprints[-1] if prompt.fingerprints else 0, prompt.chars)


def worth(chars: int, used_at: float, now: float) -> Evicted | None:
    """What is pushed out, None where that is nothing."""
    return Evicted(chars, max(0.0, now - used_at)) if chars > 0 else None
