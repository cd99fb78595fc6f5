"""OpenAI's chat completions, completions and embeddings, and llama.cpp's additions to them."""

from __future__ import annotations

import base64
import hashlib
import struct
from typing import Any, Literal

import msgspec

from pair.bench.echo_engine import tokenizer
from pair.bench.echo_engine.dialect import (
    Dialect,
    Stream,
    TokenEvent,
    checked_length,
    decode,
    encode,
    plain_event,
    timings,
)
from pair.bench.echo_engine.generation import Call, Outcome, Refusal

# Enough to compare vectors by eye; a multiple of what one SHA-256 yields.
_VECTOR_LENGTH = 32
_DONE = b"data: [DONE]\n\n"
_ERROR_TYPES = {
    401: "authentication_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "server_error",
    502: "server_error",
    503: "unavailable_error",
}


class Message(msgspec.Struct):
    """A message of a chat; tool calls are part of what was said."""

    role: str
    content: Any = None
    tool_calls: Any = None

    def spoken(self) -> tuple[str, str]:
        """Role and text."""
        return self.role, tokenizer.text_of(self.content) + tokenizer.text_of(self.tool_calls)


class _StreamOptions(msgspec.Struct):
    include_usage: bool = False


class _ChatBody(msgspec.Struct):
    messages: list[Message]
    model: str = ""
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    tools: list[Any] | None = None
    tool_choice: Any = None


class _CompletionBody(msgspec.Struct):
    prompt: str | list[Any]
    model: str = ""
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    max_tokens: int | None = None


class _EmbeddingBody(msgspec.Struct):
    input: str | list[Any]
    model: str = ""
    encoding_format: Literal["float", "base64"] = "float"


class OpenAIDialect(Dialect):
    """What the OpenAI paths share: usage and errors.

    Args:
        llamacpp: with `timings` in answers and errors of llama.cpp's shape.
    """

    def __init__(self, *, llamacpp: bool) -> None:
        self.llamacpp = llamacpp

    def refusal(self, refusal: Refusal) -> bytes:
        """`{"error": {...}}`; the code is a number with llama.cpp, a word elsewhere."""
        kind = _ERROR_TYPES.get(refusal.status, "invalid_request_error")
        if refusal.kind == "context_exceeded" and self.llamacpp:
            kind = "exceed_context_size_error"
        error: dict[str, object] = {"message": str(refusal), "type": kind}
        if self.llamacpp:
            error["code"] = refusal.status
        else:
            error["param"] = "model" if refusal.kind == "model_not_found" else None
            error["code"] = refusal.kind
        return encode({"error": error})

    def account(self, outcome: Outcome) -> dict[str, object]:
        """The counts at the end of an answer."""
        account: dict[str, object] = {"usage": usage(outcome)}
        if self.llamacpp:
            account["timings"] = timings(outcome)
        return account


class OpenAIChat(OpenAIDialect):
    """/v1/chat/completions."""

    def read(self, body: bytes) -> Call:
        """`tool_choice` "required" or a named function makes the answer a call of that tool."""
        asked = decode(body, _ChatBody)
        messages = [message.spoken() for message in asked.messages]
        length = asked.max_completion_tokens
        return Call(
            model=asked.model,
            prompt=tokenizer.render(messages, asked.tools or ()),
            words=messages[-1][1] if messages else "",
            answer_tokens=checked_length(asked.max_tokens if length is None else length),
            stream=bool(asked.stream),
            usage_asked=bool(asked.stream_options and asked.stream_options.include_usage),
            tool=_wanted_tool(asked.tools or [], asked.tool_choice),
        )

    def whole(self, call: Call, outcome: Outcome) -> bytes:
        message: dict[str, object] = {"role": "assistant", "content": outcome.text}
        if call.tool is not None:
            function = {"name": call.tool, "arguments": outcome.text}
            message["content"] = None
            message["tool_calls"] = [
                {"id": f"call_{outcome.number}", "type": "function", "function": function}
            ]
        choice = {"finish_reason": finish_reason(outcome), "index": 0, "message": message}
        return encode(
            {
                "choices": [choice],
                "created": int(outcome.created_s),
                "model": call.model,
                "object": "chat.completion",
                "id": f"chatcmpl-{outcome.number}",
                **self.account(outcome),
            }
        )

    def stream(self, call: Call, outcome: Outcome) -> Stream:
        return _ChatStream(self, call, outcome)


class _ChatStream(Stream):
    def __init__(self, dialect: OpenAIChat, call: Call, outcome: Outcome) -> None:
        self._dialect, self._call, self._outcome = dialect, call, outcome
        self._frame = {
            "created": int(outcome.created_s),
            "id": f"chatcmpl-{outcome.number}",
            "model": call.model,
            "object": "chat.completion.chunk",
        }
        delta: dict[str, object] = {"content": TokenEvent.place()}
        if call.tool is not None:
            delta = {"tool_calls": [{"index": 0, "function": {"arguments": TokenEvent.place()}}]}
        self._token = TokenEvent(self._chunk(delta), before=b"data: ", after=b"\n\n")

    def _chunk(self, delta: dict[str, object], finish: str | None = None) -> dict[str, object]:
        return {
            "choices": [{"finish_reason": finish, "index": 0, "delta": delta}],
            **self._frame,
        }

    def opening(self) -> bytes:
        delta: dict[str, object] = {"role": "assistant", "content": None}
        if self._call.tool is not None:
            function = {"name": self._call.tool, "arguments": ""}
            delta["tool_calls"] = [
                {
                    "index": 0,
                    "id": f"call_{self._outcome.number}",
                    "type": "function",
                    "function": function,
                }
            ]
        return plain_event(self._chunk(delta))

    def token(self, token: str) -> bytes:
        return self._token.with_token(token)

    def closing(self) -> bytes:
        last = self._chunk({}, finish_reason(self._outcome))
        account = self._dialect.account(self._outcome)
        if self._call.usage_asked:
            return (
                plain_event(last) + plain_event({"choices": [], **self._frame, **account}) + _DONE
            )
        if self._dialect.llamacpp:
            last["timings"] = account["timings"]
        return plain_event(last) + _DONE


