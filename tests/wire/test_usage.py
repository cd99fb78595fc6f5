"""Token counts in the words of each engine."""

from __future__ import annotations

import pytest

from pair.core.events import Usage
from pair.wire.usage import TOKENS_LIMIT, read_usage

OPENAI = (
    b'data: {"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":7,"total_tokens":27,'
    b'"prompt_tokens_details":{"cached_tokens":16},"completion_tokens_details":{"x":1}}}\n\n'
)
RESPONSES = (
    b'"usage":{"input_tokens":30,"input_tokens_details":{"cached_tokens":8},"output_tokens":5}'
)
ANTHROPIC_START = (
    b'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":4,'
    b'"cache_creation_input_tokens":2,"cache_read_input_tokens":14,"output_tokens":1}}}\n\n'
)
ANTHROPIC_DELTA = b'data: {"type":"message_delta","usage":{"output_tokens":9}}\n\n'
LLAMACPP = b'"timings":{"cache_n":236,"prompt_n":1,"prompt_ms":30.9,"predicted_n":35}'
OLLAMA = b'{"done":true,"prompt_eval_count":26,"prompt_eval_duration":1,"eval_count":290}\n'


@pytest.mark.parametrize(
    ("text", "usage"),
    [
        (OPENAI, Usage(20, 16, 7)),
        (b'"usage" : {"prompt_tokens": 8, "total_tokens": 8}', Usage(8, None, None)),
        (RESPONSES, Usage(30, 8, 5)),
        (ANTHROPIC_START + ANTHROPIC_DELTA, Usage(20, 14, 9)),
        (b'"usage":{"input_tokens":4,"output_tokens":9}', Usage(4, None, 9)),
        (LLAMACPP, Usage(237, 236, 35)),
        (b'"timings":{"prompt_n":12,"predicted_n":35}', Usage(None, None, 35)),
        (OPENAI + LLAMACPP, Usage(20, 16, 7)),
        (
            b'"usage":{"prompt_tokens":237,"completion_tokens":35},' + LLAMACPP,
            Usage(237, 236, 35),
        ),
        (OLLAMA, Usage(26, None, 290)),
        (b'{"done":true,"eval_count":290}', Usage(None, None, 290)),
        (b'"usage":null', Usage()),
        (b"", Usage()),
    ],
)
def test_each_engines_words_are_read(text: bytes, usage: Usage) -> None:
    assert read_usage(text) == usage


def test_the_last_word_holds() -> None:
    running = b'"usage":{"prompt_tokens":3,"completion_tokens":%d}'
    assert read_usage(running % 1 + b"\n" + running % 2) == Usage(3, None, 2)


@pytest.mark.parametrize(
    "text",
    [
        b'"content":"\\"usage\\":{\\"prompt_tokens\\":1}"',
        b'"usage":{"prompt_tokens":1,"completion_tok',
        b'"usage":{"prompt_tokens":-1,"completion_tokens":true}',
        b'"usage":{"prompt_tokens":"7","completion_tokens":1.5}',
        b'"usage":{"prompt_tokens":%d}' % (TOKENS_LIMIT + 1),
        b'"usage":{"prompt_tokens_details":{"cached_tokens":null}}',
        b'"usage":' + b'{"a":' * 5000,
        b'"usage":{\xff}',
        b'"eval_count":12345678901',
        b'"reeval_count":5',
    ],
)
def test_what_is_no_count_is_not_said(text: bytes) -> None:
    assert read_usage(text) == Usage()
