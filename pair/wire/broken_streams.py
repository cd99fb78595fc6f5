"""How a stream that broke off ends: with an error event, or with nothing where none can be put in.

Separate from the errors because it is about what stands there already. Bytes cannot be taken back,
so what we add must be an event of its own to a reader who has the beginning of another one.
"""

from __future__ import annotations

from pair.wire.dialects import Dialect
from pair.wire.errors import closing_event


def last_event(dialect: Dialect, ends: bytes, error: bytes) -> bytes:
    """What to send last, before the cut that follows in any case.

    An event that is whole but for its blank line is handed over first, a line without a value is
    completed or closed. After a value that is torn nothing can follow: the `openai` library reads
    both as one piece of JSON and fails on that, Ollama's reads the torn line. Anthropic's is the
    exception, which takes the text of any `event: error` for the message.

    Args:
        ends: with what the stream ends so far (`AnswerMeter.ends`).
        error: an error in the dialect's shape, on one line.

    Returns:
        Nothing (b"") where the client is told best by the cut alone, as by the engine itself.
    """
    event = closing_event(dialect, error)
    # A carriage return at the very end may be the half of a line break.
    lines = ends.removesuffix(b"\r").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if dialect is Dialect.OLLAMA:
        return b"" if lines.rpartition(b"\n")[2].strip() else event
    _, known, open_event = lines.rpartition(b"\n\n")
    # Nothing but data is longer than what was kept.
    *fields, line = (open_event if known else b"data:" + open_event).split(b"\n")
    hand_over = b"\n" if any(field.startswith(b"data:") for field in fields) else b""
    name, _, value = line.partition(b":")
    if name == b"data" and value.strip():
        return b"\n" + event if dialect is Dialect.ANTHROPIC and _readable(line) else b""
    if not hand_over and event.startswith(line):
        return event[len(line) :]
    return (b"\n" if line else b"") + hand_over + event


def _readable(line: bytes) -> bool:
    """Whether it ends with a whole character; a library that decodes line by line fails on half of
    one.
    """
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True
