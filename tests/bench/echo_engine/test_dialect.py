from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pair.bench.echo_engine.dialect import (
    TokenEvent,
    checked_length,
    decode,
    named_event,
    plain_event,
    timings,
)
from pair.bench.echo_engine.generation import Outcome, Refusal


@given(st.text(max_size=8))
def test_an_event_with_a_token_put_in_equals_the_event_encoded_whole(token: str) -> None:
    event = TokenEvent({"a": [{"b": TokenEvent.place()}], "c": 1}, before=b"data: ", after=b"\n\n")
    assert event.with_token(token) == plain_event({"a": [{"b": token}], "c": 1})


def test_events_of_a_server_sent_stream() -> None:
    assert plain_event({"a": "ü"}) == 'data: {"a":"ü"}\n\n'.encode()
    assert named_event({"type": "ping"}) == b'event: ping\ndata: {"type":"ping"}\n\n'


class Shape(msgspec.Struct):
    model: str
    tokens: int = 0


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "truncated"),
        (b"{", "truncated"),
        (b"[]", "object"),
        (b'{"tokens": 1}', "model"),
        (b'{"model": 1}', "model"),
        (b'{"model": "m", "tokens": "x"}', "tokens"),
        (b"\xff\xfe", "cannot be read"),
        (b'{"model": "\xff"}', "cannot be read"),
    ],
)
def test_a_body_of_another_shape_is_refused_with_the_field_at_fault(body: bytes, says: str) -> None:
    with pytest.raises(Refusal, match=says) as refused:
        decode(body, Shape)
    assert refused.value.status == 400


def test_unknown_fields_are_ignored_as_engines_do() -> None:
    assert decode(b'{"model": "m", "temperature": 0}', Shape) == Shape("m")


def test_lengths() -> None:
    assert checked_length(None) is None
    assert checked_length(1) == 1
    for tokens in (0, -1):
        with pytest.raises(Refusal):
            checked_length(tokens)


def test_timings_divide_by_nothing_when_nothing_was_done() -> None:
    outcome = Outcome(1, 0.0, prompt_tokens=10, cached_tokens=4, text="", finish="stop")
    assert timings(outcome)["prompt_per_second"] == 0.0
    assert timings(outcome)["predicted_per_token_ms"] == 0.0
    outcome.prefill_s, outcome.decode_s, outcome.output_tokens = 0.5, 2.0, 20
    shown = json.loads(json.dumps(timings(outcome)))
    assert (shown["cache_n"], shown["prompt_n"], shown["predicted_n"]) == (4, 6, 20)
    assert (shown["prompt_ms"], shown["prompt_per_second"]) == (500.0, 12.0)
    assert (shown["predicted_ms"], shown["predicted_per_token_ms"]) == (2000.0, 100.0)
