"""Which answers of an engine or node are failed attempts, and of what kind.

The other direction of `errors.py`: there our words for clients, here the engines' words for us. An
answer that is not a failed attempt goes to the client byte for byte, a refusal of its request
included, because another node would refuse it too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from pair.core.events import Failure, FailureKind
from pair.wire.errors import MODEL_NOT_FOUND, NODE_BUSY, NODE_DRAINING

DETAIL_LIMIT_CHARS = 200
"""Longest piece of an engine's words that is kept; beyond a sentence it may quote the prompt."""

RETRY_AFTER_LIMIT_S = 3600.0
"""Longest pause that a node can talk us into."""

_BUSY_WORDS = re.compile(
    r"busy|overload|too many|capacity|queue is full|no (?:free |idle |available )?slots?",
    re.IGNORECASE,
)
_LOADING_WORDS = re.compile(r"loading|warming up|starting up|not ready", re.IGNORECASE)
_NO_MODEL_WORDS = re.compile(
    r"model\b.*\b(?:not found|not exist|not loaded)|no such model|unknown model", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class _Complaint:
    """What an error body says, whichever shape it has; empty strings where it says nothing."""

    code: str
    message: str


def may_be_failure(status: int) -> bool:
    """Whether the body of an answer with this status must be read to tell; all others are relayed
    at once.
    """
    return status in (400, 404, 429, 500, 502, 503, 504, 529)


def classify_answer(
    status: int, first: Callable[[bytes], bytes | None], body: bytes
) -> Failure | None:
    """The failed attempt that this answer means, None for an answer that is the client's.

    `first` looks up a header by its lower-case name; `body` may be cut short.
    """
    if not may_be_failure(status):
        return None
    complaint = _complaint(body)
    kind = _kind(status, complaint)
    if kind is None:
        return None
    words = complaint.message or complaint.code
    detail = f"status {status}" + (f": {words}" if words else "")
    return Failure(kind, detail, _retry_after_s(first(b"retry-after")))


def _kind(status: int, complaint: _Complaint) -> FailureKind | None:
    if status in (400, 404):
        no_model = complaint.code == MODEL_NOT_FOUND or (
            status == 404 and _NO_MODEL_WORDS.search(complaint.message)
        )
        return FailureKind.NO_SUCH_MODEL if no_model else None
    if status == 429:
        return FailureKind.RATE_LIMITED
    if status == 500:
        return FailureKind.ENGINE_ERROR
    if status == 529 or complaint.code in (NODE_BUSY, NODE_DRAINING):
        return FailureKind.BUSY
    if status == 503 and _LOADING_WORDS.search(complaint.message):
        return FailureKind.LOADING
    if status == 503 and _BUSY_WORDS.search(complaint.message):
        return FailureKind.BUSY
    return FailureKind.BAD_GATEWAY


def _complaint(body: bytes) -> _Complaint:
    """Code and message of an error body: `{"error": {...}}`, `{"error": "..."}`, `{"message": ...}`
    or plain text.
    """
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, ValueError):
        text = (
            ""
            if body.lstrip()[:1] in (b"<", b"{", b"[")
            else body[: 4 * DETAIL_LIMIT_CHARS].decode("utf-8", "replace")
        )
        return _Complaint("", _one_line(text))
    outer = value if isinstance(value, dict) else {}
    error = outer.get("error")
    inner = error if isinstance(error, dict) else outer
    message = next(
        (
            words
            for words in (error, inner.get("message"), inner.get("detail"))
            if isinstance(words, str)
        ),
        "",
    )
    codes = (inner.get("code"), outer.get("code"), inner.get("type"))
    code = next((word for word in codes if isinstance(word, str)), "")
    return _Complaint(code[:DETAIL_LIMIT_CHARS], _one_line(message))


def _one_line(text: str) -> str:
    """The text's beginning as one printable line."""
    line = " ".join(
        "".join(
            char if char.isprintable() else " " for char in text[: 4 * DETAIL_LIMIT_CHARS]
        ).split()
    )
    return line if len(line) <= DETAIL_LIMIT_CHARS else line[: DETAIL_LIMIT_CHARS - 1] + "…"


def _retry_after_s(value: bytes | None) -> float | None:
    """Seconds from a `Retry-After` header; a date (which no engine sends) counts as none."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        return None
    return min(seconds, RETRY_AFTER_LIMIT_S) if seconds >= 0 else None
