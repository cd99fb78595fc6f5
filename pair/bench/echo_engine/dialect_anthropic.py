"""Anthropic's messages, as Claude Code and its relatives speak them."""

from __future__ import annotations

from typing import Any

import msgspec

from pair.bench.echo_engine import tokenizer
from pair.bench.echo_engine.dialect import (
    Dialect,
    Stream,
    TokenEvent,
    checked_length,
    decode,
    encode,
    named_event,
)
from pair.bench.echo_engine.dialect_openai import Message
from pair.bench.echo_engine.generation import Call, Outcome, Refusal

_ERROR_TYPES = {
    401: "authentication_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}
_STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool": "tool_use"}


class _MessagesBody(msgspec.Struct):
    messages: list[Message]
    model: str = ""
    system: Any = None
    stream: bool | None = None
    max_tokens: int | None = None
    tools: list[Any] | None = None
    tool_choice: Any = None


class AnthropicMessages(Dialect):
    """/v1/messages."""

    def read(self, body: bytes) -> Call:
        """`tool_choice` of type "any" or "tool" makes the answer a call of that tool."""
        asked = decode(body, _MessagesBody)
        messages = [message.spoken() for message in asked.messages]
        words = messages[-1][1] if messages else ""
        if asked.system is not None:
            messages.insert(0, ("system", tokenizer.text_of(asked.system)))
        return Call(
            model=asked.model,
            prompt=tokenizer.render(messages, asked.tools or ()),
            words=words,
            answer_tokens=checked_length(asked.max_tokens),
            stream=bool(asked.stream),
            tool=_wanted_tool(asked.tools or [], asked.tool_choice),
        )

    def whole(self, call: Call, outcome: Outcome) -> bytes:
        block: dict[str, object] = {"type": "text", "text": outcome.text}
        if call.tool is not None:
            arguments = msgspec.json.decode(outcome.text)
            block = {**_tool_block(call.tool, outcome), "input": arguments}
        return encode(
            {
                **envelope(call, outcome),
                "content": [block],
                "stop_reason": _STOP_REASONS[outcome.finish],
                "usage": usage(outcome),
            }
        )

    def stream(self, call: Call, outcome: Outcome) -> Stream:
        return _MessageStream(call, outcome)

    def refusal(self, refusal: Refusal) -> bytes:
        """`{"type": "error", "error": {...}}`."""
        kind = _ERROR_TYPES.get(refusal.status)
        if kind is None:
            kind = "invalid_request_error" if refusal.status < 500 else "api_error"
        return encode({"type": "error", "error": {"type": kind, "message": str(refusal)}})


class _MessageStream(Stream):
    def __init__(self, call: Call, outcome: Outcome) -> None:
        self._call, self._outcome = call, outcome
        delta = {"type": "text_delta", "text": TokenEvent.place()}
        if call.tool is not None:
            delta = {"type": "input_json_delta", "partial_json": TokenEvent.place()}
        self._token = TokenEvent(
            {"type": "content_block_delta", "index": 0, "delta": delta},
            before=b"event: content_block_delta\ndata: ",
            after=b"\n\n",
        )

    def opening(self) -> bytes:
        call, outcome = self._call, self._outcome
        message = {
            **envelope(call, outcome),
            "content": [],
            "stop_reason": None,
            "usage": usage(outcome, output_tokens=0),
        }
        block: dict[str, object] = {"type": "text", "text": ""}
        if call.tool is not None:
            block = {**_tool_block(call.tool, outcome), "input": {}}
        return named_event({"type": "message_start", "message": message}) + named_event(
            {"type": "content_block_start", "index": 0, "content_block": block}
        )

    def token(self, token: str) -> bytes:
        return self._token.with_token(token)

    def closing(self) -> bytes:
        stopped = {"stop_reason": _STOP_REASONS[self._outcome.finish], "stop_sequence": None}
        spent = {"output_tokens": self._outcome.output_tokens}
        return (
            named_event({"type": "content_block_stop", "index": 0})
            + named_event({"type": "message_delta", "delta": stopped, "usage": spent})
            + named_event({"type": "message_stop"})
        )


def envelope(call: Call, outcome: Outcome) -> dict[str, object]:
    """What a whole message and the start of a streamed one share."""
    return {
        "id": f"msg_{outcome.number}",
        "type": "message",
        "role": "assistant",
        "model": call.model,
        "stop_sequence": None,
    }


def usage(outcome: Outcome, *, output_tokens: int | None = None) -> dict[str, int]:
    """Anthropic's token counts, in which input tokens are the uncached ones only."""
    return {
        "cache_read_input_tokens": outcome.cached_tokens,
        "input_tokens": outcome.prompt_tokens - outcome.cached_tokens,
        "output_tokens": outcome.output_tokens if output_tokens is None else output_tokens,
    }


def _tool_block(tool: str, outcome: Outcome) -> dict[str, object]:
    return {"type": "tool_use", "id": f"toolu_{outcome.number}", "name": tool}


def _wanted_tool(tools: list[Any], choice: object) -> str | None:
    match choice:
        case {"type": "tool", "name": str(name)}:
            return name
        case {"type": "any"}:
            names = [tool["name"] for tool in tools if isinstance(tool, dict) and "name" in tool]
            return str(names[0]) if names else None
    return None
