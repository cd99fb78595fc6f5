from __future__ import annotations

import json
from itertools import takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pair.bench.echo_engine import tokenizer


@given(st.text(alphabet="ab", max_size=60), st.text(alphabet="ab", max_size=60))
def test_the_common_prefix_is_the_one_that_comparing_letter_by_letter_finds(
    one: str, other: str
) -> None:
    equal = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    letters = len(list(equal))
    assert tokenizer.shared_tokens(one, other) == letters // tokenizer.CHARACTERS_PER_TOKEN


@given(st.text(max_size=40), st.integers(min_value=1, max_value=50))
def test_an_answer_has_exactly_the_tokens_asked_for(words: str, tokens: int) -> None:
    answer = tokenizer.echoed(words, tokens)
    assert tokenizer.count(answer) == tokens
    assert len(answer) == tokens * tokenizer.CHARACTERS_PER_TOKEN
    assert "".join(tokenizer.pieces(answer, 0, tokens)) == answer


def test_an_answer_repeats_the_words() -> None:
    assert tokenizer.echoed("say it", 5) == "say it say it say it"[:20]
    assert tokenizer.echoed("", 2) == "echo ech"


@given(st.lists(st.text(max_size=30), min_size=1, max_size=5), st.text(max_size=9))
def test_the_next_turn_begins_with_this_prompt_and_its_answer(
    turns: list[str], follow_up: str
) -> None:
    messages = [("user", text) for text in turns]
    prompt = tokenizer.render(messages)
    answer = tokenizer.echoed(turns[-1], 7)
    following = tokenizer.render([*messages, ("assistant", answer), ("user", follow_up)])
    assert following.startswith(prompt + answer)
    assert len(prompt) % tokenizer.CHARACTERS_PER_TOKEN == 0


def test_tools_come_first_and_change_the_prompt() -> None:
    bare = tokenizer.render([("user", "hi")])
    with_tools = tokenizer.render([("user", "hi")], [{"name": "look"}])
    assert with_tools.endswith(bare)
    assert "look" in with_tools


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, ""),
        ("plain", "plain"),
        ([{"type": "text", "text": "a"}, {"type": "input_text", "text": "b"}], "ab"),
        ([{"type": "tool_result", "content": [{"type": "text", "text": "found"}]}], "found"),
        ("", ""),
    ],
)
def test_text_is_found_in_the_content_of_every_dialect(content: object, text: str) -> None:
    assert tokenizer.text_of(content) == text


def test_an_image_is_a_short_marker_of_its_own() -> None:
    one, other = (
        tokenizer.text_of([{"type": "image_url", "image_url": {"url": letter * 1_000_000}}])
        for letter in "ab"
    )
    assert one != other
    assert tokenizer.count(one) < 10


def test_tokens_of_a_client_count_one_each() -> None:
    assert tokenizer.count(tokenizer.text_of_ids([1, 2, 70_000])) == 3


@given(st.text(max_size=200))
def test_tool_arguments_are_json_in_whole_tokens(words: str) -> None:
    arguments = tokenizer.tool_arguments(words)
    assert words.startswith(json.loads(arguments)["echo"])
    assert len(arguments) % tokenizer.CHARACTERS_PER_TOKEN == 0
    assert tokenizer.beginning(arguments, 2) == arguments[:8]
