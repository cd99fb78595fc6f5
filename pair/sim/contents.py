"""What simulated prompts say, as far as a cache cares: which of them begin alike, and how far.

Apart from the traces and the workloads, which each have their own way to say it (ids of blocks, a
conversation that grows), and from the core, whose fingerprints come from real text. A simulated
text is a row of parts; the name of a part stands for all that comes before it, too, so that two
prompts begin alike exactly as far as their parts have the same names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from pair.core.prompt import Prompt, block_end, whole_blocks

CHARS_PER_TOKEN = 4
"""Of all simulated text. What the estimates begin with, so that nothing needs to be learned here
that a trace could not say anyway.
"""

_REMEMBERED = 1 << 17
"""Fingerprints kept so that equal ones are one object: some 20 MB, the beginnings that recur."""


@dataclass(frozen=True, slots=True)
class Part:
    """Up to `end_tokens` of a prompt the text is the one of this name; see the module's docstring
    for what a name stands for.
    """

    end_tokens: int
    name: str


def prompt_of(
    parts: Sequence[Part], tokens: int, *, output_limit_tokens: int | None = None
) -> Prompt:
    """A prompt of so many tokens whose text is these parts, in order.

    The last part goes on to the prompt's end, wherever it says that it ends. Never empty.
    """
    chars = tokens * CHARS_PER_TOKEN
    fingerprints = []
    at, last = 0, len(parts) - 1
    for block in range(1, whole_blocks(chars) + 1):
        end_chars = block_end(block)
        while at < last and parts[at].end_tokens * CHARS_PER_TOKEN < end_chars:
            at += 1
        fingerprints.append(_fingerprint(parts[at].name, end_chars))
    return Prompt(chars, tuple(fingerprints), output_limit_tokens)


@lru_cache(maxsize=_REMEMBERED)
def _fingerprint(name: str, end_chars: int) -> int:
    """Of the block that ends there, chained as in `core.prompt`, since names are."""
    text = f"{end_chars}:{name}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
