"""What a stream that `pair` has opened itself may hold besides an engine's events."""

from __future__ import annotations

import json

import pytest

from pair.wire.dialects import Dialect
from pair.wire.open_streams import error_as_event, open_stream


def test_the_form_follows_the_path() -> None:
    events, lines = open_stream("/v1/messages"), open_stream("/api/chat")
    assert events is not None
    assert lines is not None
    assert events.content_type == b"text/event-stream"
    assert events.pulse.startswith(b":")
    assert events.pulse.endswith(b"\n\n")
    assert lines.content_type == b"application/x-ndjson"
    assert json.loads(lines.pulse * 3 + b'{"done":true}') == {"done": True}


@pytest.mark.parametrize("path", ["/v1/audio/speech", "/v1/embeddings", "/api/pull", "/v1/new"])
def test_where_a_stream_may_be_sound_or_anything_none_is_opened(path: str) -> None:
    assert open_stream(path) is None


@pytest.mark.parametrize(
    ("dialect", "beginning"),
    [
        (Dialect.OPENAI, b"data: "),
        (Dialect.ANTHROPIC, b"event: error\ndata: "),
        (Dialect.OLLAMA, b""),
    ],
)
@pytest.mark.parametrize(
    "body",
    [b'{\n "error": {\n "message": "too long"}}', b"too long\n<br>", b"[" * 100_000, b"null"],
)
def test_any_error_answer_becomes_one_event(
    dialect: Dialect, beginning: bytes, body: bytes
) -> None:
    event = error_as_event(dialect, 400, body)
    assert event.startswith(beginning)
    line = event.removeprefix(beginning).rstrip(b"\n")
    assert b"\n" not in line
    said = json.loads(line)
    assert said["error"]
    assert (said.get("type") == "error") == (dialect is Dialect.ANTHROPIC)
    if b"too long" in body:
        assert "too long" in json.dumps(said)


def test_an_engines_own_words_stay_as_they_are() -> None:
    body = b'{"error": {"code": 400, "n_ctx": 512, "type": "exceed_context_size_error"}}'
    event = error_as_event(Dialect.OPENAI, 400, body)
    assert json.loads(event.removeprefix(b"data: ")) == json.loads(body)
