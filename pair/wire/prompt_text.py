"""The text of a prompt, put together from whatever fields its dialect has for it.

Separate from its fingerprints (`prompt_reader.py`): this knows the dialects. Not what an engine's
template makes of it, but in the same order (tools, system, messages), and different wherever that
would be different. Above all it is stable: the next turn of a conversation begins with the same
text, so what clients move from turn to turn (`cache_control`) and what templates leave out later on
(thinking) is not in it.

A part is marked with its role before its text and with its length after it: not before, since
siblings share the beginning of a message whose end differs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec
from msgspec import Raw, Struct

MEDIA_CHARS = 3072
"""Characters that a picture or a sound counts as: 768 tokens, between what the usual models make of
one (256 to 1,500)."""

MEDIA_WHOLE_CHARS = 65_536
"""Of a picture so much is looked at, whole if it has no more, else in samples: looking at all of 10
MiB takes 4 ms, and compressed pictures that differ, differ nearly everywhere."""

PIECES_LIMIT = 20_000
"""Most pieces of text and marks that are put together, 10 ms of work; a message has 3 to 10."""

REWRITTEN_LIMIT_BYTES = 256 * 1024
"""Longest definitions of tools that are written anew to leave marks out, 3 ms of work; those of
agents have 20 to 80 kB. Longer ones are taken as they are: if a mark moves in them, the prompt
looks new."""

_SAMPLES = 16

_DEPTH_LIMIT = 8
"""Parts within parts; a tool's answer with pictures has three."""

_PASSING = ("thinking", "redacted_thinking", "reasoning")
"""Parts that templates leave out once the answer is over."""

_MEDIA_FIELDS = (
    "image_url",
    "source",
    "input_audio",
    "audio_url",
    "video_url",
    "file",
    "file_data",
    "image",
    "audio",
    "video",
)

_UNTOLD_KEYS = frozenset(("cache_control", "signature"))
"""What is for engines and not for models."""


_NONE = Raw(b"null")
_NO_TOOLS = (_NONE, Raw(b"[]"))


class Fields(Struct, gc=False):
    """The fields of all dialects that hold text which a model reads."""

    tools: Raw = _NONE
    functions: Raw = _NONE
    system: Any = None
    instructions: Any = None
    messages: Any = None
    input: Any = None
    input_extra: Any = None
    input_prefix: Any = None
    prompt: Any = None
    text: Any = None
    suffix: Any = None
    input_suffix: Any = None
    images: Any = None
    image_data: Any = None
    context: Any = None


def render(fields: Fields) -> str:
    """All text that the model reads, in a canonical form; empty where there is none. What is in
    more than `PIECES_LIMIT` pieces is cut there.
    """
    return "".join(islice(_pieces(fields), PIECES_LIMIT))


def _pieces(fields: Fields) -> Iterator[str]:
    for raw in (fields.tools, fields.functions):
        if raw not in _NO_TOOLS:
            yield from _marked("tools", (_tools(bytes(raw)),))
    for value in (fields.system, fields.instructions):
        if value:
            yield from _marked("system", _content(value))
    for media in (fields.images, fields.image_data):
        if isinstance(media, list):
            yield from (_media(one) for one in media)
    if isinstance(fields.context, list):
        yield from _content(fields.context)
    for turns in (fields.messages, fields.input):
        if isinstance(turns, list):
            for turn in turns:
                yield from _turn(turn)
        elif turns:  # the Responses API's short form of one message
            yield from _marked("user", _content(turns))
    if isinstance(fields.input_extra, list):
        for file in fields.input_extra:
            yield from _turn(file)
    texts = [fields.input_prefix, fields.prompt]
    if isinstance(fields.text, str) and fields.messages is None and fields.input is None:
        texts.append(fields.text)  # SGLang's; elsewhere it is a format, or nothing
    for value in texts:
        if value:
            yield from _content(value)
    for value in (fields.suffix, fields.input_suffix):
        if value:
            yield from _marked("suffix", _content(value))


def _marked(role: str, pieces: Iterable[str]) -> Iterator[str]:
    """A part with its marks. With the length at its end no two lists of parts read the same."""
    length = 0
    yield f"\x01{role}\x02"
    for piece in pieces:
        length += len(piece)
        yield piece
    yield f"\x03{len(role)}.{length}\x04"


