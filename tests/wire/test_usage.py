"""Token counts and clocks in the words of each engine."""

from __future__ import annotations

import time

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
LLAMACPP = b'"timings":{"cache_n":236,"prompt_n":1,"predicted_n":35}'
OLLAMA = b'{"done":true,"prompt_eval_count":26,"eval_count":290}\n'


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


TIMED_LLAMACPP = (
    b'"timings":{"cache_n":236,"prompt_n":1,"prompt_ms":30.958,"prompt_per_token_ms":30.958,'
    b'"prompt_per_second":32.3,"predicted_n":35,"predicted_ms":661.064,"predicted_per_second":52.9}'
)
TIMED_OLLAMA = (
    b'{"done":true,"total_duration":5191566416,"load_duration":2154458,"prompt_eval_count":26,'
    b'"prompt_eval_duration":383809000,"eval_count":290,"eval_duration":4799921000}\n'
)


@pytest.mark.parametrize(
    ("text", "prefill_s", "decode_s", "load_s"),
    [
        (TIMED_LLAMACPP, 0.030958, 0.661064, None),
        (TIMED_OLLAMA, 0.383809, 4.799921, 0.002154458),
        (b'"timings":{"prompt_ms":0,"predicted_ms":7}', 0.0, 0.007, None),
        (b'"timings":{"prompt_ms":NaN,"predicted_ms":Infinity}', None, None, None),
        (b'"timings":{"prompt_ms":-1,"predicted_ms":1e400}', None, None, None),
        (b'"timings":{"prompt_ms":"5","predicted_ms":true}', None, None, None),
        (b'"timings":{"prompt_ms":86400000,"predicted_ms":86399999}', None, 86399.999, None),
        (b'"eval_duration":86400000000000,"load_duration":86399000000000', None, None, 86399.0),
        (b'"load_duration":1234567890123456,"eval_duration":-5', None, None, None),
        (b'"eval_duration":9,"eval_duration":%d' % 10**9, None, 1.0, None),
        (OPENAI, None, None, None),
    ],
)
def test_the_engines_own_clocks_are_read(
    text: bytes, prefill_s: float | None, decode_s: float | None, load_s: float | None
) -> None:
    usage = read_usage(text)
    said = (usage.prefill_s, usage.decode_s, usage.load_s)
    for clock, expected in zip(said, (prefill_s, decode_s, load_s), strict=True):
        assert clock == (None if expected is None else pytest.approx(expected))


def test_the_last_timings_hold() -> None:
    """llama.cpp gives them with each event where the client asks for that."""
    early = b'data: {"timings":{"cache_n":0,"prompt_n":9,"prompt_ms":5,"predicted_n":1}}\n\n'
    assert read_usage(early + TIMED_LLAMACPP) == read_usage(TIMED_LLAMACPP)


def test_an_older_llamacpp_had_cached_what_it_did_not_compute() -> None:
    said = b'"usage":{"prompt_tokens":237,"completion_tokens":35},"timings":{"prompt_n":1}'
    assert read_usage(said) == Usage(237, 236, 35)


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


def test_of_many_counts_the_first_and_the_last_are_read() -> None:
    """As of an engine that tells them with every token; and one that nests them costs no time."""
    running = b"".join(b'data: {"usage":{"completion_tokens":%d}}\n\n' % n for n in range(300))
    assert read_usage(ANTHROPIC_START + running) == Usage(20, 14, 299)
    began = time.thread_time()
    assert read_usage(b'"usage":{' * 2000 + OPENAI) == Usage(20, 16, 7)
    assert time.thread_time() - began < 0.05, "without the limit it takes 0.15 s"
