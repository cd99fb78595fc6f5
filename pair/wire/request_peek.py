"""What dispatch must know of a request, read from its bytes without changing or keeping them.

Separate from forwarding because the bytes go on as they came (invariant I10): this is a look, not a
parse. A typed decoder that skips what it does not want does the work, so nested `model` keys,
escapes and key order are right by construction.

The decoder holds the interpreter lock, so a thread would not free the loop, and what a look costs
is what everybody waits. Measured 2026-11-29 on the shared 2-core test machine, CPU time: 4 us
for a body of 1 kB, 21 us for 48 kB, 0.4 ms for a MiB of messages, 5 ms for 10 MiB (2.5 million
tokens, or 30 photographs). The largest that the proxy takes, 128 MiB, holds up the loop for 80 ms;
nothing but the limit on bodies guards against that. What would cost more a byte, unpacking and a
second look, has limits of its own.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from msgspec import DecodeError, Struct, ValidationError
from msgspec.json import Decoder

from pair.core.names import ModelName
from pair.errors import RequestFault
from pair.wire.dialects import (
    Dialect,
    dialect_of,
    is_light,
    model_in_path,
    model_in_query,
    split_target,
)
from pair.wire.kept_ids import id_in_path, keeps, usable_id
from pair.wire.multipart import form_field
from pair.wire.one_node_acts import OneNodeAct, act_by_query, one_node_act

MODEL_NAME_LIMIT_CHARS = 512
"""Longest model name: names are kept in tables and error texts. The longest seen in use is under
150."""

UNPACKED_LIMIT_BYTES = 4 * 1024 * 1024
"""Largest unpacked size of a compressed body, about a million tokens: 4 ms for messages and 16 ms
for a bomb, which unpacks to this from 4 kB. Beyond it the client can send the body as it is."""

TOLERANT_LIMIT_BYTES = 256 * 1024
"""Largest body that gets a second, tolerant look, for which every value in it is built: 1 ms for
messages, 5 ms for the worst (and more where that sets off the garbage collector). Beyond it the
client can name the model outside of the body."""

PATHS_REMEMBERED = 256
"""Most paths whose meaning is remembered; clients use a dozen, and working it out costs 5 us."""

_ANY_ZLIB_HEADER = zlib.MAX_WBITS | 32
"""zlib's code for a gzip or a zlib header, whichever is there."""

_BINARY_TYPES = (b"audio/", b"image/", b"video/")
"""Bodies that name no model. `application/octet-stream` is not among them: some clients say so of
JSON."""
_START_BYTES = 64
"""Of a body, looked at for where JSON begins."""
_MARK = b"\xef\xbb\xbf"
"""The byte order mark that some Windows tools put before their JSON."""

_OTHERWISE = "send it uncompressed, or name the model with ?model=NAME"
"""What helps where a compressed body cannot be looked into."""

_OLLAMA_STREAMS = frozenset(("/api/generate", "/api/chat"))
"""These stream unless told not to."""


@dataclass(frozen=True, slots=True)
class Peek:
    """What dispatch knows of one request.

    Attributes:
        path: without the query, still percent-encoded.
        light: costs no generation, takes no slot.
        model: as the client wrote it, None where it named none (see `errors.model_missing`).
        streamed: whether the client asked for a stream.
        ids: of what engines keep (`kept_ids.py`), as the path and the body name them.
        act: what it changes on one node, None for all other requests; for these `model` is what
            they name, in whichever field.
    """

    path: str
    dialect: Dialect
    light: bool
    model: ModelName | None
    streamed: bool = False
    ids: tuple[str, ...] = ()
    act: OneNodeAct | None = None


_NO_IDS = (None, None, None, None)


class _Body(Struct, gc=False):
    """The top-level fields that matter, over all dialects; everything else is skipped by the
    decoder.
    """

    model: Any = None
    name: Any = None
    stream: Any = None
    source: Any = None
    instance_id: Any = None
    lora_name: Any = None
    previous_response_id: Any = None
    conversation: Any = None
    input_file_id: Any = None
    file_id: Any = None

    def ids(self) -> tuple[str, ...]:
        """Of what only the engine that made it knows."""
        fields = (self.previous_response_id, self.conversation, self.input_file_id, self.file_id)
        if fields == _NO_IDS:  # nearly always
            return ()
        return tuple(found for field in fields if (found := usable_id(field)) is not None)

    def changed(self) -> object:
        """What a request names that changes one node: Ollama's and LM Studio's fields for it."""
        fields = (self.model, self.name, self.source, self.instance_id, self.lora_name)
        return next((field for field in fields if field not in (None, "")), None)


_body_decoder = Decoder(_Body)


def peek(
    method: bytes,
    target: bytes,
    pieces: Sequence[bytes],
    *,
    content_type: bytes | None,
    content_encoding: bytes | None,
) -> Peek:
    """Read what dispatch needs; a model named in the path beats the body, the body beats the query.

    Raises:
        RequestFault: a generation whose body is not JSON (400), whose model is not a usable name
            (400), or whose compression cannot be read (415) or unpacks to too much (413).
    """
    path, query = split_target(target)
    seen = _by_path(method, path)
    if query and (act := act_by_query(method, path, query)) is not None:
        seen = replace(seen, act=act)
    in_path = seen.model is not None
    if not in_path and (fallback := model_in_query(query)) is not None:
        seen = replace(seen, model=_usable(fallback))
    kind = (content_type or b"").lower()
    bodiless = seen.light and not pieces
    if in_path or bodiless or _binary(kind, pieces):
        return seen
    known = seen.model is not None
    try:
        body = unpacked(pieces, (content_encoding or b"").strip().lower(), known=known)
        if body is None:
            return seen
        if kind.startswith(b"multipart/form-data"):
            form = form_field(body, content_type or b"", b"model")
            return replace(seen, model=_usable(form) or seen.model)
        fields = _decode(body)
    except RequestFault:
        if seen.light or known:  # what is wrong with it, the engine can say
            return seen
        raise
    return _with_fields(seen, fields)


