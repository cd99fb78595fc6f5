"""What a dialect of the echo engine has to say: one per API path.

A dialect reads a request body into a `Call` and words what came of it. It knows nothing of
slots, time or sockets, so adding a path is adding one class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from pair.bench.echo_engine.generation import Call, Outcome, Refusal

Body = TypeVar("Body", bound=msgspec.Struct)

EVENT_STREAM = "text/event-stream"
JSON = "application/json; charset=utf-8"

encode = msgspec.json.encode
# Splits an encoded event where the token goes in: encoding the whole event for each token would
# cost five times as much, and a fake engine must not be the slowest part of a measurement.
_TOKEN_MARK = "\ufdd0token\ufdd0"  # noqa: S105 - a place holder, no secret


class TokenEvent:
    """An event that is the same for every token of a call, save for the token itself."""

    __slots__ = ("_after", "_before")

    def __init__(self, event: Mapping[str, Any], *, before: bytes, after: bytes) -> None:
        head, _, tail = encode(event).partition(encode(_TOKEN_MARK))
        self._before = before + head
        self._after = tail + after

    def with_token(self, token: str) -> bytes:
        return self._before + encode(token) + self._after

    @staticmethod
    def place() -> str:
        """What stands for the token in the event given to the constructor."""
        return _TOKEN_MARK


class Stream(ABC):
    """The words of one streamed answer."""

    @abstractmethod
    def opening(self) -> bytes:
        """What comes before the first token."""

    @abstractmethod
    def token(self, token: str) -> bytes:
        """The event of one token."""

    @abstractmethod
    def closing(self) -> bytes:
        """What comes after the last token."""


class Dialect(ABC):
    """One API path's way to ask and to answer.

    Attributes:
        stream_type: content type of streamed answers.
    """

    stream_type = EVENT_STREAM

    @abstractmethod
    def read(self, body: bytes) -> Call:
        """The call in a request body; raises Refusal with what is wrong with it."""

    @abstractmethod
    def whole(self, call: Call, outcome: Outcome) -> bytes:
        """The body of an answer that is not streamed."""

    @abstractmethod
    def stream(self, call: Call, outcome: Outcome) -> Stream:
        """The words of a streamed answer; `outcome` is filled in while it goes on."""

    @abstractmethod
    def refusal(self, refusal: Refusal) -> bytes:
        """The body of an error answer."""


def decode(body: bytes, shape: type[Body]) -> Body:
    """A request body of the given shape; raises Refusal naming the field at fault."""
    try:
        return msgspec.json.decode(body, type=shape)
    except msgspec.MsgspecError as error:
        raise Refusal(400, "invalid_request", f"The request cannot be read: {error}.") from None


def checked_length(tokens: int | None) -> int | None:
    """A length that a client asked for; raises Refusal for one below 1."""
    if tokens is not None and tokens < 1:
        raise Refusal(400, "invalid_request", "The answer needs room for at least one token.")
    return tokens


def plain_event(event: Mapping[str, Any]) -> bytes:
    """An event of a server-sent stream without a name."""
    return b"data: " + encode(event) + b"\n\n"


def named_event(event: Mapping[str, Any]) -> bytes:
    """An event of a server-sent stream that is named by its `type`."""
    return b"event: " + str(event["type"]).encode() + b"\ndata: " + encode(event) + b"\n\n"


def timings(outcome: Outcome) -> dict[str, float]:
    """llama.cpp's account of an answer, in ms and tokens/s."""
    prompt_tokens = outcome.prompt_tokens - outcome.cached_tokens
    return {
        "cache_n": outcome.cached_tokens,
        "prompt_n": prompt_tokens,
        "prompt_ms": outcome.prefill_s * 1e3,
        "prompt_per_token_ms": _ratio(outcome.prefill_s * 1e3, prompt_tokens),
        "prompt_per_second": _ratio(prompt_tokens, outcome.prefill_s),
        "predicted_n": outcome.output_tokens,
        "predicted_ms": outcome.decode_s * 1e3,
        "predicted_per_token_ms": _ratio(outcome.decode_s * 1e3, outcome.output_tokens),
        "predicted_per_second": _ratio(outcome.output_tokens, outcome.decode_s),
    }


def _ratio(amount: float, per: float) -> float:
    return amount / per if per else 0.0
