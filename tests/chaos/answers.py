"""What a call sends in each dialect, and what its answer says: text, a clean end, an error.

The echo engine's answer is known beforehand: the last message's words, which begin with the mark.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pair.bench.echo_engine.tokenizer import echoed
from tests.chaos.plan import ApiName, CallPlan

PATHS: dict[ApiName, str] = {
    "openai": "/v1/chat/completions",
    "anthropic": "/v1/messages",
    "ollama": "/api/chat",
}


def words(plan: CallPlan) -> str:
    """The last message."""
    return f"{plan.mark} says that this is its own answer and nobody else's"


def expected(plan: CallPlan) -> str:
    """The whole answer."""
    return echoed(words(plan), plan.tokens)


def request_body(plan: CallPlan) -> dict[str, Any]:
    """The request in the call's dialect."""
    padding = f"{plan.mark} " + "x" * plan.padding_chars
    asked: dict[str, Any] = {"model": "echo", "stream": plan.streamed}
    messages = [{"role": "user", "content": words(plan)}]
    if plan.api == "anthropic":
        return {**asked, "system": padding, "messages": messages, "max_tokens": plan.tokens}
    messages.insert(0, {"role": "system", "content": padding})
    if plan.api == "ollama":
        options = {"num_predict": plan.tokens}
        return {**asked, "model": "echo-local", "messages": messages, "options": options}
    return {**asked, "messages": messages, "max_tokens": plan.tokens}


@dataclass(slots=True)
class Said:
    """What an answer's body says.

    Attributes:
        ended: it carries its dialect's sign of a regular end.
        error: the message of an error in it.
        readable: false if a line that should be JSON is not.
    """

    text: str = ""
    ended: bool = False
    error: str = ""
    readable: bool = True


def read_answer(api: ApiName, streamed: bool, body: bytes) -> Said:
    """Read a body, whole or not; an unfinished last line is left out."""
    said = Said()
    if not streamed:
        try:
            _hear(api, json.loads(body), said, "message")
            said.ended = not said.error
        except ValueError:
            said.readable = False
        return said
    mark = b"" if api == "ollama" else b"data: "
    lines = body.split(b"\n")[:-1]
    for line in (each.removeprefix(mark) for each in lines if each.startswith(mark)):
        if line == b"[DONE]":
            said.ended = True
        elif line:
            try:
                _hear(api, json.loads(line), said, "delta")
            except ValueError:
                said.readable = False
    return said


def _hear(api: ApiName, event: Any, said: Said, part: str) -> None:
    if "error" in event:
        said.error = json.dumps(event["error"])
        return
    match api:
        case "openai":
            for choice in event["choices"]:
                said.text += choice[part].get("content") or ""
        case "ollama":
            said.text += event["message"]["content"]
            said.ended = said.ended or event["done"]
        case "anthropic" if part == "message":
            said.text += "".join(block["text"] for block in event["content"])
        case "anthropic":
            if event["type"] == "content_block_delta":
                said.text += event["delta"]["text"]
            said.ended = said.ended or event["type"] == "message_stop"
