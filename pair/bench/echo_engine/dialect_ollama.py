"""Ollama's own chat, generate and embed: lines of JSON, streamed unless told not to be."""

from __future__ import annotations

import datetime as dt
from abc import abstractmethod
from typing import Any

import msgspec

from pair.bench.echo_engine import tokenizer
from pair.bench.echo_engine.dialect import Dialect, Stream, TokenEvent, decode, encode
from pair.bench.echo_engine.dialect_openai import Message, vector
from pair.bench.echo_engine.generation import Call, Outcome, Refusal


class _Options(msgspec.Struct, frozen=True):
    num_predict: int | None = None

    def length(self) -> int | None:
        """Ollama means "no limit" by a negative number; here that is the default length."""
        return self.num_predict if self.num_predict is not None and self.num_predict > 0 else None


class _ChatBody(msgspec.Struct):
    model: str
    messages: list[Message] = []
    stream: bool | None = None
    options: _Options = _Options()
    tools: list[Any] | None = None


class _GenerateBody(msgspec.Struct):
    model: str
    prompt: str = ""
    system: str = ""
    stream: bool | None = None
    options: _Options = _Options()


class _EmbedBody(msgspec.Struct):
    model: str
    input: str | list[str] = ""


class OllamaDialect(Dialect):
    """What Ollama's paths share: lines, the last one with the counts (durations in ns), errors."""

    stream_type = "application/x-ndjson"

    @abstractmethod
    def words(self, text: str) -> dict[str, object]:
        """The part of a line that holds text of the answer."""

    def line(self, call: Call, outcome: Outcome, text: str, *, done: bool) -> dict[str, object]:
        """One line of a stream, or the whole answer."""
        line = {"model": call.model, "created_at": _timestamp(outcome), **self.words(text)}
        if not done:
            return {**line, "done": False}
        spent_s = outcome.queue_s + outcome.load_s + outcome.prefill_s + outcome.decode_s
        return {
            **line,
            "done": True,
            "done_reason": outcome.finish,
            "total_duration": int(spent_s * 1e9),
            "load_duration": int(outcome.load_s * 1e9),
            "prompt_eval_count": outcome.prompt_tokens,
            "prompt_eval_duration": int(outcome.prefill_s * 1e9),
            "eval_count": outcome.output_tokens,
            "eval_duration": int(outcome.decode_s * 1e9),
        }

    def whole(self, call: Call, outcome: Outcome) -> bytes:
        return encode(self.line(call, outcome, outcome.text, done=True))

    def stream(self, call: Call, outcome: Outcome) -> Stream:
        return _LineStream(self, call, outcome)

    def refusal(self, refusal: Refusal) -> bytes:
        """`{"error": "..."}`."""
        return encode({"error": str(refusal)})


class _LineStream(Stream):
    def __init__(self, dialect: OllamaDialect, call: Call, outcome: Outcome) -> None:
        self._dialect, self._call, self._outcome = dialect, call, outcome
        line = dialect.line(call, outcome, TokenEvent.place(), done=False)
        self._token = TokenEvent(line, before=b"", after=b"\n")

    def opening(self) -> bytes:
        return b""

    def token(self, token: str) -> bytes:
        return self._token.with_token(token)

    def closing(self) -> bytes:
        return encode(self._dialect.line(self._call, self._outcome, "", done=True)) + b"\n"


class OllamaChat(OllamaDialect):
    """/api/chat."""

    def read(self, body: bytes) -> Call:
        asked = decode(body, _ChatBody)
        messages = [message.spoken() for message in asked.messages]
        return Call(
            model=asked.model,
            prompt=tokenizer.render(messages, asked.tools or ()),
            words=messages[-1][1] if messages else "",
            answer_tokens=asked.options.length(),
            stream=asked.stream is not False,
        )

    def words(self, text: str) -> dict[str, object]:
        return {"message": {"role": "assistant", "content": text}}


class OllamaGenerate(OllamaDialect):
    """/api/generate."""

    def read(self, body: bytes) -> Call:
        asked = decode(body, _GenerateBody)
        messages = [("system", asked.system)] if asked.system else []
        return Call(
            model=asked.model,
            prompt=tokenizer.render([*messages, ("user", asked.prompt)]),
            words=asked.prompt,
            answer_tokens=asked.options.length(),
            stream=asked.stream is not False,
        )

    def words(self, text: str) -> dict[str, object]:
        return {"response": text}


class OllamaEmbed(OllamaDialect):
    """/api/embed."""

    def read(self, body: bytes) -> Call:
        asked = decode(body, _EmbedBody)
        parts = (asked.input,) if isinstance(asked.input, str) else tuple(asked.input)
        prompt = "".join(tokenizer.whole_tokens(part) for part in parts)
        return Call(model=asked.model, prompt=prompt, answer_tokens=0, parts=parts)

    def words(self, text: str) -> dict[str, object]:
        return {}

    def whole(self, call: Call, outcome: Outcome) -> bytes:
        spent_s = outcome.queue_s + outcome.load_s + outcome.prefill_s
        return encode(
            {
                "model": call.model,
                "embeddings": [vector(part) for part in call.parts],
                "total_duration": int(spent_s * 1e9),
                "load_duration": int(outcome.load_s * 1e9),
                "prompt_eval_count": outcome.prompt_tokens,
            }
        )


def _timestamp(outcome: Outcome) -> str:
    when = dt.datetime.fromtimestamp(outcome.created_s, dt.UTC)
    return when.isoformat().replace("+00:00", "Z")
