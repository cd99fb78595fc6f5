"""SGLang: `/server_info` has the slots, `/v1/loads` or `/metrics` the load.

`/server_info` holds all of the engine's options, its API key among them: only the named fields are
decoded, and no text quotes the rest. `/health` is never asked, because it generates a token.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from pair.errors import GarbledAnswer
from pair.wire.engine_reports.metrics import gauge
from pair.wire.engine_reports.reading import (
    EngineLoad,
    Rows,
    amount,
    count,
    read_json,
    read_rows,
    slot_count,
)


class _Settings(Struct):
    max_running_requests: Any = None
    context_length: Any = None
    max_total_num_tokens: Any = None
    internal_states: Rows | None = None


class _State(Struct):
    effective_max_running_requests_per_dp: Any = None


class _Loads(Struct):
    loads: Rows | None


class _Load(Struct):
    num_running_reqs: Any = None
    num_waiting_reqs: Any = None


def read_settings(body: bytes) -> EngineLoad:
    """The slots, the context, and the tokens that all prompts share.

    The data-parallel parts each say how many requests fit them; the option that asked for a number
    is only the second best word, since memory may allow less.

    Raises:
        GarbledAnswer: it is not an object.
    """
    settings = read_json(body, _Settings)
    states = read_rows(settings.internal_states or (), _State)
    parts = [slot_count(s.effective_max_running_requests_per_dp) for s in states if s is not None]
    total = sum(part for part in parts if part is not None)
    return EngineLoad(
        slots=slot_count(total) or slot_count(settings.max_running_requests),
        context_tokens=count(settings.context_length),
        cache_tokens=count(settings.max_total_num_tokens),
    )


def read_load(loads: bytes | None, metrics: bytes | None) -> EngineLoad:
    """How busy it is, by `/v1/loads` or else by `/metrics`; None for a page that is missing."""
    if loads is not None:
        try:
            rows = list(read_rows(read_json(loads, _Loads).loads or (), _Load))
        except GarbledAnswer:
            rows = []
        running = [amount(row.num_running_reqs) for row in rows if row is not None]
        waiting = [amount(row.num_waiting_reqs) for row in rows if row is not None]
        if running:
            return EngineLoad(running=_sum(running), waiting=_sum(waiting))
    if metrics is None:
        return EngineLoad()
    return EngineLoad(
        running=gauge(metrics, "sglang:num_running_reqs", _is_first_rank),
        waiting=gauge(metrics, "sglang:num_queue_reqs", _is_first_rank),
    )


def _is_first_rank(labels: bytes) -> bool:
    """Tensor-parallel ranks work on the same requests and each report them."""
    return b'tp_rank="' not in labels or b'tp_rank="0"' in labels


def _sum(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
