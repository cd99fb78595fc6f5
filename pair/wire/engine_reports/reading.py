"""The values that all kinds are read into, and how foreign JSON becomes them.

Fields of a row are decoded untyped and judged one by one, so that one odd field costs that field
and one odd row costs that row. Names and numbers are held to the bounds of a node's report
(`node_report.py`), which they end up in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgspec

from pair.core.names import ModelName
from pair.errors import GarbledAnswer

MODELS_LIMIT = 1000
"""Most models of one engine; a report takes 4096 replicas of all engines of a node."""

ALIASES_LIMIT = 64
"""Most aliases of one model."""

NAME_LIMIT_CHARS = 512
"""Longest name of a model; a file's whole path, which some engines use, is shorter."""

COUNT_LIMIT = 1_000_000_000
"""Larger counts are nonsense: the largest context window has some millions of tokens."""

SLOTS_LIMIT = 4096
"""Most slots believed."""

Rows = list[msgspec.Raw]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EngineModel:
    """One model in an engine's list.

    Attributes:
        aliases: never contains `name`.
        slots: the engine's word on this model alone, None without one.
        resident: whether it is in memory, None where the list does not tell.
        loading: the list says that it is being loaded now.
    """

    name: ModelName
    aliases: frozenset[ModelName] = frozenset()
    context_tokens: int | None = None
    slots: int | None = None
    resident: bool | None = None
    loading: bool = False


@dataclass(frozen=True, slots=True)
class ModelList:
    """All models of an engine, each name once, and sentences on what could not be read."""

    models: tuple[EngineModel, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """What an engine says of itself as a whole, None where it says nothing.

    Attributes:
        slots: requests worked on at a time.
        running: requests worked on now, from anybody.
        waiting: requests queued inside it.
        context_tokens: for one request.
        cache_tokens: what it keeps of prompts, as in `ReplicaReport`.
    """

    slots: int | None = None
    running: int | None = None
    waiting: int | None = None
    context_tokens: int | None = None
    cache_tokens: int | None = None


def read_json(body: bytes, shape: type[T]) -> T:
    """The body as this shape.

    Raises:
        GarbledAnswer: it is not JSON or not of the shape; the text quotes nothing of the body.
    """
    try:
        return msgspec.json.decode(body, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise GarbledAnswer(f"it is not what this kind of engine answers ({fault})") from fault


def read_rows(rows: Iterable[msgspec.Raw], shape: type[T]) -> Iterator[T | None]:
    """Each row as this shape, None for one that is not."""
    for row in rows:
        try:
            yield msgspec.json.decode(row, type=shape)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            yield None


def count(value: object) -> int | None:
    """A whole number above 0, None for anything else."""
    return _whole(value) or None


def amount(value: object) -> int | None:
    """A whole number from 0 up, None for anything else."""
    return _whole(value)


def slot_count(value: object) -> int | None:
    """A number of slots, None for anything else."""
    whole = _whole(value)
    return min(whole, SLOTS_LIMIT) if whole else None


def model_name(value: object) -> ModelName | None:
    """A name that can stand in a header and on a terminal, None for anything else."""
    if isinstance(value, str) and 0 < len(value) <= NAME_LIMIT_CHARS and value.isprintable():
        return ModelName(value)
    return None


def model_names(value: object) -> frozenset[ModelName]:
    """The usable names in a list; none if it is not a list."""
    if not isinstance(value, list):
        return frozenset()
    names = (model_name(item) for item in value[:ALIASES_LIMIT])
    return frozenset(name for name in names if name is not None)


def model_list(models: Iterable[EngineModel | None]) -> ModelList:
    """The list of these, where None stands for a row without a usable name.

    A name that comes twice counts once. An alias that is another model's own name is dropped,
    because an engine gives the name to its owner.
    """
    known: dict[ModelName, EngineModel] = {}
    unreadable = surplus = 0
    for model in models:
        if model is None:
            unreadable += 1
        elif model.name in known:
            continue
        elif len(known) == MODELS_LIMIT:
            surplus += 1
        else:
            known[model.name] = model
    return ModelList(
        tuple(replace(model, aliases=model.aliases - known.keys()) for model in known.values()),
        tuple(_complaints(unreadable, surplus)),
    )


def _complaints(unreadable: int, surplus: int) -> Iterator[str]:
    if unreadable:
        yield f"{unreadable} of the listed models cannot be read and are left out"
    if surplus:
        yield f"only the first {MODELS_LIMIT} models are used, {surplus} are left out"


def _whole(value: Any) -> int | None:
    """A bool is an int to Python; a float is fine if whole, as some engines write 4096.0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not 0 <= value <= COUNT_LIMIT or value != int(value):
        return None
    return int(value)
