"""What the scheduler knows of a prompt, without its text: how long it is and how it begins.

Separate because both sides of the seam need it: `wire` cuts a request's text into blocks and
fingerprints them, the core compares fingerprints and reckons in characters and tokens.

The blocks of every prompt end at the same places, so that two prompts which begin alike share their
first fingerprints. A fingerprint is chained: it stands for its block and for all before it.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, repeat

_FINE_BLOCKS = 64
_MIDDLE_BLOCKS = 240
_COARSE_BLOCKS = 468
_BLOCK_ENDS = tuple(
    accumulate(
        chain(repeat(256, _FINE_BLOCKS), repeat(1024, _MIDDLE_BLOCKS), repeat(8192, _COARSE_BLOCKS))
    )
)
"""Where blocks end, in characters: fine at the beginning, where prompts are short and differ, and
coarser later on, so that 4 million characters (a million tokens) have no more than 772.
"""

BLOCKS_LIMIT = len(_BLOCK_ENDS)
"""Most fingerprints of one prompt; what follows is not told apart."""


def block_end(blocks: int) -> int:
    """Characters in the first `blocks` (0 to `BLOCKS_LIMIT`) blocks of any prompt."""
    return _BLOCK_ENDS[blocks - 1] if blocks else 0


def whole_blocks(chars: int) -> int:
    """Blocks that a text of so many characters fills: what of it can be compared."""
    return bisect.bisect_right(_BLOCK_ENDS, chars)


def shared_blocks(one: Sequence[int], other: Sequence[int]) -> int:
    """How many fingerprints two prompts have in common, from the first on."""
    end = min(len(one), len(other))
    if not end or one[0] != other[0]:
        return 0
    if one[end - 1] == other[end - 1]:
        return end
    # They are chained: equal up to somewhere, and nowhere after.
    known, limit = 1, end - 1
    while known < limit:
        middle = (known + limit) // 2
        if one[middle] == other[middle]:
            known = middle + 1
        else:
            limit = middle
    return known


@dataclass(frozen=True, slots=True)
class Prompt:
    """A request's prompt.

    Attributes:
        chars: characters of text in its tools, system prompt and messages, 0 where they could not
            be read.
        fingerprints: one for each whole block, in order; empty for a prompt that is shorter than
            one block or could not be read. 64 bits each, the model's adapter mixed in.
        output_limit_tokens: the longest answer that the client takes, None where it says none.
    """

    chars: int = 0
    fingerprints: tuple[int, ...] = ()
    output_limit_tokens: int | None = None


NO_PROMPT = Prompt()
