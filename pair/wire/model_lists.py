"""The house's merged list of models, in the shapes that clients ask for it.

One entry a name, aliases included, because a client may ask for any of them. An entry of the OpenAI
list is an Anthropic entry too (`type`, `display_name`): both dialects use the same path, and each
ignores the other's fields.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pair.core.names import ModelName

_NEVER = "2318-01-01T00:00:00Z"
"""When a loaded model will be let go: Ollama's own way to say that it does not know; a past time
would show as "Stopping"."""


@dataclass(frozen=True, slots=True)
class ListedModel:
    """One name under which the house serves a model.

    Attributes:
        model: the replica's own name, equal to `name` unless that is an alias.
        nodes: how many nodes serve it.
        context_tokens: the largest of their context windows.
        resident: whether it is in the memory of one of them, as far as their engines tell.
    """

    name: ModelName
    model: ModelName
    nodes: int
    context_tokens: int | None
    resident: bool = False


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """One model in the memory of one node, as its engine tells."""

    model: ModelName
    node: str
    context_tokens: int | None


def openai_list(
    models: Sequence[ListedModel], started_at: float, *, llamacpp: bool = False
) -> bytes:
    """`GET /v1/models`; `started_at` (Unix s) stands for the creation time that nobody knows.

    With `llamacpp` it has the second list, too, that llama.cpp's own clients read.
    """
    entries = [_openai_entry(listed, started_at) for listed in models]
    ends = (
        {"first_id": entries[0]["id"], "last_id": entries[-1]["id"]}
        if entries
        else {"first_id": None, "last_id": None}
    )
    shown = {"object": "list", "data": entries, "has_more": False, **ends}
    if llamacpp:
        shown["models"] = [_llamacpp_entry(listed) for listed in models]
    return json.dumps(shown).encode()


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
        **_window(listed.context_tokens),
        **({} if listed.model == listed.name else {"root": listed.model}),
    }


def _window(context_tokens: int | None) -> dict[str, object]:
    """The context window under the names by which engines tell it: LM Studio and routers, vLLM,
    llama.cpp.
    """
    if context_tokens is None:
        return {}
    return {
        "context_length": context_tokens,
        "max_model_len": context_tokens,
        "meta": {"n_ctx": context_tokens},
    }


def _llamacpp_entry(listed: ListedModel) -> dict[str, object]:
    return {
        "name": listed.name,
        "model": listed.name,
        "modified_at": "",
        "size": "",
        "digest": "",
        "type": "model",
        "description": "",
        "tags": [""],
        "capabilities": ["completion"],
        "parameters": "",
        "details": _no_details(listed),
    }


def ollama_tags(models: Iterable[ListedModel], started_at: float) -> bytes:
    """`GET /api/tags`; what differs between nodes (sizes, digests) is made up or empty."""
    when = datetime.fromtimestamp(int(started_at), UTC).isoformat()
    entries = [
        {
            "name": listed.name,
            "model": listed.name,
            "modified_at": when,
            "size": 0,
            "digest": _digest(listed.model),
            "details": _no_details(listed),
        }
        for listed in models
    ]
    return json.dumps({"models": entries}).encode()


def ollama_ps(models: Iterable[LoadedModel]) -> bytes:
    """`GET /api/ps`, one entry a model and node; the node is named in a field more than Ollama has,
    which its clients pass over.
    """
    entries = [
        {
            "name": loaded.model,
            "model": loaded.model,
            "size": 0,
            "digest": _digest(loaded.model),
            "details": _no_details(),
            "expires_at": _NEVER,
            "size_vram": 0,
            **({} if loaded.context_tokens is None else {"context_length": loaded.context_tokens}),
            "node": loaded.node,
        }
        for loaded in models
    ]
    return json.dumps({"models": entries}).encode()


def lmstudio_v0_list(models: Iterable[ListedModel]) -> bytes:
    """`GET /api/v0/models`, LM Studio's older list."""
    return json.dumps({"object": "list", "data": [_v0_entry(each) for each in models]}).encode()


def lmstudio_v0_model(listed: ListedModel) -> bytes:
    """`GET /api/v0/models/{id}`."""
    return json.dumps(_v0_entry(listed)).encode()


def _v0_entry(listed: ListedModel) -> dict[str, object]:
    return {
        "id": listed.name,
        "object": "model",
        "type": "llm",
        "publisher": "pair",
        "arch": "",
        "compatibility_type": "gguf",
        "quantization": "",
        "state": "loaded" if listed.resident else "not-loaded",
        "max_context_length": listed.context_tokens or 0,
    }


def lmstudio_v1_list(models: Iterable[ListedModel]) -> bytes:
    """`GET /api/v1/models`, LM Studio's newer list."""
    entries = [
        {
            "type": "llm",
            "publisher": "pair",
            "key": listed.name,
            "display_name": listed.name,
            "quantization": None,
            "size_bytes": 0,
            "params_string": None,
            "loaded_instances": [
                {"id": listed.name, "config": {"context_length": listed.context_tokens or 0}}
            ]
            if listed.resident
            else [],
            "max_context_length": listed.context_tokens or 0,
            "format": None,
        }
        for listed in models
    ]
    return json.dumps({"models": entries}).encode()


def _no_details(listed: ListedModel | None = None) -> dict[str, object]:
    """Ollama's particulars of a model file; its clients read the fields without asking whether they
    are there.
    """
    return {
        "parent_model": "" if listed is None or listed.model == listed.name else listed.model,
        "format": "",
        "family": "",
        "families": [],
        "parameter_size": "",
        "quantization_level": "",
    }


def _digest(model: ModelName) -> str:
    """In place of the file's digest, which may differ between nodes: Ollama's own command line
    cuts the first 12 characters off it and crashes if they are not there.
    """
    return hashlib.sha256(model.encode()).hexdigest()
