"""The cache of llama.cpp and of all that is built on it: each slot holds one sequence.

A prompt goes to the free slot that shares the most with it, if that is more than a tenth of the
prompt, else to the least recently used one. What it overwrites there is saved on a shelf in host
memory, if there is one (`cache_ram`), and comes back from there; the shelf drops what was saved
first. Two calls at once never share: what a busy slot holds is of use to nobody else.

What the shelf takes is learned by distance: a hit on a sequence after which d characters were saved
means a shelf of at least d, a miss one of less.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from pair.core.prefix_cache import (
    CHARS_PER_TOKEN,
    COLD_CALLS,
    FOUND_SHARE,
    NOISE_CHARS,
    UNCACHED_CALLS,
    Awaited,
    Evicted,
    Evidence,
    prompt_key,
    worth,
)
from pair.core.prefix_holders import Holders
from pair.core.prompt import Prompt, block_end, shared_blocks
from pair.core.replica import Replica

SIMILARITY: Final = 0.1
"""llama.cpp's `slot_prompt_similarity`: the share of a prompt in common from which on a slot is
chosen for it."""

CONTINUED_SHARE: Final = 0.5
"""llama.cpp saves what a slot holds unless at least so much of it stays in use."""

SHELF_SHARE: Final = 0.25
"""llama.cpp takes a sequence off its shelf only if at least so much of it is of use."""

SHELF_LIMIT: Final = 512
"""Most sequences on a shelf, whatever its engine says of its size: each question looks at them all,
0.5 us each. llama.cpp's usual 8 GiB hold as many calls of 700 tokens of a model of 135 million
parameters, and a tenth of that of usual ones."""

GHOSTS_LIMIT: Final = 32
"""Sequences remembered beyond the shelf; enough to see that it is larger."""


USUAL_SHELF_TOKENS: Final = 65_536
"""Of a llama.cpp that does not tell: its default of 8 GiB, for a model of 8B (128 KiB a token).
Thought too large it costs a detour until corrections have shown what it is; thought too small, and
conversations would never come back to find out."""

MARGIN: Final = 1.25
"""By how much the shelf is thought larger than has been seen: conversations grow, and so does what
lies between two turns of one."""


@dataclass(slots=True, eq=False)
class Sequence:
    """What one slot holds, or one place on the shelf.

    Attributes:
        busy: the slot still works on it.
        answer_chars: of the answer that follows the prompt there.
    """

    prompt: Prompt
    used_at: float
    busy: bool = False
    answer_chars: int = 0

    @property
    def size(self) -> int:
        return len(self.prompt.fingerprints) + 1

    def shared_chars(self, prompt: Prompt) -> int:
        """Characters at the start of `prompt` that it holds."""
        return block_end(shared_blocks(self.prompt.fingerprints, prompt.fingerprints))

    def with_answer(self, prompt: Prompt, chars: int) -> int:
        """The same where `prompt` goes on from here: the answer, which nobody has seen before the
        next turn repeats it, is in the cache as well.
        """
        goes_on = chars == block_end(len(self.prompt.fingerprints)) and self.answer_chars
        if not goes_on or prompt.chars <= self.prompt.chars:
            return chars
        return min(prompt.chars, self.prompt.chars + self.answer_chars)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What the engine would do with a prompt.

    Attributes:
        slot: whose sequence would be overwritten, None for an empty slot.
        continued: so much of that would stay that it is not saved.
        shelved: what would come back from the shelf, None for nothing.
        chars: of the prompt that would be cached then.
    """

    slot: Sequence | None
    continued: bool
    shelved: Sequence | None
    chars: int


