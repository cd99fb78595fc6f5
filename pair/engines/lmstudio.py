"""LM Studio. It loads a model when one is asked for, unless the user has turned that off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pair.core.names import ModelName
from pair.engines.engine import Engine, Reading, found, listed
from pair.engines.question import NO_HEADERS
from pair.errors import GarbledAnswer
from pair.wire.engine_reports.lmstudio import read_new_list, read_old_list
from pair.wire.engine_reports.openai_list import listed_names
from pair.wire.engine_reports.recognition import OPENAI_LIST_PATH, Answers

NEW_PATH = "/api/v1/models"
OLD_PATH = "/api/v0/models"


class LMStudio(Engine):
    """Slots come with the new list for models in memory; else the user's word, else 1.

    Versions since 0.4 have both lists, older ones the second and an error in the log for asking the
    first; so both are asked until one has shown which it is.
    """

    kind = "lmstudio"

    def __init__(self, url: str, slots: int = 0, headers: Mapping[str, str] = NO_HEADERS) -> None:
        super().__init__(url, slots, headers)
        self._paths: Sequence[str] = (NEW_PATH, OLD_PATH)

    def _lists(self) -> Sequence[str]:
        return self._paths

    def _extras(self) -> Sequence[str]:
        return (OPENAI_LIST_PATH,)

    def read(self, answers: Answers) -> Reading:
        usable = _usable(found(answers, OPENAI_LIST_PATH))
        fault = GarbledAnswer(f"no answer to GET {OLD_PATH}")
        for path, read in ((NEW_PATH, read_new_list), (OLD_PATH, read_old_list)):
            try:
                models = read(listed(answers, path), usable)
            except GarbledAnswer as unreadable:
                fault = unreadable
            else:
                self._paths = (path,)
                return Reading(models)
        self._paths = (NEW_PATH, OLD_PATH)
        raise fault


def _usable(body: bytes | None) -> frozenset[ModelName] | None:
    try:
        return None if body is None else listed_names(body)
    except GarbledAnswer:
        return None
