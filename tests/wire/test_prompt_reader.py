"""What is read of a prompt: stable from turn to turn, different for different texts, never an
error.
"""

from __future__ import annotations

import json
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pair.core.prompt import NO_PROMPT, Prompt, block_end, shared_blocks, whole_blocks
from pair.wire.prompt_reader import (
    OBJECTS_LIMIT,
    PROMPT_LIMIT_BYTES,
    STRINGS_LIMIT,
    fingerprints,
    read_prompt,
)

CHAT = "/v1/chat/completions"


def read(body: dict[str, Any], path: str = CHAT) -> Prompt:
    return read_prompt(path, (json.dumps(body).encode(),))


def chat(*messages: dict[str, Any], **fields: Any) -> Prompt:
    return read({"model": "m", "messages": list(messages), **fields})


def said(role: str, content: Any, **fields: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **fields}


_TEXTS = st.text(max_size=40).map(lambda text: text * 30)
_MESSAGES = st.builds(
    said, st.sampled_from(("system", "user", "assistant", "tool")), _TEXTS
) | st.builds(
    lambda name, value: said(
        "assistant", None, tool_calls=[{"id": "1", "function": {"name": name, "arguments": value}}]
    ),
    st.text(max_size=8),
    _TEXTS,
)


@given(st.lists(_MESSAGES, min_size=1, max_size=5), st.lists(_MESSAGES, max_size=3))
def test_a_conversation_that_goes_on_keeps_every_fingerprint(
    earlier: list[dict[str, Any]], later: list[dict[str, Any]]
) -> None:
    before, after = chat(*earlier), chat(*earlier, *later)

    assert len(before.fingerprints) == whole_blocks(before.chars)
    assert after.fingerprints[: len(before.fingerprints)] == before.fingerprints
    assert after.chars >= before.chars


@given(st.lists(_MESSAGES, min_size=1, max_size=4), st.lists(_MESSAGES, min_size=1, max_size=4))
def test_conversations_are_alike_only_where_their_texts_are(
    one: list[dict[str, Any]], other: list[dict[str, Any]]
) -> None:
    padding = said("user", "x" * 300)  # what differs in the last, unfinished block is not told
    first, second = chat(*one, padding), chat(*other, padding)
    if one != other:
        assert first.fingerprints != second.fingerprints or first.chars != second.chars
    else:
        assert first == second


@given(st.text(min_size=0, max_size=2000), st.text(max_size=2000), st.integers())
def test_fingerprints_agree_exactly_on_the_whole_blocks_that_texts_share(
    one: str, other: str, root: int
) -> None:
    one, other = one * 3, one * 2 + other
    equal = next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )
    shared = shared_blocks(fingerprints(one, root), fingerprints(other, root))
    assert shared == whole_blocks(equal)
    assert block_end(shared) <= equal


def test_where_one_message_ends_and_the_next_begins_makes_a_difference() -> None:
    rest = said("user", "x" * 600)
    split = chat(said("user", "ab"), said("user", "c"), rest)
    assert (
        split.fingerprints[0] != chat(said("user", "a"), said("user", "bc"), rest).fingerprints[0]
    )
    assert (
        split.fingerprints[0] != chat(said("user", "ab"), said("system", "c"), rest).fingerprints[0]
    )


def test_siblings_share_the_beginning_of_a_message_whose_end_differs() -> None:
    one, other = (chat(said("user", "x" * 10_000 + task)) for task in ("red", "green, then blue"))
    assert shared_blocks(one.fingerprints, other.fingerprints) == whole_blocks(10_000)


_TOOLS = [{"type": "function", "function": {"name": "ls", "description": "lists " * 100}}]


@pytest.mark.parametrize(
    "same",
    [
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "y" * 900}]}]},
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "text",
                            "text": "y" * 900,
                            "cache_control": {"type": "ephemeral"},
                        }
                    ],
                }
            ]
        },
        {
            "messages": [{"content": "y" * 900, "role": "user"}],
            "temperature": 0.3,
            "stream": True,
            "metadata": {"turn": 7},
        },
    ],
)
def test_what_is_no_text_changes_nothing(same: dict[str, Any]) -> None:
    plain = {"model": "m", "tools": _TOOLS, "messages": [said("user", "y" * 900)]}
    assert read({"model": "m", "tools": _TOOLS, **same}) == read(plain)


def test_a_cache_mark_that_moves_from_tool_to_tool_or_part_to_part_changes_nothing() -> None:
    def marked(turn: int) -> Prompt:
        tools: list[dict[str, Any]] = [
            {"name": f"t{at}", "input_schema": {"x": "long " * 99}} for at in range(2)
        ]
        parts: list[dict[str, Any]] = [{"type": "text", "text": f"{at}" * 500} for at in range(3)]
        for marks in (tools[turn % 2], parts[turn]):
            marks["cache_control"] = {"type": "ephemeral"}
        return read({"model": "m", "tools": tools, "system": parts, "messages": []}, "/v1/messages")

    assert marked(0) == marked(1)
    assert len(marked(0).fingerprints) >= 8


