"""What `pair` itself says to a client, in the client's own dialect.

Separate from the engines' errors (`engine_errors.py`): those are read, these are worded. Every
refusal says what is wrong and what to do, in a sentence each, since what people see of an agent's
failure is often only that. The first is the core's (`core/refusals.py`), the second stands here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from pair.core.decisions import RefusalKind, Refuse
from pair.core.refusals import listed
from pair.errors import RequestFault
from pair.wire.dialects import Dialect

NODE_BUSY = "node_busy"
"""The code by which a full node refuses before it reads a body; the proxy keeps the ticket."""

NODE_DRAINING = "node_draining"
"""The same while a node finishes what it has."""

NODE_LOOP = "node_loop"
"""A request that has been through a node came to a node or a proxy again."""

MODEL_NOT_FOUND = "model_not_found"
"""OpenAI's code, which clients and other gateways look for."""

RETRY_AFTER_S = 2
"""Said with every 429 and 503 for which nobody knows better: about one short generation."""


@dataclass(frozen=True, slots=True)
class OwnAnswer:
    """A whole answer of our own, ready for `exchange.answer`."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


@dataclass(frozen=True, slots=True)
class _Refusal:
    """How one kind of refusal looks to a client.

    Attributes:
        advice: what the client or its user can do about it; the core's one sentence on what is
            wrong goes before it.
    """

    status: int
    code: str
    advice: str


_REFUSALS = {
    RefusalKind.UNKNOWN_MODEL: _Refusal(
        404, MODEL_NOT_FOUND, "Ask for one that is there, or load yours on a machine."
    ),
    RefusalKind.NO_MODEL_NAMED: _Refusal(400, "model_required", "Put one into the field `model`."),
    RefusalKind.UNKNOWN_NODE: _Refusal(
        404,
        "node_not_found",
        "Name another one by its id (`pair nodes` lists them), or leave the header x-pair-node out "
        "to let any machine answer.",
    ),
    RefusalKind.TOO_LONG: _Refusal(
        400,
        "context_length_exceeded",
        "Shorten it, or load the model with a larger context somewhere.",
    ),
    RefusalKind.NO_NODE: _Refusal(
        503,
        "no_node",
        "Start `pair node` on a machine with a model, or name its engine with "
        "`pair serve --node URL`; `pair nodes` shows what is known.",
    ),
    # 429, not 503: it is the callers' own number of requests that is too high, and agents multiply
    # a 503 (Codex 30 times, OpenCode 9 times) where they slow down on a 429.
    RefusalKind.QUEUE_FULL: _Refusal(
        429, "queue_full", "Send fewer at a time, add a machine, or raise the limit."
    ),
    RefusalKind.WAITED_TOO_LONG: _Refusal(
        503, "waited_too_long", "Try again later, add a machine, or raise the limit."
    ),
    RefusalKind.SHUTTING_DOWN: _Refusal(503, "shutting_down", "Try again when it is up."),
    RefusalKind.ATTEMPTS_SPENT: _Refusal(
        502,
        "attempts_spent",
        "`pair nodes` shows the state of the machines; try again once one is ready.",
    ),
}

_ABOUT_MODEL = frozenset((RefusalKind.UNKNOWN_MODEL, RefusalKind.NO_MODEL_NAMED))

_OPENAI_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
}
_ANTHROPIC_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


def own_error(
    dialect: Dialect, status: int, code: str, message: str, param: str | None = None
) -> bytes:
    """The body of an error in the shape that this dialect's clients take apart."""
    return json.dumps(_error_object(dialect, status, code, message, param)).encode()


def own_answer(
    dialect: Dialect,
    status: int,
    code: str,
    message: str,
    *,
    param: str | None = None,
    retry_after_s: int | None = None,
) -> OwnAnswer:
    """A whole error answer; 429 and 503 always say when to come back."""
    headers = [(b"content-type", b"application/json")]
    if retry_after_s is None and status in (429, 503):
        retry_after_s = RETRY_AFTER_S
    if retry_after_s is not None:
        headers.append((b"retry-after", b"%d" % retry_after_s))
    return OwnAnswer(status, tuple(headers), own_error(dialect, status, code, message, param))


def refusal_answer(dialect: Dialect, refuse: Refuse) -> OwnAnswer:
    """The core's refusal as an answer: what is wrong, in its words, and what to do, in ours."""
    refusal = _REFUSALS[refuse.kind]
    message = f"{refuse.detail} {refusal.advice}"
    return own_answer(
        dialect,
        refusal.status,
        refusal.code,
        message,
        param="model" if refuse.kind in _ABOUT_MODEL else None,
        retry_after_s=refuse.retry_after_s,
    )


def loop_answer(dialect: Dialect) -> OwnAnswer:
    """For what has been through a node: whoever gives this stands where an engine should be."""
    words = (
        "This request came through a node already, and a node serves its own engines only; "
        "take this address out of that node's list of engines."
    )
    return own_answer(dialect, 508, NODE_LOOP, words)


def fault_answer(dialect: Dialect, fault: RequestFault) -> OwnAnswer:
    """The client's own fault as an answer."""
    return own_answer(dialect, fault.status, fault.code, str(fault), param=fault.param)


def model_missing(existing: Sequence[str]) -> RequestFault:
    """The fault of a generation that names no model."""
    words = "The request names no model; put one into the field `model`."
    return RequestFault(
        400, "model_required", f"{words} {models_sentence(existing)}", param="model"
    )


def models_sentence(existing: Sequence[str]) -> str:
    """Which models exist, in words, for an error that must not leave a person guessing."""
    if not existing:
        return "No model is known here yet."
    return f"There are: {listed(existing)}."


def closing_event(dialect: Dialect, error: bytes) -> bytes:
    """An error in this dialect's shape, on one line, as the last event of a stream."""
    match dialect:
        case Dialect.OLLAMA:
            return error + b"\n"
        case Dialect.ANTHROPIC:
            return b"event: error\ndata: " + error + b"\n\n"
        case _:
            return b"data: " + error + b"\n\n"


def _error_object(
    dialect: Dialect, status: int, code: str, message: str, param: str | None
) -> object:
    if dialect is Dialect.OLLAMA:
        return {"error": message, "code": code}
    if dialect is Dialect.ANTHROPIC:
        default = "api_error" if status >= 500 else "invalid_request_error"
        kind = _ANTHROPIC_TYPES.get(status, default)
        return {"type": "error", "error": {"type": kind, "message": message, "code": code}}
    default = "server_error" if status >= 500 else "invalid_request_error"
    kind = _OPENAI_TYPES.get(status, default)
    return {"error": {"message": message, "type": kind, "code": code, "param": param}}