class SlotCache:
    """A `PrefixCache` with as many sequences as slots, and perhaps a shelf."""

    def __init__(self, number: int, holders: Holders) -> None:
        self._number = number
        self._holders = holders
        self._slots: list[Sequence] = []
        self._shelf: deque[Sequence] = deque()
        self._ghosts: deque[Sequence] = deque()
        self._shelf_chars = 0
        self._capacity_chars = 0
        self._told_tokens = 0
        self._awaited = Awaited()
        self._cold_calls = 0
        self.size = 0

    def cached_chars(self, replica: Replica, prompt: Prompt) -> int:
        depth = self._holders.depth(self._number, prompt.fingerprints)
        if not depth or self._cold_calls >= UNCACHED_CALLS:
            return 0
        chars, last = block_end(depth), prompt.fingerprints[depth - 1]
        idle = self._idle(replica, ours=replica.ours)
        if chars > SIMILARITY * prompt.chars:
            # Nothing beats the slot that has all that there is, if the conversation goes on in it.
            for one in idle:
                held = one.prompt.fingerprints
                if len(held) >= depth and held[depth - 1] == last:
                    if chars >= CONTINUED_SHARE * one.prompt.chars:
                        return one.with_answer(prompt, chars)
                    break
        plan = self._plan(prompt, replica, idle)
        source = plan.shelved or plan.slot
        return plan.chars if source is None else source.with_answer(prompt, plan.chars)

    def prefilled(self, replica: Replica, prompt: Prompt, now: float) -> None:
        self._hear(replica)
        for one in self._slots:
            if one.busy and one.prompt is prompt:
                one.used_at = now
                return
        self._fit(replica)
        plan = self._plan(prompt, replica, self._idle(replica, ours=replica.ours - 1))
        if prompt.fingerprints:
            self._awaited.came(prompt, self._evidence(plan, prompt))
        if plan.shelved is not None:
            self._take_from_shelf(plan.shelved)
            self._drop(plan.shelved)
        added = Sequence(prompt, now, busy=True)
        if plan.slot is None:
            self._slots.append(added)
        else:
            self._slots[self._slots.index(plan.slot)] = added
            if plan.continued:
                self._drop(plan.slot)
            else:
                self._save(plan.slot)
        self.size += added.size
        self._holders.add(self._number, prompt.fingerprints)

    def released(self, prompt: Prompt, now: float, answer_chars: int) -> None:
        alike = [one for one in self._slots if one.busy and one.prompt == prompt]
        if alike:
            one = next((one for one in alike if one.prompt is prompt), alike[0])
            one.busy, one.used_at, one.answer_chars = False, now, answer_chars

    def corrected(self, replica: Replica, prompt: Prompt, cached_chars: int) -> None:
        self._hear(replica)
        evidence = self._awaited.take(prompt)
        if evidence is None:
            plan = self._plan(prompt, replica, self._idle(replica, ours=replica.ours - 1))
            evidence = self._evidence(plan, prompt)
        if evidence.missed(cached_chars):
            self._missed(evidence, prompt, cached_chars)
        elif cached_chars >= NOISE_CHARS:
            self._cold_calls = 0
        if evidence.found_ghost(cached_chars):
            needed = int(evidence.ghost_distance_chars * MARGIN)
            self._capacity_chars = max(self._capacity_chars, needed)
            self._fill()

    def evicted(self, replica: Replica, prompt: Prompt, now: float) -> Evicted | None:
        plan = self._plan(prompt, replica, self._idle(replica, ours=replica.ours))
        if plan.continued:
            return None
        over, chars, used_at = 0, 0, 0.0
        if plan.shelved is not None:
            lost = plan.shelved.prompt.chars - plan.chars
            if lost >= block_end(1):  # it comes back, and its end is overwritten
                chars, used_at = lost, plan.shelved.used_at
        if plan.slot is not None:
            held = plan.slot.prompt.chars
            if not self._capacity_chars:
                chars += held - plan.slot.shared_chars(prompt)
                return worth(chars, max(used_at, plan.slot.used_at), now)
            over = self._shelf_chars + held - self._capacity_chars
            if plan.shelved is not None:
                over -= plan.shelved.prompt.chars
        for one in self._shelf:
            if over <= 0:
                break
            if one is not plan.shelved:
                over -= one.prompt.chars
                chars += one.prompt.chars
                used_at = max(used_at, one.used_at)
        return worth(chars, used_at, now)

    def oldest_at(self) -> float:
        for kept in (self._ghosts, self._shelf):
            if kept:
                return kept[0].used_at
        return min((one.used_at for one in self._slots), default=float("inf"))

    def drop_oldest(self) -> None:
        if self._ghosts:
            self.size -= self._ghosts.popleft().size
        elif self._shelf:
            oldest = self._shelf[0]
            self._take_from_shelf(oldest)
            self._drop(oldest)
        elif self._slots:
            oldest = min(self._slots, key=_used_at)
            self._slots.remove(oldest)
            self._drop(oldest)

    def clear(self) -> None:
        while self.size:
            self.drop_oldest()
        self._awaited.clear()
        self._cold_calls = 0

    def _idle(self, replica: Replica, *, ours: int) -> list[Sequence]:
        """Sequences that a new prompt could go on from or overwrite: those of slots that are free,
        given how many calls of ours are there. If all are taken, whoever asks would wait for one,
        and may get any.
        """
        busy = [one for one in self._slots if one.busy]
        if not busy or ours <= 0 or (ours >= replica.slots and not replica.has_free_slot()):
            return self._slots
        if len(busy) > ours:  # calls of whose end nobody told: the latest are those that go on
            busy = sorted(busy, key=_used_at)[-ours:]
        return [one for one in self._slots if one not in busy]

    def _plan(self, prompt: Prompt, replica: Replica, idle: list[Sequence]) -> _Plan:
        slot: Sequence | None = None
        chars = 0
        # No sequence can share more than all of them together do.
        most = block_end(self._holders.depth(self._number, prompt.fingerprints))
        for one in idle if most else ():
            shared = one.shared_chars(prompt)
            if shared > chars:
                slot, chars = one, shared
                if chars == most:
                    break
        if chars <= SIMILARITY * prompt.chars:
            empty = len(self._slots) < replica.slots
            slot = None if empty else min(idle, key=_used_at, default=None)
            chars = 0 if slot is None else slot.shared_chars(prompt)
        if slot is not None and 0 < CONTINUED_SHARE * slot.prompt.chars <= chars:
            return _Plan(slot, True, None, chars)
        shelved: Sequence | None = None
        for one in self._shelf if chars < most else ():
            shared = one.shared_chars(prompt)
            if shared > chars and shared >= SHELF_SHARE * one.prompt.chars:
                shelved, chars = one, shared
        return _Plan(slot, False, shelved, chars)

    def _evidence(self, plan: _Plan, prompt: Prompt) -> Evidence:
        distance = 0
        if plan.shelved is not None:
            for one in reversed(self._shelf):
                distance += one.prompt.chars
                if one is plan.shelved:
                    break
        best, at, down = plan.chars, 0, self._shelf_chars
        for one in reversed(self._ghosts):
            down += one.prompt.chars
            shared = one.shared_chars(prompt)
            if shared > best and shared >= SHELF_SHARE * one.prompt.chars:
                best, at = shared, down
        return Evidence(plan.chars, distance, best if at else 0, at)

    def _missed(self, evidence: Evidence, prompt: Prompt, cached_chars: int) -> None:
        """Drop what cannot be there, since the engine would have used it."""
        if evidence.distance_chars:
            # Half at a time, since there are other reasons for a miss.
            half = self._capacity_chars // 2
            if half < evidence.distance_chars <= self._capacity_chars:
                half = evidence.distance_chars - 1
            self._capacity_chars = half if half >= block_end(1) else 0
            self._trim()
        elif cached_chars < NOISE_CHARS:
            self._cold_calls += 1
        restarted = self._cold_calls >= COLD_CALLS
        limit = cached_chars / FOUND_SHARE + NOISE_CHARS
        own = prompt_key(prompt)
        for one in [*self._slots, *self._shelf]:
            if one.busy or prompt_key(one.prompt) == own:
                continue
            if restarted or one.shared_chars(prompt) > limit:
                if one in self._shelf:
                    self._take_from_shelf(one)
                else:
                    self._slots.remove(one)
                self._drop(one)

    def _hear(self, replica: Replica) -> None:
        """Begin anew with the size of the shelf, where the engine tells another one."""
        told = replica.report.cache_tokens
        if told is None:
            told = USUAL_SHELF_TOKENS if replica.report.engine_kind == "llamacpp" else 0
        if told != self._told_tokens:
            self._told_tokens = told
            self._capacity_chars = told * CHARS_PER_TOKEN
            self._fill()
            self._trim()

    def _fit(self, replica: Replica) -> None:
        """Have no more sequences in slots than there are slots."""
        while len(self._slots) > replica.slots:
            oldest = min(self._slots, key=_used_at)
            self._slots.remove(oldest)
            self._save(oldest)

    def _save(self, one: Sequence) -> None:
        """Put what a slot has held on the shelf, which drops what this makes needless."""
        held = one.prompt.fingerprints
        one.busy = False
        if not held:
            self._drop(one)
            return
        if not self._capacity_chars:
            self._haunt(one)
            return
        for other in [*self._shelf]:
            shared = shared_blocks(held, other.prompt.fingerprints)
            if shared == len(held):
                self._drop(one)
                return
            if shared and shared == len(other.prompt.fingerprints):
                self._take_from_shelf(other)
                self._drop(other)
        self._shelf.append(one)
        self._shelf_chars += one.prompt.chars
        self._trim()

    def _trim(self) -> None:
        """Drop what is over the capacity; llama.cpp always keeps the latest, however long it is."""
        least = 1 if self._capacity_chars else 0
        while len(self._shelf) > SHELF_LIMIT or (
            self._shelf_chars > self._capacity_chars and len(self._shelf) > least
        ):
            oldest = self._shelf[0]
            self._take_from_shelf(oldest)
            self._haunt(oldest)

    def _fill(self) -> None:
        """Take back the latest ghosts that the capacity holds."""
        while (
            self._ghosts
            and len(self._shelf) < SHELF_LIMIT
            and (self._shelf_chars + self._ghosts[-1].prompt.chars <= self._capacity_chars)
        ):
            back = self._ghosts.pop()
            self._shelf.appendleft(back)
            self._shelf_chars += back.prompt.chars
            self._holders.add(self._number, back.prompt.fingerprints)

    def _haunt(self, one: Sequence) -> None:
        """Make a ghost of what is on no list any more."""
        self._holders.remove(self._number, one.prompt.fingerprints)
        self._ghosts.append(one)
        if len(self._ghosts) > GHOSTS_LIMIT:
            self.size -= self._ghosts.popleft().size

    def _take_from_shelf(self, one: Sequence) -> None:
        self._shelf.remove(one)
        self._shelf_chars -= one.prompt.chars

    def _drop(self, one: Sequence) -> None:
        """Forget what is on no list any more."""
        self._holders.remove(self._number, one.prompt.fingerprints)
        self.size -= one.size


def _used_at(one: Sequence) -> float:
    return one.used_at
