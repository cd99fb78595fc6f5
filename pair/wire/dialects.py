"""What a path alone tells: in which dialect its client speaks, and whether it costs a generation.

Kept apart from the reading of bodies because errors need the dialect before, and often without, a
body.
"""

from __future__ import annotations

import re
from enum import StrEnum
from urllib.parse import parse_qs, unquote

from pair.wire.one_node_acts import one_node_act


class Dialect(StrEnum):
    """Whose shapes a client expects in errors and streams."""

    OPENAI = "openai"
    """Also what everything unknown is taken for, since every engine but Ollama answers errors in
    its shape."""
    ANTHROPIC = "anthropic"
    OLLAMA = "ollama"


QUERY_FIELDS_LIMIT = 64
"""Most fields of a query looked at; a request of this kind has one or two."""

_ANTHROPIC_PREFIXES = ("/v1/messages", "/v1/complete")
_OPENAI_UNDER_API = ("/api/v0/", "/api/v1/")
"""LM Studio's own paths: under `/api/` like Ollama's, with errors like OpenAI's."""

_READING_METHODS = frozenset((b"GET", b"HEAD", b"OPTIONS", b"DELETE"))

_QUESTIONS = frozenset(
    (
        "/api/show",
        "/api/me",
        "/api/experimental/web_search",
        "/api/experimental/web_fetch",
        "/tokenize",
        "/detokenize",
        "/v1/tokenize",
        "/v1/detokenize",
        "/apply-template",
        "/v1/chat/completions/render",
        "/v1/chat/completions/derender",
        "/v1/completions/render",
        "/v1/completions/derender",
        "/v1/messages/render",
        "/v1/messages/count_tokens",
        "/v1/responses/input_tokens",
        "/v1/chat/completions/input_tokens",
        "/responses/input_tokens",
        "/chat/completions/input_tokens",
    )
)
"""Asked with POST, answered without a generation, and nothing is different afterwards."""

_KEPT = (
    "/v1/conversations",
    "/v1/files",
    "/v1/batches",
    "/v1/uploads",
    "/v1/vector_stores",
    "/v1/messages/batches",
)
"""What is made and changed there costs no generation, or not now."""
_KEPT_UNDER = tuple(path + "/" for path in _KEPT)

_MODEL_NAMED_UNDER = ("/v1/", "/v2/", "/api/", "/inference/")
_NONE_NAMED = frozenset(
    (
        "/audio/transcriptions",
        "/chat/completions",
        "/classify",
        "/completion",
        "/completions",
        "/embedding",
        "/embeddings",
        "/encode",
        "/generate",
        "/generate_from_file",
        "/generate_stream",
        "/generative_scoring",
        "/infill",
        "/invocations",
        "/pooling",
        "/rerank",
        "/reranking",
        "/responses",
        "/score",
        "/vertex_generate",
    )
)
"""Generations of engines that hold one model, whose clients name none."""

_CANCELLED = "/v1/responses/"
"""What is done to one of these is light; no verb without an id is (`compact`)."""

_TOKENIZERS = frozenset(("llamacpp", "vllm", "sglang"))
_LORA_LOADERS = frozenset(("vllm", "sglang"))
_NAMING_A_FAULT = frozenset(("llamacpp", "vllm", "sglang", "ollama", "generic"))
"""All but LM Studio, which answers what it does not know with 200 and words, so that nobody could
tell that another one knows it."""

_OWN_PATHS: tuple[tuple[str, frozenset[str]], ...] = (
    ("/api/v0/", frozenset(("lmstudio",))),
    ("/api/v1/", frozenset(("lmstudio",))),
    ("/api/", frozenset(("ollama",))),
    ("/props", frozenset(("llamacpp",))),
    ("/slots", frozenset(("llamacpp",))),
    ("/lora-adapters", frozenset(("llamacpp",))),
    ("/apply-template", frozenset(("llamacpp",))),
    ("/tokenize", _TOKENIZERS),
    ("/detokenize", _TOKENIZERS),
    ("/v1/tokenize", _TOKENIZERS),
    ("/v1/detokenize", _TOKENIZERS),
    ("/models", frozenset(("llamacpp",))),
    ("/cors-proxy", frozenset(("llamacpp",))),
    ("/tools", frozenset(("llamacpp",))),
    ("/version", frozenset(("vllm",))),
    ("/generate", frozenset(("sglang",))),
    ("/v1/load_lora_adapter", _LORA_LOADERS),
    ("/v1/unload_lora_adapter", _LORA_LOADERS),
    ("/v1/", frozenset()),
    ("/", _NAMING_A_FAULT),
)
"""Paths that only some kinds of engines know; the first match counts. All others are for all."""

