"""What a simulated prompt says, without words: runs of tokens that are equal where their names are.

Apart from `core/prompt.py` because the two sides must not judge each other by one thing: a machine
compares texts token by token, the scheduler sees only what a proxy would make of them, fingerprints
at block ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pair.core.prompt import Prompt, block_end, whole_blocks

CHARS_PER_TOKEN = 4
"""Of every simulated text; about what English and code come to."""

_ROOT = 0x9E3779B97F4A7C15
"""What the chain of every text begins with; any number that no run has for its id."""

_WORD = 2**64 - 1


class Run(NamedTuple):
    """A piece of text. Equal ids are equal text, as far as the shorter one goes: a run may be cut
    or grow and is still the same from its beginning.
    """

    id: int
    tokens: int


Text = tuple[Run, ...]


def tokens_of(text: Text) -> int:
    """Length in tokens."""
    return sum(run.tokens for run in text)


def cut(text: Text, tokens: int) -> Text:
    """The first `tokens` of it, or all if it has fewer."""
    kept = []
    for run in text:
        if tokens <= 0:
            break
        kept.append(run if run.tokens <= tokens else Run(run.id, tokens))
        tokens -= run.tokens
    return tuple(kept)


def shared_tokens(one: Text, other: Text) -> int:
    """Tokens at the beginning that both have."""
    shared = 0
    for a, b in zip(one, other, strict=False):
        if a.id != b.id:
            break
        shared += min(a.tokens, b.tokens)
        if a.tokens != b.tokens:
            break
    return shared


def marks(text: Text, ends: Iterable[int]) -> Iterator[int]:
    """For each of `ends` (tokens from the beginning, rising) that the text reaches a number of 64
    bits that stands for all of the text up to there. Texts that are cut differently into runs
    differ.
    """
    runs = iter(text)
    chain, begin, run = _ROOT, 0, next(runs, None)
    for end in ends:
        while run is not None and begin + run.tokens < end:
            chain = hash((chain, run.id, run.tokens))
            begin += run.tokens
            run = next(runs, None)
        if run is None:
            return
        # Of numbers alone, so the same in every process.
        yield hash((chain, run.id, end - begin)) & _WORD


def prompt_of(text: Text, tokens: int, output_limit_tokens: int | None = None) -> Prompt:
    """What a proxy knows of a prompt of so many tokens; without a text its length alone."""
    chars = tokens * CHARS_PER_TOKEN
    if not text:
        return Prompt(chars, (), output_limit_tokens)
    ends = (block_end(count) // CHARS_PER_TOKEN for count in range(1, whole_blocks(chars) + 1))
    return Prompt(chars, tuple(marks(text, ends)), output_limit_tokens)
