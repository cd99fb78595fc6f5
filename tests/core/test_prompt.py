"""Blocks end at the same places in every prompt."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pair.core.prompt import BLOCKS_LIMIT, block_end, whole_blocks


@given(st.integers(0, 5_000_000))
def test_a_text_fills_the_blocks_that_end_within_it(chars: int) -> None:
    blocks = whole_blocks(chars)
    assert block_end(blocks) <= chars
    assert blocks == BLOCKS_LIMIT or chars < block_end(blocks + 1)


def test_blocks_are_fine_where_prompts_are_short_and_few_where_they_are_long() -> None:
    assert [block_end(blocks) for blocks in (0, 1, 64, 65)] == [0, 256, 16_384, 17_408]
    assert block_end(BLOCKS_LIMIT) > 4_000_000
    assert BLOCKS_LIMIT < 1000
