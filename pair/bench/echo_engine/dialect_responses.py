"""OpenAI's responses, as Codex and the agents SDK speak them: text in, one message of text out."""

from __future__ import annotations

from typing import Any

import msgspec

from pair.bench.echo_engine import tokenizer
from pair.bench.echo_engine.dialect import (
    Stream,
    TokenEvent,
    checked_length,
    decode,
    encode,
    named_event,
)
from pair.bench.echo_engine.dialect_openai import OpenAIDialect
from pair.bench.echo_engine.generation import Call, Outcome


class _ResponsesBody(msgspec.Struct):
    input: str | list[dict[str, Any]]
    model: str = ""
    instructions: str | None = None
    stream: bool | None = None
    max_output_tokens: int | None = None
    tools: list[Any] | None = None


class OpenAIResponses(OpenAIDialect):
    """/v1/responses."""

    def read(self, body: bytes) -> Call:
        asked = decode(body, _ResponsesBody)
        messages = [("system", asked.instructions)] if asked.instructions else []
        if isinstance(asked.input, str):
            messages.append(("user", asked.input))
        else:
            messages.extend(_spoken(item) for item in asked.input)
        return Call(
            model=asked.model,
            prompt=tokenizer.render(messages, asked.tools or ()),
            words=messages[-1][1] if messages else "",
            answer_tokens=checked_length(asked.max_output_tokens),
            stream=bool(asked.stream),
        )

    def whole(self, call: Call, outcome: Outcome) -> bytes:
        return encode(response(call, outcome, finished=True))

    def stream(self, call: Call, outcome: Outcome) -> Stream:
        return _ResponseStream(call, outcome)


class _ResponseStream(Stream):
    def __init__(self, call: Call, outcome: Outcome) -> None:
        self._call, self._outcome = call, outcome
        self._place = {"item_id": f"msg_{outcome.number}", "output_index": 0, "content_index": 0}
        delta = {"type": "response.output_text.delta", **self._place, "delta": TokenEvent.place()}
        self._token = TokenEvent(
            delta, before=b"event: response.output_text.delta\ndata: ", after=b"\n\n"
        )

    def opening(self) -> bytes:
        begun = response(self._call, self._outcome, finished=False)
        item = {**_item(self._outcome, finished=False), "content": []}
        events: list[dict[str, object]] = [
            {"type": "response.created", "response": begun},
            {"type": "response.in_progress", "response": begun},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.content_part.added", **self._place, "part": _part("")},
        ]
        return b"".join(named_event(event) for event in events)

    def token(self, token: str) -> bytes:
        return self._token.with_token(token)

    def closing(self) -> bytes:
        outcome = self._outcome
        item = _item(outcome, finished=True)
        ended = response(self._call, outcome, finished=True)
        events: list[dict[str, object]] = [
            {"type": "response.output_text.done", **self._place, "text": outcome.text},
            {"type": "response.content_part.done", **self._place, "part": _part(outcome.text)},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": f"response.{ended['status']}", "response": ended},
        ]
        return b"".join(named_event(event) for event in events)


def response(call: Call, outcome: Outcome, *, finished: bool) -> dict[str, object]:
    """The response object, as it stands at the beginning or at the end."""
    shown: dict[str, object] = {
        "id": f"resp_{outcome.number}",
        "object": "response",
        "created_at": int(outcome.created_s),
        "model": call.model,
        "status": "in_progress",
        "output": [],
    }
    if not finished:
        return shown
    shown["status"] = "completed"
    if outcome.finish == "length":
        shown["status"] = "incomplete"
        shown["incomplete_details"] = {"reason": "max_output_tokens"}
    shown["output"] = [_item(outcome, finished=True)]
    shown["usage"] = {
        "input_tokens": outcome.prompt_tokens,
        "input_tokens_details": {"cached_tokens": outcome.cached_tokens},
        "output_tokens": outcome.output_tokens,
        "total_tokens": outcome.prompt_tokens + outcome.output_tokens,
    }
    return shown


def _item(outcome: Outcome, *, finished: bool) -> dict[str, object]:
    return {
        "id": f"msg_{outcome.number}",
        "type": "message",
        "role": "assistant",
        "status": "completed" if finished else "in_progress",
        "content": [_part(outcome.text)],
    }


def _part(text: str) -> dict[str, object]:
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}


def _spoken(item: dict[str, Any]) -> tuple[str, str]:
    """A message, or another item (a tool call, its result) under the name of its type."""
    role = item.get("role") or item.get("type")
    content = item.get("content", item)
    return str(role), tokenizer.text_of(content)
