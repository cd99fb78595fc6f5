from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pair.core.prompt import BLOCKS_LIMIT, Prompt, block_end, whole_blocks
from pair.sim.contents import CHARS_PER_TOKEN, Part, prompt_of


def shared_chars(one: Prompt, other: Prompt) -> int:
    blocks = 0
    for mine, theirs in zip(one.fingerprints, other.fingerprints, strict=False):
        if mine != theirs:
            break
        blocks += 1
    return block_end(blocks)


def test_a_prompt_has_a_fingerprint_for_each_whole_block() -> None:
    prompt = prompt_of([Part(0, "a")], 1000, output_limit_tokens=7)
    assert (prompt.chars, prompt.output_limit_tokens) == (1000 * CHARS_PER_TOKEN, 7)
    assert len(prompt.fingerprints) == whole_blocks(4000) == 15
    assert len(set(prompt.fingerprints)) == 15, "blocks of one text differ"
    assert prompt_of([Part(0, "a")], 10).fingerprints == ()
    assert len(prompt_of([Part(0, "a")], 10**7).fingerprints) == BLOCKS_LIMIT


def test_a_grown_text_begins_as_before() -> None:
    before = prompt_of([Part(0, "chat")], 900)
    after = prompt_of([Part(0, "chat")], 1500)
    assert after.fingerprints[: len(before.fingerprints)] == before.fingerprints


@given(
    common=st.integers(0, 50_000),
    one=st.integers(1, 60_000),
    other=st.integers(1, 60_000),
)
def test_prompts_are_alike_as_far_as_their_parts(common: int, one: int, other: int) -> None:
    first = prompt_of([Part(common, "system"), Part(one, "a")], one)
    second = prompt_of([Part(common, "system"), Part(other, "b")], other)
    alike_tokens = min(common, one, other)
    assert shared_chars(first, second) == block_end(whole_blocks(alike_tokens * CHARS_PER_TOKEN))
