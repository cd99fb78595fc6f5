"""What an answer has cost, however it is split and however long it is."""

from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pair.core.events import Usage
from pair.wire.answer_meter import HEAD_LIMIT_BYTES, TAIL_LIMIT_BYTES, AnswerMeter

EVENTS = b"text/event-stream"
JSON = b"application/json"


def meter(pieces: list[bytes], kind: bytes | None, *, packed: bool = False) -> AnswerMeter:
    measured = AnswerMeter(kind, packed=packed)
    for piece in pieces:
        measured.feed(piece)
    return measured


def in_pieces(body: bytes, size: int) -> list[bytes]:
    return [body[start : start + size] for start in range(0, len(body), size)]


def event(text: str) -> bytes:
    return b"data: " + json.dumps({"choices": [{"delta": {"content": text}}]}).encode() + b"\n\n"


def stream(events: int, closing: bytes) -> bytes:
    return b"".join(event(f"word{index}") for index in range(events)) + closing


USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":7}}\n\n'


@pytest.mark.parametrize("size", [1, 7, 100, 10_000, 10_000_000])
@pytest.mark.parametrize("events", [0, 3, 2000])
def test_the_engines_counts_are_found_at_the_end(size: int, events: int) -> None:
    body = stream(events, USAGE + b"data: [DONE]\n\n")
    assert meter(in_pieces(body, size), EVENTS).usage() == Usage(20, None, 7)


@pytest.mark.parametrize("size", [1, 7, 100, 10_000, 10_000_000])
def test_counts_at_the_beginning_of_a_long_answer_are_found(size: int) -> None:
    body = b'{"usage":{"prompt_tokens":8},"data":[' + b"0.123," * 20_000 + b"0]}"
    assert meter(in_pieces(body, size), JSON).usage() == Usage(8, None, None)


@given(st.integers(HEAD_LIMIT_BYTES - 80, HEAD_LIMIT_BYTES + 10), st.integers(1, 5000))
def test_counts_across_the_edge_of_what_is_kept_are_found(before: int, size: int) -> None:
    body = b" " * before + b'"usage":{"prompt_tokens":20,"completion_tokens":7}'
    assert meter(in_pieces(body, size), JSON).usage() == Usage(20, None, 7)


def test_two_torn_halves_are_not_taken_for_one() -> None:
    opening = b" " * (HEAD_LIMIT_BYTES - 9) + b'"usage":{'
    closing = b'"prompt_tokens":1}' + b" " * (TAIL_LIMIT_BYTES - 18)
    between = [b'"x":"' + b"x" * 10 * TAIL_LIMIT_BYTES]
    torn = meter([opening, *between, closing], JSON)
    assert torn.usage() == Usage()


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("done", [b"data: [DONE]\n\n", b""])
def test_without_counts_the_events_stand_for_tokens(size: int, done: bytes) -> None:
    assert meter(in_pieces(stream(40, done), size), EVENTS).usage() == Usage(None, None, 40)


def test_counts_of_the_prompt_alone_leave_the_events_for_the_output() -> None:
    body = stream(5, b'data: {"usage":{"prompt_tokens":9}}\n\n')
    assert meter([body], EVENTS).usage() == Usage(9, None, 6)


def test_an_answer_that_says_nothing_has_no_usage() -> None:
    assert meter([b'{"data":[]}'], JSON).usage() == Usage()
    assert meter([], None).usage() == Usage()


def test_a_compressed_answer_has_no_usage() -> None:
    body = gzip.compress(stream(3, USAGE))
    assert meter([body], EVENTS, packed=True).usage() == Usage()


def test_it_tells_how_the_answer_ends_so_far() -> None:
    """A long one without its beginning, a short one as after a blank line."""
    assert meter([], EVENTS).ends() == b"\n\n"
    assert meter([b"data: {"], EVENTS).ends() == b"\n\ndata: {"
    long = b"x" * HEAD_LIMIT_BYTES + b"y" * TAIL_LIMIT_BYTES
    assert meter([long], EVENTS).ends() == b"\n\n" + long
    assert meter([long + b"y"], EVENTS).ends() == b"y" * TAIL_LIMIT_BYTES
    one_by_one = meter([b"x", *[b"y"] * (4 * TAIL_LIMIT_BYTES)], EVENTS).ends()
    assert b"\n" not in one_by_one
    assert TAIL_LIMIT_BYTES <= len(one_by_one) <= 2 * TAIL_LIMIT_BYTES
