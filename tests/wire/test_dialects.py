"""What a path alone tells."""

from __future__ import annotations

import pytest

from pair.wire.dialects import (
    Dialect,
    dialect_of,
    is_light,
    kinds_for,
    model_in_path,
    model_in_query,
    only_asks,
    plain_target,
    split_target,
)


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"/v1/models?model=a&b=c", "/v1/models", "model=a&b=c"),
        (b"/v1/chat/completions", "/v1/chat/completions", ""),
        (b"http://127.0.0.1:7247/v1/models?x=1", "/v1/models", "x=1"),
        (b"/redirect?to=http://elsewhere/", "/redirect", "to=http://elsewhere/"),
        (b"*", "*", ""),
        (b"/caf\xc3\xa9", "/caf\u00c3\u00a9", ""),
    ],
)
def test_a_target_splits_into_path_and_query(target: bytes, path: str, query: str) -> None:
    assert split_target(target) == (path, query)


@pytest.mark.parametrize(
    ("target", "plain"),
    [
        (b"//v1/models", b"/v1/models"),
        (b"/v1//chat///completions", b"/v1/chat/completions"),
        (b"/v1/v1/models?x=//&y=/", b"/v1/models?x=//&y=/"),
        (b"//v1/v1//v1/chat/completions/", b"/v1/chat/completions"),
        (b"/v1/v10/x", b"/v1/v10/x"),
        (b"/v1/models/a%2F%2fb/", b"/v1/models/a%2F%2fb"),
        (b"//", b"/"),
        (b"/", b"/"),
        (b"*", b"*"),
    ],
)
def test_what_a_wrong_base_url_meant(target: bytes, plain: bytes) -> None:
    assert plain_target(target) == plain
    assert split_target(target) == split_target(plain)


@pytest.mark.parametrize("target", [b"/v1/models", b"/v1/x%20y?a=%2F&b=+", b"/api/chat?/"])
def test_a_plain_target_comes_back_as_it_is(target: bytes) -> None:
    assert plain_target(target) is target


@pytest.mark.parametrize(
    ("path", "dialect"),
    [
        ("/v1/chat/completions", Dialect.OPENAI),
        ("/v1/completions", Dialect.OPENAI),
        ("/v1/responses", Dialect.OPENAI),
        ("/v1/messages", Dialect.ANTHROPIC),
        ("/v1/messages/count_tokens", Dialect.ANTHROPIC),
        ("/v1/complete", Dialect.ANTHROPIC),
        ("/v1/messages2", Dialect.OPENAI),
        ("/api/chat", Dialect.OLLAMA),
        ("/api/tags", Dialect.OLLAMA),
        ("/api/v0/models", Dialect.OPENAI),
        ("/api/v1/models", Dialect.OPENAI),
        ("/props", Dialect.OPENAI),
        ("/", Dialect.OPENAI),
    ],
)
def test_the_dialect_follows_the_path(path: str, dialect: Dialect) -> None:
    assert dialect_of(path) is dialect


@pytest.mark.parametrize(
    ("method", "path", "light"),
    [
        (b"GET", "/v1/models", True),
        (b"HEAD", "/", True),
        (b"OPTIONS", "/v1/chat/completions", True),
        (b"DELETE", "/api/delete", True),
        (b"POST", "/api/show", True),
        (b"POST", "/tokenize", True),
        (b"POST", "/v1/messages/count_tokens", True),
        (b"POST", "/models/load", True),
        (b"POST", "/slots/0", True),
        (b"POST", "/api/pull", True),
        (b"POST", "/v1/files", True),
        (b"POST", "/v1/batches", True),
        (b"POST", "/v1/conversations/conv_1/items", True),
        (b"POST", "/v1/responses/resp_1/cancel", True),
        (b"POST", "/v1/responses/compact", False),
        (b"POST", "/v1/responses", False),
        (b"POST", "/api/generate", False),
        (b"POST", "/api/embed", False),
        (b"POST", "/v1/chat/completions", False),
        (b"POST", "/v1/messages", False),
        (b"POST", "/v1/embeddings", False),
        (b"POST", "/v1/chat/completions/batch", False),
        (b"POST", "/v1/responses/anything", False),
        (b"POST", "/v1/models/m:predict", False),
        (b"POST", "/v1/filesystem", False),
        (b"POST", "/v1/chat/completions/input_tokens", True),
        (b"POST", "/v1/completions/render", True),
        (b"POST", "/api/me", True),
        (b"POST", "/unknown", False),
    ],
)
def test_only_what_costs_no_generation_is_light(method: bytes, path: str, light: bool) -> None:
    assert is_light(method, path) is light


@pytest.mark.parametrize(
    ("method", "path", "asks"),
    [
        (b"GET", "/v1/files", True),
        (b"DELETE", "/v1/files/f", True),
        (b"POST", "/tokenize", True),
        (b"POST", "/v1/files", False),
        (b"POST", "/v1/batches/b/cancel", False),
        (b"POST", "/tools", False),
        (b"PUT", "/v1/anything", False),
    ],
)
def test_what_only_asks_may_be_done_twice(method: bytes, path: str, asks: bool) -> None:
    assert only_asks(method, path) is asks


@pytest.mark.parametrize(
    ("path", "kinds"),
    [
        ("/api/version", {"ollama"}),
        ("/api/ps", {"ollama"}),
        ("/api/v0/models", {"lmstudio"}),
        ("/props", {"llamacpp"}),
        ("/slots/0", {"llamacpp"}),
        ("/tokenize", {"llamacpp", "vllm", "sglang"}),
        ("/v1/models", set()),
        ("/v1/unknown", set()),
        ("/unknown", {"llamacpp", "vllm", "sglang", "ollama", "generic"}),
        ("/version", {"vllm"}),
        ("/generate", {"sglang"}),
        ("/models/load", {"llamacpp"}),
    ],
)
def test_some_paths_only_some_engines_know(path: str, kinds: set[str]) -> None:
    assert kinds_for(path) == kinds


@pytest.mark.parametrize(
    ("method", "path", "model"),
    [
        (b"GET", "/v1/models/llama3", "llama3"),
        (b"GET", "/v1/models/Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
        (b"GET", "/v1/models/Qwen%2FQwen3%3A8b", "Qwen/Qwen3:8b"),
        (b"DELETE", "/v1/models/ft:mine", "ft:mine"),
        (b"GET", "/api/v0/models/x", "x"),
        (b"GET", "/v1/models/", None),
        (b"GET", "/v1/models", None),
        (b"POST", "/api/v1/models/load", None),
        (b"POST", "/v1beta/models/qwen%2F3:8b:generateContent", "qwen/3:8b"),
        (b"POST", "/v1/models/m:predict", "m"),
        (b"POST", "/v1/models/m:8b", None),
        (b"GET", "/api/v1/models/download/status/job_1", None),
    ],
)
def test_a_path_may_name_a_model(method: bytes, path: str, model: str | None) -> None:
    assert model_in_path(method, path) == model


@pytest.mark.parametrize(
    ("query", "model"),
    [
        ("model=a", "a"),
        ("x=1&model=Qwen%2F3+b", "Qwen/3 b"),
        ("model=a&model=b", "b"),
        ("supermodel=a", None),
        ("model=", None),
        ("&".join(["model=a"] * 100), None),
        ("", None),
    ],
)
def test_a_query_may_name_a_model(query: str, model: str | None) -> None:
    assert model_in_query(query) == model
