"""Engines' words, as failed attempts or as the client's own answers."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pair.core.events import FailureKind
from pair.wire.dialects import Dialect
from pair.wire.engine_errors import (
    DETAIL_LIMIT_CHARS,
    RETRY_AFTER_LIMIT_S,
    classify_answer,
    may_be_failure,
)
from pair.wire.errors import NODE_BUSY, NODE_DRAINING, own_error


def nothing(_: bytes) -> None:
    return None


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (502, b"<html>Bad Gateway</html>", FailureKind.BAD_GATEWAY),
        (504, b"", FailureKind.BAD_GATEWAY),
        (503, b"", FailureKind.BAD_GATEWAY),
        (503, b'{"error":{"message":"out of order"}}', FailureKind.BAD_GATEWAY),
        (
            503,
            b'{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}',
            FailureKind.LOADING,
        ),
        (
            503,
            b'{"error":"server busy, please try again.  maximum pending requests exceeded"}',
            FailureKind.BUSY,
        ),
        (503, b'{"error":{"message":"no slot available"}}', FailureKind.BUSY),
        (503, b"Server overloaded", FailureKind.BUSY),
        (529, b'{"type":"error","error":{"type":"overloaded_error"}}', FailureKind.BUSY),
        (429, b"", FailureKind.RATE_LIMITED),
        (429, b'{"error":{"message":"slow down"}}', FailureKind.RATE_LIMITED),
        (500, b'{"error":{"message":"CUDA error"}}', FailureKind.ENGINE_ERROR),
        (404, b'{"error":"model \'llama3:8b\' not found"}', FailureKind.NO_SUCH_MODEL),
        (
            404,
            b'{"error":"model \\"llama3\\" not found, try pulling it first"}',
            FailureKind.NO_SUCH_MODEL,
        ),
        (
            404,
            b'{"object":"error","message":"The model `x` does not exist.","code":404}',
            FailureKind.NO_SUCH_MODEL,
        ),
        (
            404,
            b'{"error":{"message":"gone","type":"x","code":"model_not_found"}}',
            FailureKind.NO_SUCH_MODEL,
        ),
        (400, b'{"error":{"message":"no","code":"model_not_found"}}', FailureKind.NO_SUCH_MODEL),
    ],
)
def test_a_failed_attempt_has_its_kind(status: int, body: bytes, kind: FailureKind) -> None:
    failure = classify_answer(status, nothing, body)
    assert failure is not None
    assert failure.kind is kind
    assert str(status) in failure.detail
    assert failure.retry_after_s is None


@pytest.mark.parametrize("status", [200, 204, 206, 301, 304, 401, 403, 405, 413, 415, 422, 501])
def test_what_is_the_clients_goes_to_the_client(status: int) -> None:
    assert not may_be_failure(status)
    assert classify_answer(status, nothing, b'{"error":"model x not found"}') is None


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b"404 page not found"),
        (404, b'{"error":{"message":"File Not Found","type":"not_found_error","code":404}}'),
        (404, b""),
        (400, b'{"error":"model x not found in template"}'),
        (400, b'{"error":{"message":"the request exceeds the available context size"}}'),
    ],
)
def test_a_refusal_of_the_request_itself_goes_to_the_client(status: int, body: bytes) -> None:
    assert classify_answer(status, nothing, body) is None


# Each with where its engine says it (read 2026-11).
WORDINGS = [
    # llama.cpp, tools/server/server-http.cpp, middleware_server_state
    (
        503,
        '{"error":{"message":"Loading model","type":"unavailable_error","code":503}}',
        FailureKind.LOADING,
    ),
    # llama.cpp, server-context.cpp, get_slots with fail_on_no_slot
    (503, '{"error":{"message":"no slot available","code":503}}', FailureKind.BUSY),
    # llama.cpp, server-models.cpp, router_validate_model, now and in 2025
    (400, '{"error":{"message":"model \'x\' not found","code":400}}', FailureKind.NO_SUCH_MODEL),
    (400, '{"error":{"message":"model not found","code":400}}', FailureKind.NO_SUCH_MODEL),
    (400, '{"error":{"message":"model is not loaded","code":400}}', FailureKind.NO_SUCH_MODEL),
    # Ollama, server/sched.go, ErrMaxQueue, and server/routes.go
    (
        503,
        '{"error":"server busy, please try again.  maximum pending requests exceeded"}',
        FailureKind.BUSY,
    ),
    (404, '{"error":"model \'x\' not found"}', FailureKind.NO_SUCH_MODEL),
    (404, '{"error":"model \\"x\\" not found, try pulling it first"}', FailureKind.NO_SUCH_MODEL),
    # Ollama, llm/llama_server.go "unexpected server status: %s" with the words of llm/server.go
    (500, '{"error":"unexpected server status: llm busy - no slots available"}', FailureKind.BUSY),
    (500, '{"error":"unexpected server status: llm server loading model"}', FailureKind.LOADING),
    (
        500,
        '{"error":"unexpected server status: llm server not responding"}',
        FailureKind.ENGINE_ERROR,
    ),
    # Ollama, llm/status.go and older llm/memory.go: broken or out of memory, whatever they load
    (
        500,
        '{"error":"llama-server process has terminated: error loading model"}',
        FailureKind.ENGINE_ERROR,
    ),
    (
        500,
        '{"error":"model requires more system memory (63 GiB) than is available (18 GiB)"}',
        FailureKind.ENGINE_ERROR,
    ),
    # LM Studio, as its users quote it
    (404, '{"error":{"message":"No models loaded. Please load a"}}', FailureKind.NO_SUCH_MODEL),
    (400, '{"error":{"message":"No models loaded. Please load a"}}', FailureKind.NO_SUCH_MODEL),
    (
        400,
        '{"error":{"message":"Failed to load model \\"x\\". Error: stopped due to insufficient"}}',
        FailureKind.ENGINE_ERROR,
    ),
    # vLLM, entrypoints/openai/serving_engine.py, _check_model; torch's own words
    (
        404,
        '{"error":{"message":"The model `x` does not exist.","type":"NotFoundError","code":404}}',
        FailureKind.NO_SUCH_MODEL,
    ),
    (
        500,
        '{"error":{"message":"CUDA out of memory. Tried to allocate 2 GiB"}}',
        FailureKind.ENGINE_ERROR,
    ),
    # SGLang, srt/managers/scheduler.py, _abort_on_queued_limit
    (503, '{"error":{"message":"The request queue is full.","code":503}}', FailureKind.BUSY),
    (
        503,
        '{"message":"The request is aborted by a higher priority request."}',
        FailureKind.BUSY,
    ),
]


@pytest.mark.parametrize(("status", "body", "kind"), WORDINGS)
def test_what_engines_really_say(status: int, body: str, kind: FailureKind) -> None:
    failure = classify_answer(status, nothing, body.encode())
    assert failure is not None
    assert failure.kind is kind


TOO_LONG = [
    # llama.cpp, server-context.cpp, over the years
    "request (9412 tokens) exceeds the available context size (8192 tokens), try increasing it",
    "the request exceeds the available context size. try increasing the context size",
    "input is larger than the max context size. skipping",
    "input (3926 tokens) is too large to process. increase the physical batch size",
    "Context size has been exceeded.",
    # Ollama, server/routes.go
    "the input length exceeds the context length",
    "input length exceeds maximum context length",
    # LM Studio, as its users quote it
    "Trying to keep the first 9000 tokens when context the overflows. However, [...]",
    "[...] the model is loaded with context length of only 4096 tokens, which is not enough.",
    # vLLM, entrypoints/openai/serving_engine.py and v1/engine/processor.py
    "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens",
    "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
    # SGLang, srt/managers/tokenizer_manager.py
    "The input (10009 tokens) is longer than the model's context length (8192 tokens).",
    "Requested token count exceeds the model's maximum context length of 8192 tokens.",
]


@pytest.mark.parametrize("status", [400, 500, 503])
@pytest.mark.parametrize("words", TOO_LONG)
def test_a_prompt_that_does_not_fit_is_the_clients_with_any_status(status: int, words: str) -> None:
    for shape in ({"error": {"message": words, "code": status}}, {"error": words}):
        assert classify_answer(status, nothing, json.dumps(shape).encode()) is None


@pytest.mark.parametrize("dialect", list(Dialect))
@pytest.mark.parametrize("code", [NODE_BUSY, NODE_DRAINING])
def test_a_full_node_is_busy_in_every_dialect(dialect: Dialect, code: str) -> None:
    failure = classify_answer(503, nothing, own_error(dialect, 503, code, "One moment."))
    assert failure is not None
    assert failure.kind is FailureKind.BUSY


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (b"3", 3.0),
        (b"0.5", 0.5),
        (b"0", 0.0),
        (b"1e9", RETRY_AFTER_LIMIT_S),
        (b"-1", None),
        (b"nan", None),
        (b"Wed, 21 Oct 2015 07:28:00 GMT", None),
    ],
)
def test_the_nodes_own_word_on_when_to_come_back(value: bytes, seconds: float | None) -> None:
    failure = classify_answer(429, {b"retry-after": value}.get, b"")
    assert failure is not None
    assert failure.retry_after_s == seconds


def test_the_detail_is_one_short_line() -> None:
    failure = classify_answer(500, nothing, b'{"error":"a\\r\\nb\\u0000c ' + b"x" * 9000 + b'"}')
    assert failure is not None
    assert failure.detail.startswith("status 500: a b c x")
    assert failure.detail.isprintable()
    assert len(failure.detail) < DETAIL_LIMIT_CHARS + 20


@given(st.sampled_from([400, 404, 429, 500, 502, 503]), st.binary(max_size=100))
def test_any_body_gives_a_verdict(status: int, body: bytes) -> None:
    failure = classify_answer(status, nothing, body)
    assert failure is None or failure.detail.isprintable()


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"error":{"message":7,"code":{}}}', b'["x"]'])
def test_an_odd_body_is_a_failure_like_any_other(body: bytes) -> None:
    failure = classify_answer(503, nothing, body)
    assert failure is not None
    assert failure.kind is FailureKind.BAD_GATEWAY
