"""Blocks end at the same places in every prompt."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pair.core.prompt import BLOCKS_LIMIT, block_end, shared_blocks, whole_blocks


@given(st.integers(0, 5_000_000))
def test_a_text_fills_the_blocks_that_end_within_it(chars: int) -> None:
    blocks = whole_blocks(chars)
    assert block_end(blocks) <= chars
    assert blocks == BLOCKS_LIMIT or chars < block_end(blocks + 1)


def test_blocks_are_fine_where_prompts_are_short_and_few_where_they_are_long() -> None:
    assert [block_end(blocks) for blocks in (0, 1, 64, 65)] == [0, 256, 16_384, 17_408]
    assert block_end(BLOCKS_LIMIT) > 4_000_000
    assert BLOCKS_LIMIT < 1000


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40))
def test_what_prompts_share_is_found_wherever_they_part(shared: int, one: int, other: int) -> None:
    beginning = tuple(range(shared))
    first = beginning + tuple(range(100, 100 + one))
    second = beginning + tuple(range(200, 200 + other))
    assert shared_blocks(first, second) == shared_blocks(second, first) == shared
