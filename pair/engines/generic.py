"""Any engine that has OpenAI's list of models and nothing more that we know."""

from __future__ import annotations

from collections.abc import Sequence

from pair.engines.engine import Engine, Reading, listed
from pair.wire.engine_reports.openai_list import read_openai_list
from pair.wire.engine_reports.recognition import OPENAI_LIST_PATH, Answers


class Generic(Engine):
    """Its slots are the user's word, else 1."""

    kind = "generic"

    def _lists(self) -> Sequence[str]:
        return (OPENAI_LIST_PATH,)

    def read(self, answers: Answers) -> Reading:
        return Reading(read_openai_list(listed(answers, OPENAI_LIST_PATH)))
