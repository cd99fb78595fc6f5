"""LM Studio: `/api/v1/models` (from 0.4 on) and `/api/v0/models` say what is loaded and how.

To a path that it does not know it answers 200 and `{"error": ...}`, so only the shape tells.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from pair.core.names import ModelName
from pair.wire.engine_reports.reading import (
    EngineModel,
    ModelList,
    Rows,
    count,
    model_list,
    model_name,
    read_json,
    read_rows,
    slot_count,
)


class _NewList(Struct):
    models: Rows | None


class _NewRow(Struct):
    key: Any = None
    loaded_instances: Any = None
    max_context_length: Any = None


class _OldList(Struct):
    data: Rows | None


class _OldRow(Struct):
    id: Any = None
    state: Any = None
    max_context_length: Any = None
    loaded_context_length: Any = None


def read_new_list(body: bytes, usable: frozenset[ModelName] | None) -> ModelList:
    """The models in `/api/v1/models`.

    `usable` are the names in `/v1/models`, None if unknown. Where loading on demand is off, models
    that are not loaded are missing there, and asking for one is an error.

    Raises:
        GarbledAnswer: it has no `models` list.
    """
    rows = read_rows(read_json(body, _NewList).models or (), _NewRow)
    models = (None if row is None else _new_model(row) for row in rows)
    return model_list(_offered(models, usable))


def read_old_list(body: bytes, usable: frozenset[ModelName] | None) -> ModelList:
    """The models in `/api/v0/models`; `usable` as above. How many slots, it does not say.

    Raises:
        GarbledAnswer: it has no `data` list.
    """
    rows = read_rows(read_json(body, _OldList).data or (), _OldRow)
    models = (None if row is None else _old_model(row) for row in rows)
    return model_list(_offered(models, usable))


def _offered(
    models: Iterator[EngineModel | None], usable: frozenset[ModelName] | None
) -> Iterator[EngineModel | None]:
    for model in models:
        if model is None or usable is None or model.resident is not False or model.name in usable:
            yield model


def _new_model(row: _NewRow) -> EngineModel | None:
    name = model_name(row.key)
    if name is None:
        return None
    loaded = row.loaded_instances if isinstance(row.loaded_instances, list) else []
    instances = [instance for instance in loaded if isinstance(instance, dict)]
    settings = [instance.get("config") for instance in instances]
    ways = [way for way in settings if isinstance(way, dict)]
    windows = [count(way.get("context_length")) for way in ways]
    slots = [slot_count(way.get("parallel")) for way in ways]
    ids = (model_name(instance.get("id")) for instance in instances)
    return EngineModel(
        name,
        aliases=frozenset(id_ for id_ in ids if id_ is not None and id_ != name),
        # A request by the model's name may meet any instance, so the least of each is promised.
        context_tokens=_least(windows) if ways else count(row.max_context_length),
        slots=_least(slots),
        resident=bool(instances),
    )


def _old_model(row: _OldRow) -> EngineModel | None:
    name = model_name(row.id)
    if name is None:
        return None
    return EngineModel(
        name,
        context_tokens=count(row.loaded_context_length) or count(row.max_context_length),
        resident={"loaded": True, "not-loaded": False}.get(row.state)
        if isinstance(row.state, str)
        else None,
        loading=row.state == "loading",
    )


def _least(values: list[int | None]) -> int | None:
    return min((value for value in values if value is not None), default=None)
