"""Ollama. It loads a model when one is asked for, so all of its models are ready at any time."""

from __future__ import annotations

from collections.abc import Sequence

from pair.engines.engine import Engine, Reading, found, listed
from pair.wire.engine_reports.ollama import read_tags
from pair.wire.engine_reports.recognition import Answers

TAGS_PATH = "/api/tags"
LOADED_PATH = "/api/ps"


class Ollama(Engine):
    """Its slots are the user's word, else 1, which is its default (`OLLAMA_NUM_PARALLEL`)."""

    kind = "ollama"

    def _lists(self) -> Sequence[str]:
        return (TAGS_PATH,)

    def _extras(self) -> Sequence[str]:
        return (LOADED_PATH,)

    def read(self, answers: Answers) -> Reading:
        return Reading(read_tags(listed(answers, TAGS_PATH), found(answers, LOADED_PATH)))
