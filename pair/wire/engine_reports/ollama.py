"""Ollama: `/api/tags` says what is on disk, `/api/ps` what is in memory.

How many requests it works on at a time (`OLLAMA_NUM_PARALLEL`, 1 by default) its API never tells.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from pair.core.names import ModelName
from pair.errors import GarbledAnswer
from pair.wire.engine_reports.reading import (
    EngineModel,
    ModelList,
    Rows,
    count,
    model_list,
    model_name,
    read_json,
    read_rows,
)

_DEFAULT_TAG = ":latest"
"""What Ollama adds to a name without a tag, so the name without it means the same model."""


class _List(Struct):
    models: Rows | None


class _Row(Struct):
    name: Any = None
    model: Any = None
    remote_host: Any = None
    context_length: Any = None


def read_tags(tags: bytes, loaded: bytes | None) -> ModelList:
    """The models of this house in `/api/tags`, with what `/api/ps` says of them, None if nothing.

    Models that Ollama passes on to its makers' computers are left out: whoever asks the house
    must not have a prompt leave it unasked.

    Raises:
        GarbledAnswer: `/api/tags` has no list of models.
    """
    rows = list(read_rows(read_json(tags, _List).models or (), _Row))
    return model_list(_models(rows, _windows(loaded)))


def _models(
    rows: list[_Row | None], windows: dict[ModelName, int | None] | None
) -> Iterator[EngineModel | None]:
    for row in rows:
        if row is not None and row.remote_host:
            continue
        name = None if row is None else _name(row)
        if name is None:
            yield None
            continue
        short = model_name(name.removesuffix(_DEFAULT_TAG))
        yield EngineModel(
            name,
            aliases=frozenset() if short in (name, None) else frozenset({short}),
            context_tokens=None if windows is None else windows.get(name),
            resident=None if windows is None else name in windows,
        )


def _windows(loaded: bytes | None) -> dict[ModelName, int | None] | None:
    """The context of each model in memory, None if nobody knows which those are."""
    if loaded is None:
        return None
    try:
        rows = list(read_rows(read_json(loaded, _List).models or (), _Row))
    except GarbledAnswer:
        return None
    named = ((_name(row), row) for row in rows if row is not None)
    return {name: count(row.context_length) for name, row in named if name is not None}


def _name(row: _Row) -> ModelName | None:
    return model_name(row.model) or model_name(row.name)