def test_tools_come_first_and_system_before_messages_in_any_dialect() -> None:
    anthropic = read(
        {
            "messages": [said("user", "u" * 300)],
            "system": [{"type": "text", "text": "s" * 300}],
            "tools": _TOOLS,
            "model": "m",
        },
        "/v1/messages",
    )
    openai = chat(said("system", "s" * 300), said("user", "u" * 300), tools=_TOOLS)
    responses = read(
        {"model": "m", "tools": _TOOLS, "instructions": "s" * 300, "input": "u" * 300},
        "/v1/responses",
    )
    items = read(
        {
            "model": "m",
            "tools": _TOOLS,
            "instructions": "s" * 300,
            "input": [
                {
                    "type": "message",
                    "role": "user",
                    "content": [{"type": "input_text", "text": "u" * 300}],
                }
            ],
        },
        "/v1/responses",
    )
    assert anthropic == openai == responses == items
    other_system = chat(said("system", "t" * 300), said("user", "u" * 300), tools=_TOOLS)
    assert shared_blocks(openai.fingerprints, other_system.fingerprints) == 2  # the tools


_PATHS = [
    ("/v1/completions", {"prompt": "p" * 700, "max_tokens": 9}),
    ("/v1/completions", {"prompt": list(range(1000, 1300)), "max_tokens": 9}),
    ("/completion", {"prompt": ["p" * 350, *range(100)], "n_predict": 9}),
    ("/infill", {"input_prefix": "p" * 350, "input_suffix": "s" * 350, "n_predict": 9}),
    ("/infill", {"input_extra": [{"filename": "a", "text": "e" * 600}], "n_predict": 9}),
    ("/api/chat", {"messages": [said("user", "p" * 700)], "options": {"num_predict": 9}}),
    ("/api/generate", {"prompt": "p" * 700, "system": "s", "options": {"num_predict": 9}}),
    ("/v1/messages", {"messages": [said("user", "p" * 700)], "max_tokens": 9}),
    ("/v1/responses", {"input": "p" * 700, "max_output_tokens": 9}),
    ("/generate", {"text": "p" * 700, "sampling_params": {"max_new_tokens": 9}}),
    (CHAT, {"messages": [said("user", "p" * 700)], "max_completion_tokens": 9, "max_tokens": 12}),
]


@pytest.mark.parametrize(("path", "body"), _PATHS)
def test_every_dialect_is_read(path: str, body: dict[str, Any]) -> None:
    prompt = read({"model": "m", **body}, path)
    assert 600 <= prompt.chars < 1700
    assert len(prompt.fingerprints) == whole_blocks(prompt.chars)
    assert prompt.output_limit_tokens == 9
    other = json.loads(
        json.dumps(body).replace("ppp", "ppq").replace("eee", "eef").replace("1000", "999")
    )
    assert read({"model": "m", **other}, path).fingerprints != prompt.fingerprints


@pytest.mark.parametrize("limit", [0, -1, -2, None, True, 3.5, "5", 10**12])
def test_no_limit_of_the_answer(limit: object) -> None:
    assert chat(said("user", "x"), n_predict=limit, options=limit).output_limit_tokens is None


def test_a_tool_call_and_its_answer_are_text_in_any_dialect() -> None:
    arguments = {"path": "a" * 400}
    openai = chat(
        said("user", "go"),
        said(
            "assistant",
            None,
            tool_calls=[
                {"id": "c1", "function": {"name": "read", "arguments": json.dumps(arguments)}}
            ],
        ),
        said("tool", "r" * 400, tool_call_id="c1"),
    )
    anthropic = read(
        {
            "messages": [
                said("user", "go"),
                said(
                    "assistant",
                    [{"type": "tool_use", "id": "t1", "name": "read", "input": arguments}],
                ),
                said("user", [{"type": "tool_result", "tool_use_id": "t1", "content": "r" * 400}]),
            ]
        },
        "/v1/messages",
    )
    responses = read(
        {
            "input": [
                said("user", "go"),
                {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "a" * 400},
                {"type": "function_call_output", "call_id": "c1", "output": "r" * 400},
            ]
        },
        "/v1/responses",
    )
    for prompt in (openai, anthropic, responses):
        assert 800 < prompt.chars < 1000


def test_thinking_that_templates_leave_out_later_is_not_in_it() -> None:
    answer = {"type": "text", "text": "a" * 300}
    thought = {"type": "thinking", "thinking": "hm " * 300, "signature": "s"}
    rest = said("user", "x" * 300)
    with_thought = chat(said("assistant", [thought, answer]), rest)
    assert with_thought == chat(said("assistant", [answer]), rest)


