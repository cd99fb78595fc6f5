"""`GET /v1/models` in OpenAI's shape, `{"data": [...]}`, with what each kind adds to a row.

One reader for all of them, because the additions have different names: `max_model_len` (vLLM,
SGLang), `aliases`, `meta.n_ctx` and `status` (llama.cpp).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
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
    model_names,
    read_json,
    read_rows,
)


class _List(Struct):
    data: Rows | None


class _Row(Struct):
    id: Any = None
    aliases: Any = None
    root: Any = None
    parent: Any = None
    owned_by: Any = None
    max_model_len: Any = None
    meta: Any = None
    status: Any = None


_IN_MEMORY = {"loaded": True, "unloaded": False, "sleeping": False, "downloaded": False}
"""What a llama.cpp that holds several models says of each; another word means nothing to us."""

_COMING = {"loading", "downloading"}


def read_openai_list(body: bytes) -> ModelList:
    """The models in this answer.

    Raises:
        GarbledAnswer: it has no `data` list.
    """
    rows = read_rows(read_json(body, _List).data or (), _Row)
    return model_list(_folded(rows))


def owners(body: bytes) -> frozenset[str]:
    """Who is said to own the models, which is the name of the engine in some kinds.

    Raises:
        GarbledAnswer: it has no `data` list.
    """
    rows = read_rows(read_json(body, _List).data or (), _Row)
    return frozenset(row.owned_by for row in rows if row and isinstance(row.owned_by, str))


def _folded(rows: Iterable[_Row | None]) -> Iterator[EngineModel | None]:
    """One model for the several names under which vLLM lists the same weights.

    They share their slots, so they must not count as models of their own. Their rows have the
    same `root` and no `parent`; an adapter has a `parent` and stays apart.
    """
    first: dict[str, EngineModel] = {}
    apart: list[EngineModel | None] = []
    for row in rows:
        model = None if row is None else _model(row)
        if row is None or model is None or not isinstance(row.root, str) or row.parent is not None:
            apart.append(model)
        elif (held := first.get(row.root)) is None:
            first[row.root] = model
        else:
            aliases = held.aliases | model.aliases | {model.name}
            first[row.root] = replace(held, aliases=aliases - {held.name})
    yield from first.values()
    yield from apart


def _model(row: _Row) -> EngineModel | None:
    name = model_name(row.id)
    if name is None:
        return None
    meta = row.meta if isinstance(row.meta, dict) else {}
    status = row.status.get("value") if isinstance(row.status, dict) else None
    word = status if isinstance(status, str) else ""
    return EngineModel(
        name,
        aliases=model_names(row.aliases) - {name},
        context_tokens=count(row.max_model_len) or count(meta.get("n_ctx")),
        resident=_IN_MEMORY.get(word),
        loading=word in _COMING,
    )


def listed_names(body: bytes) -> frozenset[ModelName]:
    """Every name in this answer, aliases included.

    Raises:
        GarbledAnswer: it has no `data` list.
    """
    models = read_openai_list(body).models
    return frozenset(name for model in models for name in (model.name, *model.aliases))
