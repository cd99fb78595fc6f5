from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pair.core.prompt import BLOCKS_LIMIT, block_end
from pair.sim.text import (
    CHARS_PER_TOKEN,
    Run,
    Text,
    cut,
    marks,
    prompt_of,
    shared_tokens,
    tokens_of,
)

TEXTS = st.lists(st.builds(Run, st.integers(0, 3), st.integers(1, 300)), max_size=6).map(tuple)


def letters(text: Text) -> list[tuple[int, int, int]]:
    """Every token by itself: which run of the text it is in, of which id, and where there."""
    return [(place, run.id, token) for place, run in enumerate(text) for token in range(run.tokens)]


@given(TEXTS, TEXTS)
def test_what_two_texts_share_is_what_their_tokens_share(one: Text, other: Text) -> None:
    shared = 0
    for a, b in zip(letters(one), letters(other), strict=False):
        if a != b:
            break
        shared += 1
    assert shared_tokens(one, other) == shared_tokens(other, one) == shared


@given(TEXTS, st.integers(0, 2000))
def test_a_cut_text_is_the_beginning_of_the_whole(text: Text, tokens: int) -> None:
    kept = cut(text, tokens)
    assert tokens_of(kept) == min(tokens, tokens_of(text))
    assert shared_tokens(kept, text) == tokens_of(kept)


@given(TEXTS, TEXTS)
def test_marks_are_equal_as_far_as_the_texts_are(one: Text, other: Text) -> None:
    ends = range(1, 2000)
    same = [a == b for a, b in zip(marks(one, ends), marks(other, ends), strict=False)]
    shared = shared_tokens(one, other)
    assert same == [place < shared for place in range(len(same))]
    assert len(list(marks(one, ends))) == tokens_of(one)


def test_a_conversation_that_goes_on_keeps_its_fingerprints() -> None:
    first = (Run(1, 500), Run(2, 500))
    longer = (*first, Run(3, 7), Run(4, 2000))
    short, long = prompt_of(first, 1000), prompt_of(longer, 3007, 256)
    assert (short.chars, short.output_limit_tokens) == (4000, None)
    assert (long.chars, long.output_limit_tokens) == (12_028, 256)
    assert long.fingerprints[: len(short.fingerprints)] == short.fingerprints
    assert len(short.fingerprints) == 4000 // 256


def test_every_block_ends_between_two_tokens() -> None:
    assert all(block_end(count) % CHARS_PER_TOKEN == 0 for count in range(BLOCKS_LIMIT + 1))


def test_a_prompt_of_which_nothing_is_known_but_its_length() -> None:
    assert prompt_of((), 10).fingerprints == ()
    assert prompt_of((), 10).chars == 10 * CHARS_PER_TOKEN
