"""What dispatch wants to know of a prompt: its length, its beginning, how long the answer may be.

Separate from `request_peek.py`, which every request needs: this is for generations only, and only a
help. What cannot be read is an unknown prompt, never an error; whether a body is right, others say.

The fingerprints are Python's own hash of text, chained: four times as fast as any of hashlib's, of
64 bits, and keyed at random when the process starts, so nobody can make two texts that look alike.
They mean nothing outside of this process.

Measured 2026-11-30 on the shared 2-core test machine, CPU time: 11 us for a body of
1 kB, 81 us for 48 kB (87 us for an agent's with 30 tools, 0.2 ms where these carry `cache_control`
and must be written anew), 1.0 ms for a MiB of messages, 5 ms for 10 MiB of pictures, 11 ms for the
largest that is read. The worst bodies that the limits let through take 20 to 60 ms, numbers of
more than 64 bits by the hundred thousand twice as long.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from msgspec import DecodeError, Raw
from msgspec.json import Decoder

from pair.core.prompt import NO_PROMPT, Prompt, block_end, whole_blocks
from pair.errors import RequestFault
from pair.wire.prompt_text import Fields, render
from pair.wire.request_peek import TOLERANT_LIMIT_BYTES, unpacked

PROMPT_LIMIT_BYTES = 16 * 1024 * 1024
"""Largest body that is read for its prompt: 4 million tokens of text, or 40 photographs. A larger
one is dispatched as a prompt of which nothing is known."""

OBJECTS_LIMIT = 50_000
VALUES_LIMIT = 500_000
"""Most opening brackets of both kinds, and commas, in such a body: with more it may be millions of
tiny values, each of which costs as much as a page of text. A MiB of program text has a third."""

STRINGS_LIMIT = 100_000
"""Most strings, keys among them, in a body with as many commas: objects of that many keys that
differ are the dearest of all. A conversation of 5,000 messages has a third."""

COUNTED_FROM_BYTES = 64 * 1024
"""A smaller body can be no worse than 10 ms, and counting costs more than reading most of them."""

_START_BYTES = 64
_BEFORE_JSON = b"\xef\xbb\xbf \t\r\n"
"""Space, and the byte order mark that some Windows tools put there."""

OUTPUT_LIMIT_TOKENS = 10**9
"""A limit above this is none."""

_READ_ONCE = ("embed", "rerank", "score", "classify", "pooling", "transcriptions", "/encode")
"""In paths of engines that read a text and keep nothing of it."""


class _Request(Fields, gc=False):
    """With the fields that are not text."""

    model: Any = None
    lora: Any = None
    lora_path: Any = None
    lora_name: Any = None
    adapter: Any = None
    cache_salt: Any = None
    cache_prompt: Any = None
    max_tokens: Any = None
    max_completion_tokens: Any = None
    max_output_tokens: Any = None
    n_predict: Any = None
    options: Any = None
    sampling_params: Any = None

    def root(self) -> int:
        """What the first fingerprint is chained to: another model or adapter computes other values
        for the same text.
        """
        adapter = (self.lora, self.lora_path, self.lora_name, self.adapter, self.cache_salt)
        return hash((repr(self.model), repr(adapter) if any(adapter) else ""))

    def output_limit_tokens(self) -> int | None:
        """The longest answer that is wanted; Ollama and SGLang have theirs in an object."""
        inner = [one for one in (self.options, self.sampling_params) if isinstance(one, dict)]
        limits = (
            self.max_completion_tokens,
            self.max_tokens,
            self.max_output_tokens,
            self.n_predict,
            *(one.get(name) for one in inner for name in ("num_predict", "max_new_tokens")),
        )
        usable = [one for one in limits if type(one) is int and 0 < one <= OUTPUT_LIMIT_TOKENS]
        return min(usable, default=None)


_decoder = Decoder(_Request)


def read_prompt(
    path: str, pieces: Sequence[bytes], content_encoding: bytes | None = None
) -> Prompt:
    """What is known of the prompt in the body of a generation; `NO_PROMPT` where it is unreadable,
    in whatever way, or too large.
    """
    if not 0 < sum(map(len, pieces)) <= PROMPT_LIMIT_BYTES:
        return NO_PROMPT
    try:
        body = unpacked(pieces, (content_encoding or b"").strip().lower(), known=True)
        if body is None or _not_for_us(body):
            return NO_PROMPT
        request = _decode(body)
        text = render(request)
        once = request.cache_prompt is False or any(word in path for word in _READ_ONCE)
        return Prompt(
            len(text),
            () if once else fingerprints(text, request.root()),
            request.output_limit_tokens(),
        )
    except (RequestFault, DecodeError, RecursionError, ValueError):
        return NO_PROMPT


def fingerprints(text: str, root: int) -> tuple[int, ...]:
    """One for each whole block of the text, each chained to the one before and so to the root."""
    chained, start = root, 0
    found = []
    for blocks in range(1, whole_blocks(len(text)) + 1):
        end = block_end(blocks)
        chained = hash((chained, text[start:end]))
        found.append(chained)
        start = end
    return tuple(found)


def _not_for_us(body: bytes) -> bool:
    """Whether it may hold more values than there is time for, or is a form or a sound."""
    if body[:_START_BYTES].lstrip(_BEFORE_JSON)[:1] != b"{":
        return True
    if len(body) < COUNTED_FROM_BYTES:
        return False
    values = body.count(b",")
    if values > VALUES_LIMIT or body.count(b"{") + body.count(b"[") > OBJECTS_LIMIT:
        return True
    if values < STRINGS_LIMIT:
        return False
    return body.count(b'"') - body.count(rb"\"") > 2 * STRINGS_LIMIT


def _decode(body: bytes) -> _Request:
    """The fields of a JSON object, or of what engines take for one.

    Raises:
        DecodeError, ValueError, RecursionError: it is none.
    """
    try:
        return _decoder.decode(body)
    except DecodeError:
        if len(body) > TOLERANT_LIMIT_BYTES:
            raise
    # Half of a surrogate pair stays in a conversation once it is in it.
    value = json.loads(body.decode("utf-8-sig", "replace"), strict=False)
    if not isinstance(value, dict):
        raise DecodeError("not an object")
    told = {name: value[name] for name in _Request.__struct_fields__ if name in value}
    for name in ("tools", "functions"):
        if name in told:
            told[name] = Raw(json.dumps(told[name]).encode())
    return _Request(**told)
