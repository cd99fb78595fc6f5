"""What a simulated engine really keeps of the prompts that it has read.

The truth by which predictions are judged, so it shares no code with `core/prefix_cache.py` and
looks at texts, not at fingerprints. Two kinds, as engines are built: a prompt in each slot, or
blocks that all prompts share. Either learns a prompt only when it has been read to its end, so two
that come at once gain nothing from each other.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from typing import Protocol

from pair.errors import BookkeepingError
from pair.sim.machines import CacheKind, Machine
from pair.sim.text import Run, Text, marks, shared_tokens, tokens_of
from pair.sim.workload import PlannedCall

SIMILARITY = 0.1
"""Share of a prompt that a slot must hold to be chosen for it: llama.cpp's `slot-prompt-similarity`
by default.
"""

KEPT_SHARE = 0.5
"""A slot of which at least so much stays in use is not copied to the shelf: llama.cpp's rule, the
same conversation going on.
"""

BLOCK_TOKENS = 64
"""Of the paged kind. Real ones have 16; four times as much loses at most 63 tokens of a prompt and
is four times as fast.
"""


@dataclass(slots=True, eq=False)
class Seat:
    """Where one call sits while it runs.

    Attributes:
        cached_tokens: of its prompt, what need not be read again.
        held: a slot's text; nothing where blocks are shared.
        blocks: those that it keeps from being evicted.
    """

    cached_tokens: int = 0
    held: Text = ()
    used_at: int = 0
    taken: bool = False
    blocks: tuple[int, ...] = ()


class MachineCache(Protocol):
    """What both kinds do. A text is never empty, and never all of it is cached: an engine needs the
    result of one token at least to begin an answer.
    """

    def seat(self, text: Text) -> Seat:
        """Give a call its place; at most as many at once as the machine has slots."""
        ...

    def leave(self, seat: Seat, text: Text) -> None:
        """The call is over, and so much of its text has been read or written there."""
        ...

    def read(self, seat: Seat, text: Text) -> None:
        """The prompt has been read to its end."""
        ...

    def clear(self) -> None:
        """Forget everything; no call is there."""
        ...


def cache_of(machine: Machine) -> MachineCache:
    """An empty one, as the machine has it."""
    if machine.cache_kind is CacheKind.PAGED:
        return PagedCache(machine.cache_tokens)
    return SlotCache(machine.slots, machine.cache_tokens)


class SlotCache:
    """llama.cpp's way: a call takes the free slot that shares the longest beginning with it if that
    is long enough, else the one used longest ago, and overwrites the rest. A shelf keeps texts that
    were overwritten.
    """

    def __init__(self, slots: int, shelf_tokens: int) -> None:
        self._seats = [Seat() for _ in range(slots)]
        self._shelf: OrderedDict[int, tuple[Text, int]] = OrderedDict()
        self._shelf_limit = shelf_tokens
        self._shelved_tokens = 0
        self._count = count(1)

    def seat(self, text: Text) -> Seat:
        tokens = tokens_of(text)
        seat, shared = self._choose(text, tokens)
        if self._shelf_limit:
            shared = self._swap(seat, text, shared)
        seat.taken, seat.used_at = True, next(self._count)
        seat.cached_tokens = min(shared, tokens - 1)
        return seat

    def read(self, seat: Seat, text: Text) -> None:
        seat.held = text

    def leave(self, seat: Seat, text: Text) -> None:
        seat.held, seat.taken = text, False

    def clear(self) -> None:
        for seat in self._seats:
            seat.held = ()
        self._shelf.clear()
        self._shelved_tokens = 0

    def _choose(self, text: Text, tokens: int) -> tuple[Seat, int]:
        free = [seat for seat in self._seats if not seat.taken]
        if not free:
            raise BookkeepingError("a machine works on more calls than it has slots")
        shared = [shared_tokens(seat.held, text) for seat in free]
        most = max(shared)
        if most > SIMILARITY * tokens:
            return free[shared.index(most)], most
        oldest = min(free, key=_used_at)
        return oldest, shared_tokens(oldest.held, text)

    def _swap(self, seat: Seat, text: Text, shared: int) -> int:
        held = tokens_of(seat.held)
        if held and shared >= held * KEPT_SHARE:
            return shared
        found, most = None, shared
        for key, (kept, _) in self._shelf.items():
            alike = shared_tokens(kept, text)
            if alike > most:
                found, most = key, alike
        put_away = seat.held
        if found is not None:
            # Moved, not copied: its tokens would count twice.
            seat.held = self._take(found)
        if put_away:
            self._put(put_away, held)
        return most

    def _take(self, key: int) -> Text:
        text, tokens = self._shelf.pop(key)
        self._shelved_tokens -= tokens
        return text

    def _put(self, text: Text, tokens: int) -> None:
        """Onto the shelf: no text there is the beginning of another."""
        if tokens > self._shelf_limit:
            return
        for key, (kept, kept_tokens) in list(self._shelf.items()):
            alike = shared_tokens(kept, text)
            if alike == tokens:
                return
            if alike == kept_tokens:
                self._take(key)
        self._shelf[next(self._count)] = (text, tokens)
        self._shelved_tokens += tokens
        while self._shelved_tokens > self._shelf_limit:
            self._take(next(iter(self._shelf)))


def _used_at(seat: Seat) -> int:
    return seat.used_at


class PagedCache:
    """vLLM's way: whole blocks of all prompts and answers, shared where texts begin alike; of those
    that no call uses the one used longest ago goes first, a text's end before its beginning.
    """

    def __init__(self, tokens: int) -> None:
        self._limit = tokens // BLOCK_TOKENS
        self._idle: OrderedDict[int, None] = OrderedDict()
        self._used: dict[int, int] = {}

    def seat(self, text: Text) -> Seat:
        found = []
        for block in _blocks(text, tokens_of(text) - 1):
            if block not in self._used and block not in self._idle:
                break
            found.append(block)
        seat = Seat(cached_tokens=len(found) * BLOCK_TOKENS)
        self._hold(seat, found)
        return seat

    def read(self, seat: Seat, text: Text) -> None:
        self._hold(seat, _blocks(text, tokens_of(text)))

    def leave(self, seat: Seat, text: Text) -> None:
        self._hold(seat, _blocks(text, tokens_of(text)))
        for block in reversed(seat.blocks):
            uses = self._used.pop(block, 0) - 1
            if uses > 0:
                self._used[block] = uses
            elif uses == 0:
                self._idle[block] = None
        seat.blocks = ()
        self._evict()

    def clear(self) -> None:
        self._idle.clear()
        self._used.clear()

    def _hold(self, seat: Seat, blocks: Iterable[int]) -> None:
        """Its blocks are these, of a text that begins with the one before."""
        before, seat.blocks = len(seat.blocks), tuple(blocks)
        for block in seat.blocks[before:]:
            self._idle.pop(block, None)
            self._used[block] = self._used.get(block, 0) + 1
        self._evict()

    def _evict(self) -> None:
        while self._idle and len(self._idle) + len(self._used) > self._limit:
            self._idle.popitem(last=False)


def _blocks(text: Text, tokens: int) -> Iterable[int]:
    """A number for each whole block in the first `tokens` of the text."""
    return marks(text, range(BLOCK_TOKENS, tokens + 1, BLOCK_TOKENS))


def ideal_cached_tokens(calls: Iterable[PlannedCall]) -> list[int]:
    """For each call the tokens that one cache without end would have of its prompt, if each call
    were over before the next in the list begins. No cache and no scheduler can have more.
    """
    root = _Fork()
    found = []
    for call in calls:
        text = call.text
        found.append(max(0, min(root.shared(text), call.prompt_tokens - 1)))
        if text:
            said = () if call.answer is None else (Run(call.answer, call.output_tokens),)
            root.add((*text, *said))
    return found


class _Fork:
    """A place where texts part: for each run that goes on from here the longest one, and where each
    length of it leads.
    """

    __slots__ = ("longest", "next")

    def __init__(self) -> None:
        self.longest: dict[int, int] = {}
        self.next: dict[Run, _Fork] = {}

    def shared(self, text: Text) -> int:
        fork, tokens = self, 0
        for run in text:
            onward = fork.next.get(run)
            if onward is None:
                return tokens + min(run.tokens, fork.longest.get(run.id, 0))
            fork, tokens = onward, tokens + run.tokens
        return tokens

    def add(self, text: Text) -> None:
        fork = self
        for run in text:
            fork.longest[run.id] = max(run.tokens, fork.longest.get(run.id, 0))
            onward = fork.next.get(run)
            if onward is None:
                onward = fork.next[run] = _Fork()
            fork = onward
