"""Requests that change one machine: fetch, delete, copy, load or unload a model, and an engine's
other upkeep.

Separate from the rest of the API because these must not go to whichever node is free: where several
could be meant, only the client can say which. The table is of the five kinds of engines' own
documentation, read 2026-11-29.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OneNodeAct:
    """What is known of such a request from its path.

    Attributes:
        holds: the model that it names is on the node already; else it will be new there, so that
            any node with such an engine can be meant.
    """

    holds: bool


_HELD = OneNodeAct(holds=True)
_NEW = OneNodeAct(holds=False)

_POSTED = {
    # Ollama
    "/api/pull": _NEW,
    "/api/create": _NEW,
    "/api/push": _HELD,
    "/api/copy": _HELD,
    "/api/delete": _HELD,
    # LM Studio
    "/api/v1/models/download": _NEW,
    "/api/v1/models/load": _HELD,
    "/api/v1/models/unload": _HELD,
    # llama.cpp
    "/models/load": _HELD,
    "/models/unload": _HELD,
    "/lora-adapters": _HELD,
    "/props": _HELD,
    # vLLM and SGLang
    "/v1/load_lora_adapter": _NEW,
    "/v1/unload_lora_adapter": _HELD,
    "/load_lora_adapter": _NEW,
    "/unload_lora_adapter": _HELD,
    "/sleep": _HELD,
    "/wake_up": _HELD,
    "/pause": _HELD,
    "/resume": _HELD,
    "/reset_prefix_cache": _HELD,
    "/flush_cache": _HELD,
    "/abort_request": _HELD,
    "/pause_generation": _HELD,
    "/continue_generation": _HELD,
    "/release_memory_occupation": _HELD,
    "/resume_memory_occupation": _HELD,
    "/update_weights_from_disk": _HELD,
    "/start_profile": _HELD,
    "/stop_profile": _HELD,
}
_POSTED_UNDER = ("/slots/", "/api/blobs/")
_DELETED_UNDER = ("/v1/models/", "/models/", "/api/delete")


def one_node_act(method: bytes, path: str) -> OneNodeAct | None:
    """What kind of act on one node this is; None for all that any node may answer."""
    if method == b"POST":
        if path.startswith(_POSTED_UNDER):
            return _NEW if path.startswith("/api/blobs/") else _HELD
        return _POSTED.get(path)
    if method == b"DELETE":
        return _HELD if path.startswith(_DELETED_UNDER) else None
    return None
