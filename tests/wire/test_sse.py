"""Counting events however a stream is split."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pair.wire.sse import EventCounter

STREAM = (
    b': ping\n\nevent: x\ndata: {"a":"data: \\ndata:"}\n\ndata:{}\r\n\r\n'
    b"id: 7\ndata: {}\n\ndata: [DONE]\n\n"
)
LINES = b'{"a":"{"}\n{"b":1}\n{"c":"\\n{"}\n'


def count(kind: bytes, pieces: list[bytes]) -> EventCounter:
    counter = EventCounter(kind)
    for piece in pieces:
        counter.feed(piece)
    return counter


def cut(stream: bytes, at: list[int]) -> list[bytes]:
    edges = [0, *sorted(at), len(stream)]
    return [stream[start:end] for start, end in pairwise(edges) if start < end]


@given(st.lists(st.integers(0, len(STREAM))))
def test_events_are_counted_however_they_are_split(at: list[int]) -> None:
    assert count(b"text/event-stream; charset=utf-8", cut(STREAM, at)).count == 4


@given(st.lists(st.integers(0, len(LINES))))
def test_lines_are_counted_however_they_are_split(at: list[int]) -> None:
    assert count(b"application/x-ndjson", cut(LINES, at)).count == 3


@given(st.lists(st.binary(min_size=1, max_size=3), max_size=40))
def test_one_by_one_is_as_all_at_once(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    counted = count(b"text/event-stream", pieces)
    assert counted.count == (b"\n" + whole).count(b"\ndata:")


@pytest.mark.parametrize("kind", [b"application/json", b""])
def test_what_is_no_stream_has_no_events(kind: bytes) -> None:
    counter = count(kind, [STREAM])
    assert counter.count == 0
