"""What a token of context costs in memory, from the beginning of a GGUF file.

Separate from finding the file: this reads its format. Only the few numbers that the size of the KV
cache follows from are wanted; they stand before the tokenizer's long lists, where this stops. A
file that says none, or an unusual one, is no error: then the size is unknown.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

HEADER_LIMIT_BYTES: Final = 256 * 1024
"""So much of a file is read at most; the numbers are in its first 4 kB."""

F16_BYTES: Final = 2
"""llama.cpp keeps keys and values as 16-bit numbers unless told otherwise."""

LAYERS_LIMIT: Final = 10_000

_SIZES: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q"}
_SIZES_DOUBLE: Final = 12
_TEXT: Final = 8
_LIST: Final = 9

_Value = int | float | str | list[int]


def context_bytes_per_token(path: Path) -> int | None:
    """Memory of the keys and values of one token over all layers; None where the file does not
    tell.
    """
    try:
        with path.open("rb") as file:
            fields = _fields(file.read(HEADER_LIMIT_BYTES))
    except (OSError, struct.error, UnicodeDecodeError, ValueError):
        return None
    family = fields.get("general.architecture")
    heads = _number(fields.get(f"{family}.attention.head_count"))
    layers = _number(fields.get(f"{family}.block_count"))
    width = _number(fields.get(f"{family}.embedding_length"))
    if not heads or not layers or not width or layers > LAYERS_LIMIT:
        return None
    shared = fields.get(f"{family}.attention.head_count_kv", heads)
    per_head = width // heads
    key = _number(fields.get(f"{family}.attention.key_length")) or per_head
    value = _number(fields.get(f"{family}.attention.value_length")) or per_head
    of_all = sum(shared) if isinstance(shared, list) else (_number(shared) or heads) * layers
    return of_all * (key + value) * F16_BYTES or None


def _number(value: _Value | None) -> int | None:
    return value if isinstance(value, int) and value > 0 else None


def _fields(header: bytes) -> dict[str, _Value]:
    """The fields before the tokenizer's, as far as the header goes.

    Raises:
        struct.error, ValueError: it is no such header, or cut off.
    """
    magic, version, _, count = struct.unpack_from("<4sIQQ", header)
    if magic != b"GGUF" or version < 2:
        raise ValueError("not a GGUF file of version 2 or later")
    at = 24
    fields: dict[str, _Value] = {}
    for _ in range(count):
        name, at = _text(header, at)
        if name.startswith("tokenizer."):
            break
        (kind,) = struct.unpack_from("<I", header, at)
        fields[name], at = _value(header, at + 4, kind)
    return fields


def _value(header: bytes, at: int, kind: int) -> tuple[_Value, int]:
    if kind == _TEXT:
        return _text(header, at)
    if kind != _LIST:
        form = "<d" if kind == _SIZES_DOUBLE else "<" + _form(kind)
        return struct.unpack_from(form, header, at)[0], at + struct.calcsize(form)
    inner, count = struct.unpack_from("<IQ", header, at)
    at += 12
    if inner == _TEXT:
        for _ in range(count):
            _, at = _text(header, at)
        return [], at
    form = f"<{count}{_form(inner)}"
    values = list(struct.unpack_from(form, header, at)) if count <= LAYERS_LIMIT else []
    return values, at + struct.calcsize(form)


def _form(kind: int) -> str:
    if kind not in _SIZES:
        raise ValueError(f"values of the unknown kind {kind}")
    return _SIZES[kind]


def _text(header: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from("<Q", header, at)
    end = at + 8 + length
    if end > len(header):
        raise ValueError("cut off")
    return header[at + 8 : end].decode(), end