_MODEL_PATHS = ("/v1/models/", "/api/v0/models/", "/api/v1/models/")
_VERB_PATH = re.compile(
    r"/(?:v[0-9]\w*/)?models/(.+):(?:generateContent|streamGenerateContent|embedContent|predict)"
)
"""Google's way of naming a model, in which KServe's engines are asked, too; a POST."""
_NO_MODEL_PATH = "/api/v1/models/download/"
"""LM Studio's progress of a download, which has an id."""


def split_target(target: bytes) -> tuple[str, str]:
    """Path (still percent-encoded) and query of a request target, the absolute form included; the
    path is that of `plain_target`.
    """
    text = target.decode("latin-1")
    if not text.startswith("/") and "://" in text:
        text = "/" + text.split("://", 1)[1].partition("/")[2]
    path, _, query = text.partition("?")
    return _plain_path(path), query


def plain_target(target: bytes) -> bytes:
    """What a wrong base URL meant: `//v1/models`, `/v1/v1/models` and `/v1/models/` are one path.

    Engines answer all but the plain one with a 404 or a redirection, which turns a POST into a
    GET. A target that is plain already comes back as it is; percent-encoding and query always do.
    """
    path, mark, query = target.decode("latin-1").partition("?")
    plain = _plain_path(path)
    return target if plain is path else f"{plain}{mark}{query}".encode("latin-1")


def _plain_path(path: str) -> str:
    if "//" not in path and not path.endswith("/") and not path.startswith("/v1/v1"):
        return path
    names = [name for name in path.split("/") if name]
    while names[:2] == ["v1", "v1"]:
        del names[0]
    return "/" + "/".join(names)


def dialect_of(path: str) -> Dialect:
    """The dialect that the client of this path speaks."""
    if path.startswith("/api/"):
        return Dialect.OPENAI if path.startswith(_OPENAI_UNDER_API) else Dialect.OLLAMA
    for prefix in _ANTHROPIC_PREFIXES:
        if path == prefix or path.startswith(prefix + "/"):
            return Dialect.ANTHROPIC
    return Dialect.OPENAI


def is_light(method: bytes, path: str) -> bool:
    """Whether the request costs no generation: a list, a count, an upkeep; such a one takes no
    slot.
    """
    if method in _READING_METHODS or path in _QUESTIONS or path in _KEPT:
        return True
    if path.startswith(_KEPT_UNDER) or one_node_act(method, path) is not None:
        return True
    return path.startswith(_CANCELLED) and "/" in path[len(_CANCELLED) :]


def may_generate(path: str) -> bool:
    """Whether a request that is not light may be a generation though it names no model. Any other
    is not known to cost one.
    """
    return path.startswith(_MODEL_NAMED_UNDER) or path in _NONE_NAMED


def only_asks(method: bytes, path: str) -> bool:
    """Whether a light request may be done twice without anybody noticing: it reads, or it deletes
    what then is gone. Of one that may not nobody knows, when its connection breaks, whether it was
    done.
    """
    return method in _READING_METHODS or path in _QUESTIONS


def kinds_for(path: str) -> frozenset[str]:
    """The kinds of engines that know this path, as `ReplicaReport.engine_kind` names them; empty
    where any may. A preference, no more: an engine of no known kind may know it, too.
    """
    for prefix, kinds in _OWN_PATHS:
        if path.startswith(prefix):
            return kinds
    return frozenset()


def model_in_path(method: bytes, path: str) -> str | None:
    """The model that `/v1/models/{id}` names; an id may hold slashes, plain or percent-encoded."""
    if method == b"POST":
        named = _VERB_PATH.fullmatch(path)
        return None if named is None else unquote(named[1])
    if method not in _READING_METHODS or path.startswith(_NO_MODEL_PATH):
        return None
    for prefix in _MODEL_PATHS:
        if path.startswith(prefix):
            return unquote(path[len(prefix) :]) or None
    return None


def model_in_query(query: str) -> str | None:
    """The model that `?model=` names."""
    if "model=" not in query:
        return None
    try:
        named = parse_qs(query, max_num_fields=QUERY_FIELDS_LIMIT).get("model")
    except ValueError:
        return None
    return named[-1] if named else None
