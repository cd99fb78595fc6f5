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
    r"busy|overload|too many|capacity|queue is full|higher priority"
    r"|no (?:free |idle |available )?slots?",
    re.IGNORECASE,
)
_LOADING_WORDS = re.compile(r"loading|warming up|starting up|not ready", re.IGNORECASE)
_NO_MODEL_WORDS = re.compile(
    r"model\b.*\b(?:not found|not exist|not loaded)|no such model|unknown model|no models? loaded",
    re.IGNORECASE,
)

_NO_MODEL_400 = re.compile(
    r"model(?: '[^']*')? (?:is )?not (?:found|loaded)$|no models? loaded", re.IGNORECASE
)
"""The same with status 400, which also means the client's own mistakes and quotes them: llama.cpp
without a model of its own, and LM Studio."""

_NO_LOAD_400 = re.compile(r"failed to load model\b", re.IGNORECASE)
"""LM Studio's words, with status 400, for a model that its machine has no room for just now."""

_TOO_LONG_WORDS = re.compile(
    r"exceed\w*\b.{0,60}\b(?:context|model length)|\bcontext\b.{0,40}\bexceed"
    r"|longer than .{0,40}\bmodel(?:'s context)? length"
    r"|max(?:imum)? (?:context|model) (?:size|length)"
    r"|context length of only|when context the overflows|too large to process",
    re.IGNORECASE,
)
"""Engines' words for a prompt that does not fit, some of them with status 500 or 503. It fits no
better elsewhere, and is nobody's failure but the prompt's."""

_OLLAMA_500 = "unexpected server status: llm "
"""Before these words Ollama says with status 500 that its runner is only busy or loading."""


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
    words = complaint.message
    if status in (400, 404):
        return _kind_of_refusal(status, complaint)
    if status == 429:
        return FailureKind.RATE_LIMITED
    if status in (500, 503) and _TOO_LONG_WORDS.search(words):
        return None
    if status == 500 and not words.startswith(_OLLAMA_500):
        return FailureKind.ENGINE_ERROR
    if status == 529 or complaint.code in (NODE_BUSY, NODE_DRAINING):
        return FailureKind.BUSY
    if status in (500, 503) and _LOADING_WORDS.search(words):
        return FailureKind.LOADING
    if status in (500, 503) and _BUSY_WORDS.search(words):
        return FailureKind.BUSY
    return FailureKind.ENGINE_ERROR if status == 500 else FailureKind.BAD_GATEWAY


def _kind_of_refusal(status: int, complaint: _Complaint) -> FailureKind | None:
    """Of an answer that is mostly the client's, but not where the node lacks the model."""
    if complaint.code == MODEL_NOT_FOUND:
        return FailureKind.NO_SUCH_MODEL
    if status == 404:
        return FailureKind.NO_SUCH_MODEL if _NO_MODEL_WORDS.search(complaint.message) else None
    if _NO_MODEL_400.match(complaint.message):
        return FailureKind.NO_SUCH_MODEL
    return FailureKind.ENGINE_ERROR if _NO_LOAD_400.match(complaint.message) else None


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
