"""What the echo engine remembers of earlier prompts, and what it forgets.

Modelled on llama.cpp, because what a router gains by affinity depends on how engines evict. Each
slot holds the tokens of the last prompt and answer it worked on. A request takes the free slot
whose tokens share the longest prefix with it, if that is long enough, else the least recently used
one, whose tokens it then overwrites from the first difference on. Optionally a shelf in host memory
keeps overwritten prompts whole, bounded in tokens, least recently used out first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from pair.bench.echo_engine import tokenizer

# llama.cpp shelves what a slot holds only if less than half of it would stay in use; a longer
# common part means the same conversation going on, which is worth no copy.
_KEPT_SHARE_WORTH_NO_COPY = 0.5


@dataclass(slots=True, eq=False)
class Slot:
    """One request at a time, and the tokens (as text) left of the last one.

    Attributes:
        model: whose tokens they are; another model's share nothing.
        used_at: a count that grows with each use, for "least recently used".
    """

    number: int
    model: str = ""
    held: str = ""
    used_at: int = 0
    busy: bool = False

    def shared_tokens(self, model: str, prompt: str) -> int:
        """Tokens at the start of `prompt` that need no prefill on this slot."""
        return tokenizer.shared_tokens(self.held, prompt) if model == self.model else 0


@dataclass(slots=True)
class PrefixCache:
    """Which slot suits a prompt best, and how much of the prompt it need not prefill.

    Attributes:
        similarity: smallest share of a prompt in common that makes a slot the better choice.
        shelf_limit_tokens: size of the second tier, 0 for none.
    """

    similarity: float
    shelf_limit_tokens: int
    _uses: int = 0
    _shelf: OrderedDict[tuple[str, str], int] = field(default_factory=OrderedDict)
    _shelf_tokens: int = 0

    def choose(self, free: Iterable[Slot], model: str, prompt: str) -> Slot:
        """The slot among `free` (at least one) that this prompt goes to."""
        candidates = list(free)
        if len(candidates) > 1:
            shared = [slot.shared_tokens(model, prompt) for slot in candidates]
            most = max(shared)
            if most > self.similarity * tokenizer.count(prompt):
                return candidates[shared.index(most)]
        return min(candidates, key=lambda slot: slot.used_at)

    def load(self, slot: Slot, model: str, prompt: str) -> int:
        """Make `slot` hold what it can reuse for `prompt`; returns the tokens that need no prefill.

        At least one token is always left to prefill: an engine needs its result to begin the
        answer.
        """
        self._uses += 1
        slot.used_at = self._uses
        shared = slot.shared_tokens(model, prompt)
        if self.shelf_limit_tokens > 0:
            shared = self._swap(slot, model, prompt, shared)
        return max(0, min(shared, tokenizer.count(prompt) - 1))

    def clear(self, slots: Iterable[Slot]) -> None:
        """Forget everything."""
        for slot in slots:
            slot.model = slot.held = ""
        self._shelf.clear()
        self._shelf_tokens = 0

    def _swap(self, slot: Slot, model: str, prompt: str, shared: int) -> int:
        held = tokenizer.count(slot.held)
        if held and shared >= held * _KEPT_SHARE_WORTH_NO_COPY:
            return shared
        found = self._longest_on_shelf(model, prompt, shared)
        if held:
            self._put_on_shelf(slot.model, slot.held)
        if found is None:
            return shared
        # A shelved prompt moves into the slot; a copy would count its tokens twice.
        self._shelf_tokens -= self._shelf.pop(found, 0)
        slot.model, slot.held = found
        return slot.shared_tokens(model, prompt)

    def _longest_on_shelf(self, model: str, prompt: str, above: int) -> tuple[str, str] | None:
        best, best_shared = None, above
        for shelved_model, held in self._shelf:
            if shelved_model != model:
                continue
            shared = tokenizer.shared_tokens(held, prompt)
            if shared > best_shared:
                best, best_shared = (shelved_model, held), shared
        return best

    def _put_on_shelf(self, model: str, held: str) -> None:
        tokens = tokenizer.count(held)
        if tokens > self.shelf_limit_tokens:
            return
        self._shelf_tokens -= self._shelf.pop((model, held), 0)
        self._shelf[model, held] = tokens
        self._shelf_tokens += tokens
        while self._shelf_tokens > self.shelf_limit_tokens:
            _, evicted_tokens = self._shelf.popitem(last=False)
            self._shelf_tokens -= evicted_tokens