def test_pictures_count_by_their_content_and_not_by_their_size() -> None:
    def picture(base64: str) -> Prompt:
        url = {"url": "base64:" + base64}
        return chat(
            said("user", [{"type": "image_url", "image_url": url}, {"type": "text", "text": "?"}])
        )

    large = "A" * 3_000_000
    assert 1000 < picture(large).chars < 5000
    assert picture(large) == picture(large)
    assert picture(large) != picture(large[:-1] + "B")
    assert picture("abc") != picture("abd")
    ollama = [chat(said("user", "?", images=[one])) for one in ("abc", "abd")]
    assert ollama[0].chars > 1000
    assert ollama[0].fingerprints != ollama[1].fingerprints


@pytest.mark.parametrize(
    "other", [{"model": "n"}, {"lora": [{"id": 0, "scale": 1.0}]}, {"cache_salt": "me"}]
)
def test_another_model_or_adapter_has_other_fingerprints(other: dict[str, Any]) -> None:
    plain = {"model": "m", "prompt": "p" * 3000}
    one, two = read(plain, "/completion"), read({**plain, **other}, "/completion")
    assert one.chars == two.chars
    assert shared_blocks(one.fingerprints, two.fingerprints) == 0


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/embeddings", {"input": "x" * 5000}),
        ("/completion", {"prompt": "x" * 5000, "cache_prompt": False}),
    ],
)
def test_what_leaves_nothing_in_a_cache_has_a_length_only(path: str, body: dict[str, Any]) -> None:
    prompt = read(body, path)
    assert prompt.chars >= 5000
    assert prompt.fingerprints == ()


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                (
                    "type",
                    "text",
                    "content",
                    "role",
                    "tool_calls",
                    "function",
                    "input",
                    "source",
                    "name",
                )
            )
            | st.text(max_size=3),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)
_FIELDS = st.sampled_from(
    (
        "model", "messages", "tools", "functions", "system", "input", "instructions", "prompt",
        "text", "images", "context", "options", "suffix", "lora", "max_tokens", "input_extra",
    )
)  # fmt: skip


@given(st.dictionaries(_FIELDS, _JSON, max_size=5))
def test_any_json_is_read_or_not_but_never_an_error(body: dict[str, Any]) -> None:
    prompt = read(body)
    assert len(prompt.fingerprints) in (0, whole_blocks(prompt.chars))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'"text"',
        b"\xff\xfe",
        b'{"messages": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
        b'{"messages": ' + b'{"content":' * 900 + b"1" + b"}" * 900 + b"}",
        b'{"prompt": [' + b"{}," * (OBJECTS_LIMIT + 1) + b"1]}",
        b'{"prompt": "' + b"a" * PROMPT_LIMIT_BYTES + b'"}',
    ],
)
def test_what_cannot_be_read_is_an_unknown_prompt(body: bytes) -> None:
    prompt = read_prompt(CHAT, (body,))
    assert prompt == NO_PROMPT or prompt.chars > 0
    assert prompt.fingerprints == () or len(body) < PROMPT_LIMIT_BYTES


def test_an_object_of_countless_keys_is_not_read_and_a_text_of_as_many_signs_is() -> None:
    """Keys that differ cost most of all: half a million of them take half a second."""
    keys = {str(number): 1 for number in range(STRINGS_LIMIT + 1)}
    countless = json.dumps({"messages": [{"content": [{"type": "x", **keys}]}]}).encode()
    assert read_prompt("/v1/chat/completions", [countless]) == NO_PROMPT
    text = '",' * 2 * STRINGS_LIMIT
    quoted = json.dumps({"messages": [{"role": "user", "content": text}]}).encode()
    assert read_prompt("/v1/chat/completions", [quoted]).chars > len(text)


def test_half_a_character_in_a_conversation_does_not_make_it_unreadable() -> None:
    body = b'{"tools": [{"name": "a"}], "messages": [{"role": "user", "content": "\\ud83d%s"}]}'
    assert len(read_prompt(CHAT, (body % (b"x" * 600),)).fingerprints) == 2


def test_a_byte_order_mark_does_not_make_it_unreadable() -> None:
    assert read_prompt(CHAT, (b"\xef\xbb\xbf" + b'{"prompt": "%s"}' % (b"x" * 600),)).chars == 600


def test_pieces_and_compression_make_no_difference() -> None:
    body = json.dumps({"model": "m", "messages": [said("user", "x" * 2000)]}).encode()
    whole = read_prompt(CHAT, (body,))
    assert whole.fingerprints
    assert read_prompt(CHAT, (body[:100], body[100:])) == whole
    assert read_prompt(CHAT, (zlib.compress(body),), b"deflate") == whole
    assert read_prompt(CHAT, (b"not it",), b"gzip") == NO_PROMPT
    assert read_prompt(CHAT, (body,), b"zstd") == NO_PROMPT
