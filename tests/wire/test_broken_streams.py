"""Streams cut anywhere, read as the clients' libraries read them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from pair.wire.answer_meter import TAIL_LIMIT_BYTES, AnswerMeter
from pair.wire.broken_streams import last_event
from pair.wire.dialects import Dialect
from pair.wire.errors import own_error

TYPES = {
    Dialect.OPENAI: b"text/event-stream",
    Dialect.ANTHROPIC: b"text/event-stream",
    Dialect.OLLAMA: b"application/x-ndjson",
}
ERRORS = {dialect: own_error(dialect, 502, "engine_error", "It broke off.") for dialect in Dialect}
OPENAI = (
    'data: {"a":"é👩"}\n\n: ping\n\nevent: x\ndata:{"b":1}\n\nretry: 5\ndata: {"c":1}\n\n'
    "data: [DONE]\n\n"
).encode()
ANTHROPIC = 'event: ping\ndata: {"type":"é👩"}\n\n: x\n\nevent: stop\ndata: {}\n\n'.encode()
OLLAMA = b'{"a":1}\n{"b":2}\n'


def after(dialect: Dialect, sent: bytes) -> bytes:
    """What ends a stream that broke off after this."""
    meter = AnswerMeter(TYPES[dialect])
    meter.feed(sent)
    return last_event(dialect, meter.ends(), ERRORS[dialect])


def events(stream: bytes) -> list[tuple[str, str]]:
    """Name and text of each event that is whole, as the HTML standard has it."""
    found: list[tuple[str, str]] = []
    name, texts = "", []
    for line in re.split(r"\r\n|\r|\n", stream.decode())[:-1]:
        field, _, value = line.partition(":")
        if field == "data":
            texts.append(value.removeprefix(" "))
        elif field == "event":
            name = value.removeprefix(" ")
        elif not line:
            if texts:
                found.append((name, "\n".join(texts)))
            name, texts = "", []
    return found


def lines(stream: bytes) -> list[Any]:
    return [json.loads(line) for line in stream.splitlines()]


@pytest.mark.parametrize("stream", [OPENAI, OPENAI.replace(b"\n", b"\r\n")], ids=["LF", "CRLF"])
def test_the_error_after_an_openai_stream_cut_anywhere_stands_alone_or_is_left_out(
    stream: bytes,
) -> None:
    left_out = 0
    for at in range(len(stream) + 1):
        said = after(Dialect.OPENAI, stream[:at])
        if not said:
            left_out += 1
            assert b"data" in stream[:at].rstrip(b"\r").splitlines()[-1]
            continue
        *before, (_, error) = events(stream[:at] + said)
        assert json.loads(error) == json.loads(ERRORS[Dialect.OPENAI])
        assert before == events(stream)[: len(before)], "nothing torn is handed over"
        assert len(events(stream[:at])) <= len(before)
    values = [text for _, text in events(stream)]
    # Up to a carriage return the line is not closed for certain.
    assert left_out == len("".join(values).encode()) + (len(values) if b"\r" in stream else 0)


@pytest.mark.parametrize("stream", [ANTHROPIC, ANTHROPIC.replace(b"\n", b"\r\n")])
def test_the_error_after_an_anthropic_stream_cut_anywhere_is_an_error(stream: bytes) -> None:
    for at in range(len(stream) + 1):
        said = after(Dialect.ANTHROPIC, stream[:at])
        if not said:
            with pytest.raises(UnicodeDecodeError):
                stream[:at].decode()
            continue
        *before, (name, text) = events(stream[:at] + said)
        assert name == "error"
        assert text.endswith(ERRORS[Dialect.ANTHROPIC].decode())
        assert before == events(stream)[: len(before)]


def test_the_error_after_lines_cut_anywhere_is_a_line_or_is_left_out() -> None:
    for at in range(len(OLLAMA) + 1):
        said = after(Dialect.OLLAMA, OLLAMA[:at])
        torn = bool(OLLAMA[:at]) and not OLLAMA[:at].endswith(b"\n")
        assert bool(said) is not torn
        if said:
            assert lines(OLLAMA[:at] + said)[-1] == json.loads(ERRORS[Dialect.OLLAMA])
    assert after(Dialect.OLLAMA, b'{"a":1}\n  '), "a space is no beginning"


@pytest.mark.parametrize("beginning", [b"d", b"data", b"data:", b"data: "])
def test_a_field_that_has_begun_is_completed_for_readers_that_take_each_line_by_itself(
    beginning: bytes,
) -> None:
    event = b"data: " + ERRORS[Dialect.OPENAI] + b"\n\n"
    for before in (b"", b"data: 1\n\n"):
        assert beginning + after(Dialect.OPENAI, before + beginning) == event


@pytest.mark.parametrize("dialect", list(Dialect))
def test_a_line_longer_than_what_is_kept_is_torn_in_its_value(dialect: Dialect) -> None:
    value = b'{"a":"' + b"x" * (3 * TAIL_LIMIT_BYTES)
    before = b"" if dialect is Dialect.OLLAMA else b"data: "
    said = after(dialect, before + value)
    assert bool(said) is (dialect is Dialect.ANTHROPIC)
    whole = before + value + b'"}\n'
    said = after(dialect, whole)
    if dialect is Dialect.OLLAMA:
        assert lines(whole + said)[-1] == json.loads(ERRORS[dialect])
    else:
        assert [json.loads(text) for _, text in events(whole + said)] == [
            json.loads(value + b'"}'),
            json.loads(ERRORS[dialect]),
        ]
