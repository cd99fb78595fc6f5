"""llama.cpp's server, the one that knows its slots best.

Asking how busy it is has a price: each answer to `/slots` or `/metrics` wakes every thread that
waits for a result, and one that waits looks whether its client has gone only after a whole second
without being woken. Asked every second, it generates to the end for clients that left long ago
(measured 2026-11 on b11549: 17 s instead of 1 s). So these two are asked less often than that.
They also count as use, and a server told to unload its model after some idle time
(`--sleep-idle-seconds`) never would: `server_queue::post` in tools/server sets the idle clock back,
and `get_slots` even wakes a sleeper; `/props`, `/v1/models` and a sleeper's `/metrics` do neither.
So one that does nothing is asked after pauses that double.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pair.core.reports import ReplicaState
from pair.engines.engine import NOT_THERE, Engine, Reading, found, listed
from pair.engines.question import NO_HEADERS
from pair.errors import GarbledAnswer
from pair.wire.engine_reports.llamacpp import Props, is_loading, read_load, read_props
from pair.wire.engine_reports.openai_list import read_openai_list
from pair.wire.engine_reports.reading import EngineLoad, ModelList
from pair.wire.engine_reports.recognition import NEEDS_KEY, OPENAI_LIST_PATH, Answers, Said

PROPS_PATH = "/props"
SLOTS_PATH = "/slots"
METRICS_PATH = "/metrics"

LOAD_SPACING_S = 1.5
"""Between two questions for the load; see above. In between `running` is None: not asked."""


def now_s() -> float:
    """The event loop's time."""
    return asyncio.get_running_loop().time()


class LlamaCpp(Engine):
    """Slots and context from `/props`; load from `/metrics` if that is on, else from `/slots`."""

    kind = "llamacpp"

    def __init__(self, url: str, slots: int = 0, headers: Mapping[str, str] = NO_HEADERS) -> None:
        super().__init__(url, slots, headers)
        self._load_asked_at = float("-inf")
        self._has_metrics = False
        self._active_at = float("-inf")
        self._props = Props()

    def _lists(self) -> Sequence[str]:
        return (OPENAI_LIST_PATH,)

    def _extras(self) -> Sequence[str]:
        now = now_s()
        if not self._count_now and now - self._load_asked_at < self._spacing_s():
            return (PROPS_PATH,)
        self._count_now = False
        if self._load_asked_at < 0:
            self._active_at = now
        self._load_asked_at = now
        # `/slots` would wake a sleeping model, and it is needless beside metrics.
        if self._has_metrics or self._props.sleeping:
            return (PROPS_PATH, METRICS_PATH)
        return (PROPS_PATH, METRICS_PATH, SLOTS_PATH)

    def _spacing_s(self) -> float:
        """Until the load is asked for again: a question counts as use and keeps the model from
        going to sleep, so an engine that does nothing is asked after doubling pauses.
        """
        if self.in_use:
            return LOAD_SPACING_S
        return max(LOAD_SPACING_S, self._load_asked_at - self._active_at)

    def read(self, answers: Answers) -> Reading:
        models = read_openai_list(listed(answers, OPENAI_LIST_PATH))
        told = answers.get(PROPS_PATH)
        if told is not None and told.status == 200:  # what a busy one told before still holds
            self._props = _props(told.body)
        props = self._props
        self.estranged = told is not None and told.status in NOT_THERE
        load = read_load(found(answers, METRICS_PATH), found(answers, SLOTS_PATH))
        self._has_metrics = self._has_metrics or found(answers, METRICS_PATH) is not None
        if self.in_use or load.running:
            self._active_at = self._load_asked_at
        return Reading(
            _as_started(models, props),
            EngineLoad(props.slots, load.running, load.waiting),
            _state(told),
            any_name=props.slots is not None and len(models.models) == 1,
        )


def _as_started(models: ModelList, props: Props) -> ModelList:
    """With what `/props` tells of a model that the server was started with. Where there are several
    (no slots in `/props`), the list has said all.
    """
    if props.slots is None:
        return models
    return replace(
        models,
        models=tuple(
            replace(
                model,
                context_tokens=props.context_tokens or model.context_tokens,
                resident=not props.sleeping,
            )
            for model in models.models
        ),
    )


def _state(told: Said | None) -> ReplicaState:
    """What its answer to `/props` means for its models."""
    if told is None:
        return ReplicaState.READY
    if told.status in NEEDS_KEY:
        return ReplicaState.NEEDS_KEY
    return ReplicaState.LOADING if is_loading(*told) else ReplicaState.READY


def _props(body: bytes) -> Props:
    try:
        return read_props(body)
    except GarbledAnswer:
        return Props()
