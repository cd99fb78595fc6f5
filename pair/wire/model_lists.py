"""The house's merged list of models, in the shapes that clients ask for it.

One entry a name, aliases included, because a client may ask for any of them. An entry of the OpenAI
list is an Anthropic entry too (`type`, `display_name`): both dialects use the same path, and each
ignores the other's fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from pair.core.names import ModelName


@dataclass(frozen=True, slots=True)
class ListedModel:
    """One name under which the house serves a model.

    Attributes:
        model: the replica's own name, equal to `name` unless that is an alias.
        nodes: how many nodes serve it.
    """

    name: ModelName
    model: ModelName
    nodes: int
    context_tokens: int | None


def openai_list(models: Iterable[ListedModel], started_at: float) -> bytes:
    """`GET /v1/models`; `started_at` (Unix s) stands for the creation time that nobody knows."""
    entries = [_openai_entry(listed, started_at) for listed in models]
    ends = (
        {"first_id": entries[0]["id"], "last_id": entries[-1]["id"]}
        if entries
        else {"first_id": None, "last_id": None}
    )
    return json.dumps({"object": "list", "data": entries, "has_more": False, **ends}).encode()


def openai_model(listed: ListedModel, started_at: float) -> bytes:
    """`GET /v1/models/{id}`: the same entry, alone."""
    return json.dumps(_openai_entry(listed, started_at)).encode()


def _openai_entry(listed: ListedModel, started_at: float) -> dict[str, object]:
    when = datetime.fromtimestamp(int(started_at), UTC).isoformat().replace("+00:00", "Z")
    return {
        "id": listed.name,
        "object": "model",
        "created": int(started_at),
        "owned_by": "pair",
        "type": "model",
        "display_name": listed.name,
        "created_at": when,
        "nodes": listed.nodes,
        **({} if listed.context_tokens is None else {"context_length": listed.context_tokens}),
        **({} if listed.model == listed.name else {"root": listed.model}),
    }


def ollama_tags(models: Iterable[ListedModel], started_at: float) -> bytes:
    """`GET /api/tags`; sizes and digests differ between nodes, so they are left empty."""
    when = datetime.fromtimestamp(int(started_at), UTC).isoformat()
    entries = [
        {
            "name": listed.name,
            "model": listed.name,
            "modified_at": when,
            "size": 0,
            "digest": "",
            "details": {
                "parent_model": "" if listed.model == listed.name else listed.model,
                "format": "",
                "family": "",
                "families": [],
                "parameter_size": "",
                "quantization_level": "",
            },
        }
        for listed in models
    ]
    return json.dumps({"models": entries}).encode()