class OpenAICompletion(OpenAIDialect):
    """/v1/completions."""

    def read(self, body: bytes) -> Call:
        asked = decode(body, _CompletionBody)
        parts = _texts(asked.prompt)
        if len(parts) != 1:
            raise Refusal(400, "invalid_request", "This engine takes one prompt at a time.")
        return Call(
            model=asked.model,
            prompt=tokenizer.whole_tokens(parts[0]),
            words=parts[0],
            answer_tokens=checked_length(asked.max_tokens),
            stream=bool(asked.stream),
            usage_asked=bool(asked.stream_options and asked.stream_options.include_usage),
        )

    def whole(self, call: Call, outcome: Outcome) -> bytes:
        chunk = self.chunk(call, outcome, outcome.text, finish_reason(outcome))
        return encode({**chunk, **self.account(outcome)})

    def stream(self, call: Call, outcome: Outcome) -> Stream:
        return _CompletionStream(self, call, outcome)

    def chunk(
        self, call: Call, outcome: Outcome, text: str, finish: str | None
    ) -> dict[str, object]:
        """An answer or a part of one."""
        return {
            "choices": [{"text": text, "index": 0, "logprobs": None, "finish_reason": finish}],
            "created": int(outcome.created_s),
            "model": call.model,
            "object": "text_completion",
            "id": f"cmpl-{outcome.number}",
        }


class _CompletionStream(Stream):
    def __init__(self, dialect: OpenAICompletion, call: Call, outcome: Outcome) -> None:
        self._dialect, self._call, self._outcome = dialect, call, outcome
        chunk = dialect.chunk(call, outcome, TokenEvent.place(), None)
        self._token = TokenEvent(chunk, before=b"data: ", after=b"\n\n")

    def opening(self) -> bytes:
        return b""

    def token(self, token: str) -> bytes:
        return self._token.with_token(token)

    def closing(self) -> bytes:
        outcome = self._outcome
        last = self._dialect.chunk(self._call, outcome, "", finish_reason(outcome))
        if self._dialect.llamacpp or self._call.usage_asked:
            last |= self._dialect.account(outcome)
        return plain_event(last) + _DONE


class OpenAIEmbeddings(OpenAIDialect):
    """/v1/embeddings: a unit vector for each input, the same for the same text."""

    def read(self, body: bytes) -> Call:
        asked = decode(body, _EmbeddingBody)
        parts = tuple(_texts(asked.input))
        if not parts:
            raise Refusal(400, "invalid_request", "There is no input to embed.")
        return Call(
            model=asked.model,
            prompt="".join(tokenizer.whole_tokens(part) for part in parts),
            answer_tokens=0,
            parts=parts,
            packed=asked.encoding_format == "base64",
        )

    def whole(self, call: Call, outcome: Outcome) -> bytes:
        rows = [
            {
                "object": "embedding",
                "index": index,
                "embedding": _base64(vector(part)) if call.packed else vector(part),
            }
            for index, part in enumerate(call.parts)
        ]
        spent = {"prompt_tokens": outcome.prompt_tokens, "total_tokens": outcome.prompt_tokens}
        return encode({"object": "list", "data": rows, "model": call.model, "usage": spent})

    def stream(self, call: Call, outcome: Outcome) -> Stream:
        raise AssertionError("embeddings are never streamed")


def usage(outcome: Outcome) -> dict[str, object]:
    """OpenAI's token counts."""
    return {
        "completion_tokens": outcome.output_tokens,
        "prompt_tokens": outcome.prompt_tokens,
        "total_tokens": outcome.prompt_tokens + outcome.output_tokens,
        "prompt_tokens_details": {"cached_tokens": outcome.cached_tokens},
    }


def finish_reason(outcome: Outcome) -> str:
    """OpenAI's word for why an answer ended."""
    return "tool_calls" if outcome.finish == "tool" else outcome.finish


def vector(text: str) -> list[float]:
    """A vector of length 1 that depends on nothing but the text."""
    digest = hashlib.sha256(text.encode()).digest()
    centred = [byte - 127.5 for byte in digest[:_VECTOR_LENGTH]]
    length = sum(value * value for value in centred) ** 0.5
    return [value / length for value in centred]


def _base64(values: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()


def _wanted_tool(tools: list[Any], choice: object) -> str | None:
    names = [name for tool in tools if (name := _tool_name(tool))]
    match choice:
        case "required" if names:
            return names[0]
        case {"type": "function", "function": {"name": str(name)}}:
            return name
    return None


def _tool_name(tool: object) -> str:
    match tool:
        case {"function": {"name": str(name)}} | {"name": str(name)}:
            return name
    return ""


def _texts(given: str | list[Any]) -> list[str]:
    """The texts of a prompt or input: one or several, as text or as token ids."""
    if isinstance(given, str):
        return [given]
    if given and all(isinstance(part, int) for part in given):
        return [tokenizer.text_of_ids(given)]
    return [_text(part) for part in given]


def _text(part: object) -> str:
    match part:
        case str():
            return part
        case list() if all(isinstance(number, int) for number in part):
            return tokenizer.text_of_ids(part)
    raise Refusal(400, "invalid_request", "A prompt is a text, a list of texts or of token ids.")