@lru_cache(PATHS_REMEMBERED)
def _by_path(method: bytes, path: str) -> Peek:
    """What method and path tell by themselves."""
    return Peek(
        path,
        dialect_of(path),
        is_light(method, path),
        _usable(model_in_path(method, path)),
        ids=() if (kept := id_in_path(path)) is None else (kept,),
        act=one_node_act(method, path),
    )


def _with_fields(seen: Peek, fields: _Body) -> Peek:
    """What the path has told, with what the body adds."""
    model, ids = fields.model, fields.ids()
    if ids:
        ids = seen.ids + ids if keeps(seen.path) else seen.ids
    if seen.act is not None:
        model = fields.changed()
    elif seen.dialect is Dialect.OLLAMA and model in (None, ""):
        model = fields.name
    return Peek(
        seen.path,
        seen.dialect,
        seen.light,
        _usable(model) or seen.model,
        fields.stream is True or (fields.stream is None and seen.path in _OLLAMA_STREAMS),
        ids or seen.ids,
        seen.act,
    )


def _binary(kind: bytes, pieces: Sequence[bytes]) -> bool:
    """Whether the body is no JSON by its type; some clients send JSON as a plain stream of bytes,
    and engines do not look at the type.
    """
    if not kind.startswith(_BINARY_TYPES):
        return False
    return not (pieces and pieces[0][:_START_BYTES].lstrip()[:1] == b"{")


def _usable(model: object) -> ModelName | None:
    """The model's name as a table key, or the client's fault."""
    if model is None or model == "":
        return None
    if not isinstance(model, str):
        fault = "must be a string: the name of a model"
    elif len(model) > MODEL_NAME_LIMIT_CHARS:
        fault = f"is longer than {MODEL_NAME_LIMIT_CHARS} characters"
    elif not model.isprintable():  # it goes into headers and logs
        fault = "holds characters that can't be printed"
    else:
        return ModelName(model)
    raise RequestFault(400, "invalid_model", f"The field `model` {fault}.", param="model")


def unpacked(pieces: Sequence[bytes], encoding: bytes, *, known: bool) -> bytes | None:
    """The body as one string of bytes, unpacked where it is compressed; None if it cannot be and
    `known` the model is.
    """
    body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    if encoding in (b"", b"identity"):
        return body
    if encoding not in (b"gzip", b"x-gzip", b"deflate"):
        if known:
            return None
        raise RequestFault(
            415,
            "unsupported_encoding",
            f"The content-encoding {encoding[:40].decode('latin-1')!r} can't be read to find the "
            f"model; {_OTHERWISE}.",
        )
    unpacker = zlib.decompressobj(wbits=_ANY_ZLIB_HEADER)
    try:
        unpacked = unpacker.decompress(body, UNPACKED_LIMIT_BYTES)
    except zlib.error as fault:
        raise RequestFault(
            400, "invalid_encoding", f"The body is not valid {encoding.decode()}: {fault}."
        ) from fault
    if unpacker.unconsumed_tail:
        raise RequestFault(
            413,
            "body_too_large",
            f"The body unpacks to more than {UNPACKED_LIMIT_BYTES // 1024**2} MiB, too much to "
            f"look into; {_OTHERWISE}.",
        )
    return unpacked


def _decode(body: bytes) -> _Body:
    """The wanted fields of a JSON object.

    What the strict decoder refuses (a lone surrogate, NaN, raw control characters) may still be
    what an engine takes, so a tolerant one has the last word, and the position in its error is the
    client's.
    """
    if body[: len(_MARK)] == _MARK:  # `removeprefix` would copy any large one
        body = body[len(_MARK) :]
    try:
        return _body_decoder.decode(body)
    except ValidationError as fault:
        raise _not_an_object() from fault
    except (DecodeError, RecursionError) as fault:
        if not body.strip():
            raise RequestFault(
                400, "invalid_json", "The body is empty; it must be a JSON object."
            ) from fault
        if len(body) > TOLERANT_LIMIT_BYTES:
            raise RequestFault(
                400,
                "invalid_json",
                f"The body is not strict JSON: {fault}. Mend it, or name the model with "
                "?model=NAME and the engine decides.",
            ) from fault
    return _decode_tolerantly(body)


def _decode_tolerantly(body: bytes) -> _Body:
    """The same fields by the decoder that takes what most engines take."""
    try:
        value = json.loads(body.decode("utf-8", "replace"), strict=False)
    except json.JSONDecodeError as fault:
        raise RequestFault(
            400,
            "invalid_json",
            f"The body is not JSON: {fault.msg} at line {fault.lineno}, column {fault.colno} "
            f"(character {fault.pos}).",
        ) from fault
    except (RecursionError, ValueError) as fault:
        raise RequestFault(
            400, "invalid_json", "The body's JSON is nested too deeply or holds too long a number."
        ) from fault
    if not isinstance(value, dict):
        raise _not_an_object()
    return _Body(**{name: value.get(name) for name in _Body.__struct_fields__})


def _not_an_object() -> RequestFault:
    return RequestFault(400, "invalid_json", "The body must be a JSON object.")
