"""Engines' words, as failed attempts or as the client's own answers."""

from __future__ import annotations

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
