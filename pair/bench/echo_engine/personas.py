"""The kinds of engine an echo engine can look like, each a table of paths and manners.

Each answers its own kind's paths and no others, so that whoever tells engines apart by probing can
be tested. What differs beyond paths is what a router notices: when the head of a streamed answer
comes, what a model that is still loading means, and whether an unknown model is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pair.bench.echo_engine import status_pages as pages
from pair.bench.echo_engine.dialect import Dialect
from pair.bench.echo_engine.dialect_anthropic import AnthropicMessages
from pair.bench.echo_engine.dialect_ollama import OllamaChat, OllamaEmbed, OllamaGenerate
from pair.bench.echo_engine.dialect_openai import (
    OpenAIChat,
    OpenAICompletion,
    OpenAIEmbeddings,
)
from pair.bench.echo_engine.dialect_responses import OpenAIResponses
from pair.bench.echo_engine.settings import PersonaName
from pair.bench.echo_engine.status_pages import Page, PageAnswer


@dataclass(frozen=True)
class Persona:
    """How one kind of engine looks from outside.

    Attributes:
        work: dialect by path, all for POST.
        status: page by (method, path).
        unknown_path: the answer to any other path.
        errors: words the refusals on status pages.
        headers: lines that every answer of this kind carries.
        head_at_once: a streamed answer's head comes on arrival, not with the first token.
        holds_while_loading: a request waits until the model is loaded; else it gets a 503.
        any_model: the one model it has answers to every name.
        open_paths: answered without the API key.
        model_pages: below this path each model has a page; empty if it has none.
    """

    work: Mapping[str, Dialect]
    status: Mapping[tuple[str, str], Page]
    unknown_path: PageAnswer
    errors: Dialect
    headers: tuple[tuple[str, str], ...] = ()
    head_at_once: bool = False
    holds_while_loading: bool = False
    any_model: bool = False
    open_paths: frozenset[str] = frozenset()
    model_pages: str = ""


def persona(name: PersonaName) -> Persona:
    """The persona of that name."""
    return _PERSONAS[name]


def _openai_work(*, llamacpp: bool = False) -> dict[str, Dialect]:
    return {
        "/v1/chat/completions": OpenAIChat(llamacpp=llamacpp),
        "/v1/completions": OpenAICompletion(llamacpp=llamacpp),
        "/v1/embeddings": OpenAIEmbeddings(llamacpp=llamacpp),
    }


def _all_work(*, llamacpp: bool = False) -> dict[str, Dialect]:
    return {
        **_openai_work(llamacpp=llamacpp),
        "/v1/responses": OpenAIResponses(llamacpp=llamacpp),
        "/v1/messages": AnthropicMessages(),
    }


_OPENAI_ERRORS = OpenAIChat(llamacpp=False)
_NOT_FOUND = {"error": {"message": "There is nothing at this path.", "type": "not_found_error"}}
_FASTAPI_NOT_FOUND = pages.answer_json({"detail": "Not Found"}, 404)
_COUNT_TOKENS = {("POST", "/v1/messages/count_tokens"): pages.anthropic_count}

_LLAMACPP = Persona(
    # The chat without a prefix is llama.cpp's own; its clients name no model there.
    work=_all_work(llamacpp=True) | {"/chat/completions": OpenAIChat(llamacpp=True)},
    status={
        ("GET", "/health"): pages.llamacpp_health,
        ("GET", "/v1/health"): pages.llamacpp_health,
        ("GET", "/props"): pages.llamacpp_props,
        ("GET", "/slots"): pages.llamacpp_slots,
        ("GET", "/metrics"): pages.llamacpp_metrics,
        ("GET", "/models"): pages.llamacpp_models,
        ("GET", "/v1/models"): pages.llamacpp_models,
        **_COUNT_TOKENS,
    },
    unknown_path=pages.answer_json(
        {"error": {"message": "File Not Found", "type": "not_found_error", "code": 404}}, 404
    ),
    errors=OpenAIChat(llamacpp=True),
    headers=(("Server", "llama.cpp"),),
    any_model=True,
    open_paths=frozenset({"/health", "/v1/health", "/models", "/v1/models"}),
)

_OLLAMA = Persona(
    work={
        **_all_work(),
        "/api/chat": OllamaChat(),
        "/api/generate": OllamaGenerate(),
        "/api/embed": OllamaEmbed(),
    },
    status={
        ("GET", "/"): pages.ollama_root,
        ("GET", "/api/version"): pages.ollama_version,
        ("GET", "/api/tags"): pages.ollama_tags,
        ("GET", "/api/ps"): pages.ollama_ps,
        ("POST", "/api/show"): pages.ollama_show,
        ("GET", "/v1/models"): pages.openai_models,
    },
    unknown_path=pages.answer_text("404 page not found", 404),
    errors=OllamaChat(),
    holds_while_loading=True,
    open_paths=frozenset({"/"}),
    model_pages="/v1/models/",
)

_LMSTUDIO = Persona(
    work=_all_work(),
    status={
        ("GET", "/v1/models"): pages.openai_models,
        ("GET", "/api/v0/models"): pages.lmstudio_models,
    },
    # LM Studio answers 200 to what it does not know; detection that trusts the status falls for it.
    unknown_path=pages.answer_json({"error": "Unexpected endpoint or method."}),
    errors=_OPENAI_ERRORS,
    headers=(("X-Powered-By", "Express"),),
    head_at_once=True,
    holds_while_loading=True,
)

_VLLM = Persona(
    work=_all_work(),
    status={
        ("GET", "/health"): pages.empty_health,
        ("GET", "/version"): pages.vllm_version,
        ("GET", "/metrics"): pages.vllm_metrics,
        ("GET", "/v1/models"): pages.vllm_models,
        **_COUNT_TOKENS,
    },
    unknown_path=_FASTAPI_NOT_FOUND,
    errors=_OPENAI_ERRORS,
    headers=(("server", "uvicorn"),),
    head_at_once=True,
    open_paths=frozenset({"/health", "/version", "/metrics"}),
)

_SGLANG = Persona(
    work=_all_work(),
    status={
        ("GET", "/health"): pages.empty_health,
        ("GET", "/get_model_info"): pages.sglang_model,
        ("GET", "/get_server_info"): pages.sglang_settings,
        ("GET", "/metrics"): pages.sglang_metrics,
        ("GET", "/v1/models"): pages.vllm_models,
    },
    unknown_path=_FASTAPI_NOT_FOUND,
    errors=_OPENAI_ERRORS,
    headers=(("server", "uvicorn"),),
    open_paths=frozenset({"/health", "/metrics"}),
)

_GENERIC = Persona(
    work=_openai_work(),
    status={("GET", "/v1/models"): pages.openai_models},
    unknown_path=pages.answer_json(_NOT_FOUND, 404),
    errors=_OPENAI_ERRORS,
    model_pages="/v1/models/",
)

_PERSONAS: dict[PersonaName, Persona] = {
    "llamacpp": _LLAMACPP,
    "ollama": _OLLAMA,
    "lmstudio": _LMSTUDIO,
    "vllm": _VLLM,
    "sglang": _SGLANG,
    "generic": _GENERIC,
}