def _turn(turn: object) -> Iterator[str]:
    """One message, or one item of the Responses API; a bare text or number for old completions."""
    if not isinstance(turn, dict):
        yield from _marked("", _content(turn))
        return
    kind = turn.get("type")
    if kind in _PASSING:
        return
    role = turn.get("role", kind)
    pieces = _content(turn.get("content")) if "content" in turn else _part(turn)
    yield from _marked(role if isinstance(role, str) else "", pieces)
    calls = turn.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        yield from _marked("call", _call(call))
    if turn.get("function_call"):
        yield from _marked("call", _call(turn))
    if isinstance(media := turn.get("images"), list):
        yield from (_media(one) for one in media)


def _content(content: object, depth: int = 0) -> Iterator[str]:
    """Text, parts of it, or the numbers of tokens."""
    if isinstance(content, str):
        yield content
    elif depth >= _DEPTH_LIMIT:
        yield _json(content)
    elif isinstance(content, dict):
        yield from _part(content, depth + 1)
    elif isinstance(content, list) and content and not isinstance(content[0], int):
        for part in content:
            if isinstance(part, dict):
                yield from _part(part, depth + 1)
            else:
                yield from _marked("", _content(part, depth + 1))
    elif content is not None:  # numbers of tokens: about as long as the text of so many
        yield _encoded(content)


def _part(part: dict[str, Any], depth: int = 0) -> Iterator[str]:
    """A part of a message: text, a call of a tool, its answer, a picture, or what else there is."""
    kind = part.get("type")
    if kind in _PASSING:
        return
    if isinstance(text := part.get("text"), str):
        # Text of a message without any other part reads the same as the text alone.
        yield text
        return
    name = kind if isinstance(kind, str) else ""
    if "content" in part:
        yield from _marked(name, _content(part["content"], depth))
    elif "output" in part:
        yield from _marked(name, _content(part["output"], depth))
    elif "name" in part:
        yield from _marked(name, _call(part))
    else:
        for field in _MEDIA_FIELDS:
            if field in part:
                media = part[field]
                if isinstance(media, dict) and media.get("type") == "text":
                    yield from _marked(name, _content(media.get("data")))
                else:
                    yield _media(media)
                return
        yield from _marked(name, (_json(part),))


def _call(call: object) -> Iterator[str]:
    """A call of a tool in any dialect: what it is called and what with, not the number it has."""
    if not isinstance(call, dict):
        yield _json(call)
        return
    inner = call.get("function") or call.get("function_call")
    for field in ("name", "arguments", "input"):
        value = (inner if isinstance(inner, dict) else call).get(field)
        if value is not None:
            yield from _marked(field, (value if isinstance(value, str) else _json(value),))


def _media(media: object) -> str:
    """A picture, a sound or a file, by a digest of its content."""
    texts = [media] if isinstance(media, str) else _texts(media)
    digest = 0
    for text in texts:
        if len(text) <= MEDIA_WHOLE_CHARS:
            digest = hash((digest, text))
            continue
        step, size = len(text) // _SAMPLES, MEDIA_WHOLE_CHARS // _SAMPLES
        samples = "".join(text[at * step : at * step + size] for at in range(_SAMPLES))
        digest = hash((digest, len(text), samples, text[-size:]))
    return f"\x05{digest:x}\x06".ljust(MEDIA_CHARS)


def _texts(value: object) -> list[str]:
    """The texts directly in an object, such as the type and the content of a picture."""
    if isinstance(value, dict):
        return [one for one in value.values() if isinstance(one, str)] or [_json(value)]
    return [_json(value)]


def _tools(raw: bytes) -> str:
    """Definitions of tools as the client has written them, without the marks that move."""
    if len(raw) <= REWRITTEN_LIMIT_BYTES and any(key.encode() in raw for key in _UNTOLD_KEYS):
        return _json(msgspec.json.decode(raw))
    return raw.decode("utf-8", "replace")


def _json(value: object) -> str:
    """Any other value, without what is not for models."""
    return _encoded(_told(value))


def _encoded(value: object) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (ValueError, OverflowError):  # half a character, or a number of more than 64 bits
        return json.dumps(value)


def _told(value: object) -> object:
    if isinstance(value, dict):
        return {key: _told(one) for key, one in value.items() if key not in _UNTOLD_KEYS}
    if isinstance(value, list):
        return [_told(one) for one in value]
    return value
