"""SGLang. Some of its paths have an older name, and asking by that fills its log with warnings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pair.engines.engine import Engine, Reading, found, listed
from pair.errors import GarbledAnswer
from pair.wire.engine_reports.openai_list import read_openai_list
from pair.wire.engine_reports.reading import EngineLoad
from pair.wire.engine_reports.recognition import OPENAI_LIST_PATH, Answers
from pair.wire.engine_reports.sglang import read_load, read_settings

SETTINGS_PATH = "/server_info"
OLD_SETTINGS_PATH = "/get_server_info"
LOADS_PATH = "/v1/loads"
METRICS_PATH = "/metrics"


class SGLang(Engine):
    """Slots from its settings, load from `/v1/loads` or `/metrics`, whichever it has."""

    kind = "sglang"

    def _lists(self) -> Sequence[str]:
        return (OPENAI_LIST_PATH,)

    def _extras(self) -> Sequence[str]:
        return (SETTINGS_PATH, OLD_SETTINGS_PATH, LOADS_PATH, METRICS_PATH)

    def read(self, answers: Answers) -> Reading:
        models = read_openai_list(listed(answers, OPENAI_LIST_PATH))
        loads, metrics = found(answers, LOADS_PATH), found(answers, METRICS_PATH)
        load = read_load(loads, metrics)
        said = _settings(found(answers, SETTINGS_PATH) or found(answers, OLD_SETTINGS_PATH))
        if found(answers, SETTINGS_PATH) is not None:
            self._not_there.add(OLD_SETTINGS_PATH)
        if loads is not None:
            self._not_there.add(METRICS_PATH)
        return Reading(models, replace(said, running=load.running, waiting=load.waiting))


def _settings(body: bytes | None) -> EngineLoad:
    try:
        return EngineLoad() if body is None else read_settings(body)
    except GarbledAnswer:
        return EngineLoad()
