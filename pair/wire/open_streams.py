"""The stream that `pair` opens itself while a call waits, before any engine has spoken.

Separate from the errors because it says what a stream of each dialect may hold besides its events:
what every client takes for nothing, and in which form an answer that is an error can still come.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from pair.wire.dialects import Dialect, dialect_of
from pair.wire.errors import closing_event, own_error

NOT_A_STREAM = "not_a_stream"
"""The code for an engine that answered a call for a stream with something else."""

_SHOWN_CHARS = 300
"""Of an engine's error that is no JSON."""

EVENT_STREAM = b"text/event-stream"
_LINES = b"application/x-ndjson"

_STREAMING_PATHS = frozenset(
    (
        "/api/chat",
        "/api/generate",
        "/v1/audio/transcriptions",
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/messages",
        "/v1/responses",
        "/chat/completions",
        "/completion",
        "/completions",
        "/infill",
        "/responses",
    )
)
"""Where `"stream": true` is known to mean events or lines; elsewhere it may mean sound."""


@dataclass(frozen=True, slots=True)
class OpenStream:
    """The form of one.

    Attributes:
        content_type: of the head that goes ahead.
        pulse: what keeps it alive and means nothing: a comment line of an event stream; a space
            before a line of JSON, which JSON allows and no reader of lines hands on by itself.
        follows: content types of an engine's answer whose bytes can follow.
    """

    content_type: bytes
    pulse: bytes
    follows: tuple[bytes, ...]


# A blank line after the comment, as engines and hosted APIs write theirs.
_EVENTS = OpenStream(EVENT_STREAM, b": waiting for a machine\n\n", (EVENT_STREAM,))
# A single JSON object is a stream of one line.
_JSON_LINES = OpenStream(_LINES, b" ", (_LINES, b"application/json"))


def open_stream(path: str) -> OpenStream | None:
    """The form of the stream at this path, None where it is not known."""
    if path not in _STREAMING_PATHS:
        return None
    return _JSON_LINES if dialect_of(path) is Dialect.OLLAMA else _EVENTS


def error_as_event(dialect: Dialect, status: int, body: bytes) -> bytes:
    """An error answer, ours or an engine's, as the last event of a stream that is open already."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict) or not said.get("error"):
        words = " ".join(body.decode("utf-8", "replace").split())[:_SHOWN_CHARS]
        message = f"The engine answered with status {status}: {words}"
        said = json.loads(own_error(dialect, status, "engine_error", message))
    elif dialect is Dialect.ANTHROPIC:
        said = {**said, "type": "error"}
    return closing_event(dialect, json.dumps(said).encode())
