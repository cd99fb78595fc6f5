"""llama.cpp's server: `/props` has the slots and their context, `/slots` and `/metrics` the load.

The model list is `openai_list.py`'s. While the model loads, every path answers 503 with the words
"Loading model". A server that was started without a model ("router") has no slots of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from pair.errors import GarbledAnswer
from pair.wire.engine_reports.metrics import gauge
from pair.wire.engine_reports.reading import (
    EngineLoad,
    Rows,
    count,
    read_json,
    read_rows,
    slot_count,
)


class _Props(Struct):
    total_slots: Any = None
    default_generation_settings: Any = None
    is_sleeping: Any = None
    role: Any = None


class _Slot(Struct):
    is_processing: Any = None


class _Refusal(Struct):
    error: Any = None


@dataclass(frozen=True, slots=True)
class Props:
    """What `/props` says.

    Attributes:
        sleeping: the model was unloaded for idleness and comes back with the next request.
    """

    slots: int | None = None
    context_tokens: int | None = None
    sleeping: bool = False


def read_props(body: bytes) -> Props:
    """The slots and what one of them holds.

    Raises:
        GarbledAnswer: it is an object that llama.cpp does not send.
    """
    props = read_json(body, _Props)
    settings = props.default_generation_settings
    if not isinstance(settings, dict) and props.total_slots is None and props.role != "router":
        raise GarbledAnswer("it has neither slots nor settings of a slot")
    window = settings.get("n_ctx") if isinstance(settings, dict) else None
    return Props(slot_count(props.total_slots), count(window), props.is_sleeping is True)


def read_load(metrics: bytes | None, slots: bytes | None) -> EngineLoad:
    """How busy it is, by `/metrics` if it has that, else by `/slots`; None for a missing page."""
    if metrics is not None:
        running = gauge(metrics, "llamacpp:requests_processing")
        if running is not None:
            return EngineLoad(running=running, waiting=gauge(metrics, "llamacpp:requests_deferred"))
    return EngineLoad(running=None if slots is None else _busy_slots(slots))


def is_loading(status: int, body: bytes) -> bool:
    """Whether this answer says that the model is still being loaded."""
    if status != 503:
        return False
    try:
        error = read_json(body, _Refusal).error
    except GarbledAnswer:
        return False
    words = error.get("message") if isinstance(error, dict) else error
    return isinstance(words, str) and "loading" in words.lower()


def _busy_slots(body: bytes) -> int | None:
    try:
        rows = list(read_rows(read_json(body, Rows), _Slot))
    except GarbledAnswer:
        return None
    return sum(1 for row in rows if row is not None and row.is_processing is True)
