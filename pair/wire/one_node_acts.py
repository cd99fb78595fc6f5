"""Requests that change one machine: fetch, delete, copy, load or unload a model, and an engine's
other upkeep.

Separate from the rest of the API because these must not go to whichever node is free: where several
could be meant, only the client can say which. The table is of the engines' own words, read
2026-11-29: Ollama's `docs/api.md` and `server/routes.go`, LM Studio's REST documentation,
llama.cpp's `tools/server` (README and `server.cpp`), SGLang's `http_server.py`, and of vLLM's
routers those of `serve/dev`, `serve/disagg` and LoRA. vLLM and SGLang have more for training, which
change from one release to the next.
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


_POSTING = frozenset((b"POST", b"PUT"))

_HELD = OneNodeAct(holds=True)
_NEW = OneNodeAct(holds=False)

_POSTED = {
    # Ollama
    "/api/pull": _NEW,
    "/api/create": _NEW,
    "/api/push": _HELD,
    "/api/copy": _HELD,
    "/api/delete": _HELD,
    "/api/signout": _HELD,
    # LM Studio
    "/api/v1/models/download": _NEW,
    "/api/v1/models/load": _HELD,
    "/api/v1/models/unload": _HELD,
    # llama.cpp
    "/models": _NEW,
    "/v1/chat/completions/control": _HELD,
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
    "/reset_mm_cache": _HELD,
    "/reset_encoder_cache": _HELD,
    "/abort_requests": _HELD,
    "/collective_rpc": _HELD,
    "/scale_elastic_ep": _HELD,
    "/init_weight_transfer_engine": _HELD,
    "/start_weight_update": _HELD,
    "/start_draft_weight_update": _HELD,
    "/update_weights": _HELD,
    "/finish_weight_update": _HELD,
    "/weight_checker": _HELD,
    "/abort_request": _HELD,
    "/pause_generation": _HELD,
    "/continue_generation": _HELD,
    "/update_weights_from_disk": _HELD,
    "/update_weights_from_tensor": _HELD,
    "/update_weights_from_distributed": _HELD,
    "/update_weights_from_ipc": _HELD,
    "/update_weight_version": _HELD,
    "/init_weights_update_group": _HELD,
    "/destroy_weights_update_group": _HELD,
    "/init_weights_send_group_for_remote_instance": _HELD,
    "/send_weights_to_remote_instance": _HELD,
    "/set_internal_state": _HELD,
}
_ALSO_BY_GET = frozenset(
    (
        "/flush_cache",
        "/clear_hicache_storage_backend",
        "/start_profile",
        "/stop_profile",
        "/freeze_gc",
        "/start_expert_distribution_record",
        "/stop_expert_distribution_record",
        "/dump_expert_distribution_record",
        "/release_memory_occupation",
        "/resume_memory_occupation",
        "/slow_down",
        "/open_session",
        "/close_session",
        "/configure_logging",
    )
)
"""SGLang takes these by GET, too (vLLM has some of them, by POST)."""
_POSTED_UNDER = ("/slots/", "/api/blobs/")
_DELETED = frozenset(("/models", "/api/delete"))
_DELETED_UNDER = ("/v1/models/", "/models/", "/api/user/keys/")


def one_node_act(method: bytes, path: str) -> OneNodeAct | None:
    """What kind of act on one node this is; None for all that any node may answer."""
    if method in _POSTING:
        if path.startswith(_POSTED_UNDER):
            return _NEW if path.startswith("/api/blobs/") else _HELD
        return _HELD if path in _ALSO_BY_GET else _POSTED.get(path)
    if method == b"DELETE":
        deletes = path in _DELETED or path.startswith(_DELETED_UNDER)
        return _HELD if deletes else None
    return _HELD if method == b"GET" and path in _ALSO_BY_GET else None


def act_by_query(method: bytes, path: str, query: str) -> OneNodeAct | None:
    """The same for a list that llama.cpp is to read anew from its files before it answers."""
    reloads = "reload=" in query and path == "/models" and method == b"GET"
    return _NEW if reloads else None
