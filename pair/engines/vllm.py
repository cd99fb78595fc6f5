"""vLLM. It works on hundreds of requests at a time and does not tell on how many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pair.engines.engine import Engine, Reading, found, listed
from pair.wire.engine_reports.openai_list import read_openai_list
from pair.wire.engine_reports.reading import EngineLoad
from pair.wire.engine_reports.recognition import OPENAI_LIST_PATH, Answers
from pair.wire.engine_reports.vllm import read_load

METRICS_PATH = "/metrics"

NO_SLOTS = (
    "it does not tell how many requests it works on at a time, so pair gives it one;"
    " say so with the setting `slots` (vLLM's --max-num-seqs)"
)


class VLLM(Engine):
    """Slots from `/metrics` if they are there, else the user's word, else 1 and a warning."""

    kind = "vllm"

    def _lists(self) -> Sequence[str]:
        return (OPENAI_LIST_PATH,)

    def _extras(self) -> Sequence[str]:
        return (METRICS_PATH,)

    def read(self, answers: Answers) -> Reading:
        models = read_openai_list(listed(answers, OPENAI_LIST_PATH))
        metrics = found(answers, METRICS_PATH)
        load = EngineLoad() if metrics is None else read_load(metrics)
        if load.slots is None and not self.slots:
            models = replace(models, warnings=(*models.warnings, NO_SLOTS))
        return Reading(models, load)
