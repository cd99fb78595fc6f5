"""The house's lists of models, each in the shape in which one kind of engine gives it.

Apart from the door because these are pages of the house as a whole: an engine would answer for
itself alone.
"""

from __future__ import annotations

from collections.abc import Callable

from pair.core.scheduler import Scheduler
from pair.proxy.catalogue import any_of_kind, listed_models, loaded_models
from pair.wire.dialects import model_in_path
from pair.wire.model_lists import (
    ListedModel,
    lmstudio_v0_list,
    lmstudio_v0_model,
    lmstudio_v1_list,
    ollama_ps,
    ollama_tags,
    openai_list,
    openai_model,
)


class HousePages:
    """Made from the scheduler's books whenever they are asked for.

    Args:
        started_at: Unix s, for the times of creation that nobody knows.
    """

    def __init__(self, scheduler: Scheduler, started_at: float) -> None:
        self._scheduler = scheduler
        self._started_at = started_at

    def page(self, path: str) -> bytes | None:
        """The JSON at this path, None where an engine has to say it."""
        scheduler, started_at = self._scheduler, self._started_at
        match path:
            case "/v1/models" | "/models":
                llamacpp = any_of_kind(scheduler, "llamacpp")
                return openai_list(listed_models(scheduler), started_at, llamacpp=llamacpp)
            case "/api/tags":
                return ollama_tags(listed_models(scheduler), started_at)
            case "/api/ps":
                return ollama_ps(loaded_models(scheduler))
            case _ if path.startswith("/v1/models/"):
                return self._one(path, lambda listed: openai_model(listed, started_at))
            case _ if path.startswith(("/api/v0/", "/api/v1/")):
                return self._lmstudio(path) if any_of_kind(scheduler, "lmstudio") else None
            case _:
                return None

    def _lmstudio(self, path: str) -> bytes | None:
        """Its clients find out by these whether they speak to LM Studio, so a house without one has
        none of them.
        """
        match path:
            case "/api/v0/models":
                return lmstudio_v0_list(listed_models(self._scheduler))
            case "/api/v1/models":
                return lmstudio_v1_list(listed_models(self._scheduler))
            case _ if path.startswith("/api/v0/models/"):
                return self._one(path, lmstudio_v0_model)
            case _:
                return None

    def _one(self, path: str, shape: Callable[[ListedModel], bytes]) -> bytes | None:
        """What is in the list can be asked for by itself, also where its engine has no such path;
        None where it is not in the list.
        """
        name = model_in_path(b"GET", path)
        for listed in listed_models(self._scheduler):
            if listed.name == name:
                return shape(listed)
        return None
