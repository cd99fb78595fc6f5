"""What each kind of engine tells about itself: models, slots, load, version.

One small function a page, all of the same form, so that a persona is a table of them. Shapes follow
what llama.cpp answered on this project's own machine (2026-11) and the public API pages of the
others; fields that no client of ours could use are left out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from pair.bench.echo_engine.dialect import JSON, decode, encode
from pair.bench.echo_engine.dialect_anthropic import AnthropicMessages
from pair.bench.echo_engine.generation import Refusal, Workbench
from pair.bench.echo_engine.settings import EchoModel
from pair.bench.echo_engine.tokenizer import count

TEXT = "text/plain; charset=utf-8"
# Says that no real engine is there, in a form that version parsers accept.
VERSION = "0.0.0-echo"


class PageAnswer(NamedTuple):
    """A whole answer."""

    status: int
    content_type: str
    body: bytes


Page = Callable[[Workbench, bytes], PageAnswer]


class _NamedModel(msgspec.Struct):
    model: str = ""
    name: str = ""


def answer_json(content: object, status: int = 200) -> PageAnswer:
    """An answer of JSON."""
    return PageAnswer(status, JSON, encode(content))


def answer_text(content: str, status: int = 200) -> PageAnswer:
    """An answer of plain text."""
    return PageAnswer(status, TEXT, content.encode())


def names(model: EchoModel) -> Iterator[str]:
    """All names a model answers to, its own first."""
    yield model.name
    yield from model.aliases


# --- lists of models ---------------------------------------------------------------------------


def openai_models(bench: Workbench, body: bytes) -> PageAnswer:
    """GET /v1/models as most kinds give it: every name a row."""
    rows = [
        {"id": name, "object": "model", "created": 0, "owned_by": "echo"}
        for model in bench.settings.models
        for name in names(model)
    ]
    return answer_json({"object": "list", "data": rows})


def openai_model(bench: Workbench, name: str) -> PageAnswer:
    """GET /v1/models/NAME."""
    if name not in (known for model in bench.settings.models for known in names(model)):
        raise Refusal(404, "model_not_found", f"There is no model {name!r} here.")
    return answer_json({"id": name, "object": "model", "created": 0, "owned_by": "echo"})


def llamacpp_models(bench: Workbench, body: bytes) -> PageAnswer:
    """GET /v1/models of llama.cpp: aliases beside the name, the context under `meta`."""
    rows = [
        {
            "id": model.name,
            "aliases": list(names(model)),
            "object": "model",
            "created": 0,
            "owned_by": "llamacpp",
            "meta": {"n_ctx": bench.settings.context_tokens} if bench.loading_s == 0 else None,
        }
        for model in bench.settings.models
    ]
    listed = [{"name": model.name, "model": model.name} for model in bench.settings.models]
    return answer_json({"models": listed, "object": "list", "data": rows})


def vllm_models(bench: Workbench, body: bytes) -> PageAnswer:
    """GET /v1/models of vLLM and SGLang, with the context as `max_model_len`."""
    rows = [
        {
            "id": name,
            "object": "model",
            "created": 0,
            "owned_by": "vllm",
            "root": model.name,
            "max_model_len": bench.settings.context_tokens,
        }
        for model in bench.settings.models
        for name in names(model)
    ]
    return answer_json({"object": "list", "data": rows})


def lmstudio_models(bench: Workbench, body: bytes) -> PageAnswer:
    """GET /api/v0/models of LM Studio, which says what is loaded."""
    state = "loaded" if bench.loading_s == 0 else "not-loaded"
    rows = [
        {
            "id": name,
            "object": "model",
            "type": "llm",
            "publisher": "echo",
            "arch": "echo",
            "compatibility_type": "gguf",
            "quantization": "none",
            "state": state,
            "max_context_length": bench.settings.context_tokens,
            "loaded_context_length": bench.settings.context_tokens,
        }
        for model in bench.settings.models
        for name in names(model)
    ]
    return answer_json({"object": "list", "data": rows})


# --- llama.cpp ---------------------------------------------------------------------------------


def llamacpp_health(bench: Workbench, body: bytes) -> PageAnswer:
    """GET /health."""
    return answer_json({"status": "ok"})


def llamacpp_props(bench: Workbench, body: bytes) -> PageAnswer:
    """GET /props."""
    settings = bench.settings
    return answer_json(
        {
            "default_generation_settings": {"n_ctx": settings.context_tokens},
            "total_slots": settings.slots,
            "model_alias": settings.models[0].name,
            "model_path": f"/echo/{settings.models[0].name}.gguf",
            "modalities": {"vision": False, "audio": False},
            "endpoint_slots": True,
            "endpoint_props": False,
            "endpoint_metrics": True,
            "build_info": VERSION,
        }
    )


def llamacpp_slots(bench: Workbench, body: bytes) -> PageAnswer:
    """GET /slots."""
    return answer_json(
        [
            {
                "id": slot.number,
                "n_ctx": bench.settings.context_tokens,
                "speculative": False,
                "is_processing": slot.busy,
                "n_prompt_tokens": count(slot.held),
            }
            for slot in bench.slots.all
        ]
    )


def llamacpp_metrics(bench: Workbench, body: bytes) -> PageAnswer:
    """GET /metrics of llama.cpp."""
    counters = bench.journal.counters
    return answer_text(
        "".join(
            (
                _metric("llamacpp:prompt_tokens_total", "counter", counters.prompt_tokens),
                _metric("llamacpp:prompt_tokens_cached_total", "counter", counters.cached_tokens),
                _metric("llamacpp:prompt_seconds_total", "counter", counters.prefill_s),
                _metric("llamacpp:tokens_predicted_total", "counter", counters.output_tokens),
                _metric("llamacpp:tokens_predicted_seconds_total", "counter", counters.decode_s),
                _metric("llamacpp:requests_processing", "gauge", counters.running),
                _metric("llamacpp:requests_deferred", "gauge", counters.waiting),
            )
        )
    )


# --- Ollama ------------------------------------------------------------------------------------


def ollama_root(bench: Workbench, body: bytes) -> PageAnswer:
    """GET and HEAD /, by which clients see that Ollama is there."""
    return answer_text("Ollama is running")


def ollama_version(bench: Workbench, body: bytes) -> PageAnswer:
    """GET /api/version."""
    return answer_json({"version": VERSION})


def ollama_tags(bench: Workbench, body: bytes) -> PageAnswer:
    """GET /api/tags: what is on disk."""
    rows = [_ollama_row(name) for model in bench.settings.models for name in names(model)]
    return answer_json({"models": rows})


def ollama_ps(bench: Workbench, body: bytes) -> PageAnswer:
    """GET /api/ps: what is in memory."""
    loaded = bench.settings.models if bench.loading_s == 0 else ()
    rows = [
        {**_ollama_row(model.name), "context_length": bench.settings.context_tokens, "size_vram": 0}
        for model in loaded
    ]
    return answer_json({"models": rows})


def ollama_show(bench: Workbench, body: bytes) -> PageAnswer:
    """POST /api/show."""
    asked = decode(body, _NamedModel)
    name = asked.model or asked.name
    if name not in (known for model in bench.settings.models for known in names(model)):
        raise Refusal(404, "model_not_found", f"model '{name}' not found")
    facts = {"general.architecture": "echo", "echo.context_length": bench.settings.context_tokens}
    return answer_json(
        {
            "details": _ollama_details(),
            "model_info": facts,
            "capabilities": ["completion", "tools", "embedding"],
        }
    )


def _ollama_row(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "model": name,
        "modified_at": "2026-01-01T00:00:00Z",
        "size": 0,
        "digest": hashlib.sha256(name.encode()).hexdigest(),
        "details": _ollama_details(),
    }


def _ollama_details() -> dict[str, object]:
    return {"format": "gguf", "family": "echo", "families": ["echo"], "parameter_size": "0B"}


# --- vLLM and SGLang ---------------------------------------------------------------------------


def empty_health(bench: Workbench, body: bytes) -> PageAnswer:
    """GET /health of vLLM and SGLang: the status says it all."""
    return answer_text("")


def vllm_version(bench: Workbench, body: bytes) -> PageAnswer:
    """GET /version."""
    return answer_json({"version": VERSION})


def vllm_metrics(bench: Workbench, body: bytes) -> PageAnswer:
    """GET /metrics of vLLM."""
    counters = bench.journal.counters
    label = f'{{engine="0",model_name="{bench.settings.models[0].name}"}}'
    read = counters.prompt_tokens + counters.cached_tokens
    return answer_text(
        "".join(
            (
                _metric("vllm:num_requests_running", "gauge", counters.running, label),
                _metric("vllm:num_requests_waiting", "gauge", counters.waiting, label),
                _metric("vllm:prefix_cache_queries_total", "counter", read, label),
                _metric("vllm:prefix_cache_hits_total", "counter", counters.cached_tokens, label),
                _metric("vllm:prompt_tokens_total", "counter", read, label),
                _metric("vllm:generation_tokens_total", "counter", counters.output_tokens, label),
            )
        )
    )


def sglang_model(bench: Workbench, body: bytes) -> PageAnswer:
    """GET /get_model_info."""
    path = bench.settings.models[0].name
    return answer_json({"model_path": path, "is_generation": True})


def sglang_settings(bench: Workbench, body: bytes) -> PageAnswer:
    """GET /get_server_info."""
    return answer_json(
        {
            "model_path": bench.settings.models[0].name,
            "served_model_name": bench.settings.models[0].name,
            "context_length": bench.settings.context_tokens,
            "max_running_requests": bench.settings.slots,
            "version": VERSION,
        }
    )


def sglang_metrics(bench: Workbench, body: bytes) -> PageAnswer:
    """GET /metrics of SGLang."""
    counters = bench.journal.counters
    label = f'{{model_name="{bench.settings.models[0].name}"}}'
    read = counters.prompt_tokens + counters.cached_tokens
    hit_rate = counters.cached_tokens / read if read else 0.0
    return answer_text(
        "".join(
            (
                _metric("sglang:num_running_reqs", "gauge", counters.running, label),
                _metric("sglang:num_queue_reqs", "gauge", counters.waiting, label),
                _metric("sglang:cache_hit_rate", "gauge", hit_rate, label),
                _metric("sglang:prompt_tokens_total", "counter", counters.prompt_tokens, label),
                _metric("sglang:generation_tokens_total", "counter", counters.output_tokens, label),
            )
        )
    )


# --- for several kinds -------------------------------------------------------------------------


def anthropic_count(bench: Workbench, body: bytes) -> PageAnswer:
    """POST /v1/messages/count_tokens."""
    call = AnthropicMessages().read(body)
    return answer_json({"input_tokens": count(call.prompt)})


def _metric(name: str, kind: str, value: float, label: str = "") -> str:
    """One metric in Prometheus' text format."""
    return f"# TYPE {name} {kind}\n{name}{label} {value:.6g}\n"
