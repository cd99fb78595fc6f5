"""The headers that do not pass, and that all others do, as they came."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pair.relay.heads import (
    AnswerHead,
    Header,
    RequestHead,
    answer_bytes,
    first_values,
    request_bytes,
    trailer_bytes,
)


def request_head(*headers: Header, content_length: int | None = None) -> RequestHead:
    """A GET with these headers."""
    return RequestHead(
        method=b"GET",
        target=b"/v1/models?x=%20",
        minor_version=1,
        headers=list(headers),
        named=first_values(headers),
        keep_alive=True,
        content_length=content_length,
        chunked=False,
        expects_continue=False,
        upgrade=False,
    )


def answer_head(*headers: Header, status: int = 200, reason: bytes = b"OK") -> AnswerHead:
    """An answer with these headers."""
    return AnswerHead(
        status=status,
        reason=reason,
        minor_version=1,
        headers=list(headers),
        named=first_values(headers),
        content_length=None,
        chunked=True,
        keep_alive=True,
    )


def passed(*headers: Header, drop: tuple[bytes, ...] = (), add: tuple[Header, ...] = ()) -> bytes:
    """What of these headers goes upstream."""
    sent = request_bytes(
        request_head(*headers), authority=b"engine:1", body_length=0, drop=drop, add=add
    )
    start = b"GET /v1/models?x=%20 HTTP/1.1\r\nHost: engine:1\r\n"
    assert sent.startswith(start)
    assert sent.endswith(b"\r\n\r\n")
    return sent[len(start) : -2]


@pytest.mark.parametrize(
    "name",
    [
        b"Connection",
        b"Keep-Alive",
        b"TE",
        b"Transfer-Encoding",
        b"Upgrade",
        b"Proxy-Authorization",
        b"Proxy-Connection",
        b"Trailer",
        b"Expect",
        b"Host",
        b"Content-Length",
        b"X-Pair-Job",
        b"x-pair-node",
    ],
)
def test_these_request_headers_do_not_pass(name: bytes) -> None:
    assert passed((b"A", b"1"), (name, b"x"), (name.upper(), b"y"), (b"B", b"2")) == (
        b"A: 1\r\nB: 2\r\n"
    )


@pytest.mark.parametrize(
    "name",
    [
        b"Connection",
        b"Keep-Alive",
        b"TE",
        b"Transfer-Encoding",
        b"Upgrade",
        b"Proxy-Authenticate",
    ],
)
def test_these_answer_headers_do_not_pass(name: bytes) -> None:
    head = answer_head((b"A", b"1"), (name, b"x"), (name.lower(), b"y"), (b"B", b"2"))
    assert answer_bytes(head, framing=b"F: f\r\n", keep_length=True) == (
        b"HTTP/1.1 200 OK\r\nA: 1\r\nB: 2\r\nF: f\r\n\r\n"
    )


def test_what_connection_names_does_not_pass() -> None:
    headers = [
        (b"X-A", b"1"),
        (b"Connection", b"close, x-a"),
        (b"connection", b" X-B "),
        (b"x-b", b"2"),
    ]
    assert passed(*headers, (b"X-C", b"3")) == b"X-C: 3\r\n"
    got = answer_bytes(answer_head(*headers, (b"X-C", b"3")), framing=b"", keep_length=True)
    assert got == b"HTTP/1.1 200 OK\r\nX-C: 3\r\n\r\n"


def test_callers_drop_and_add() -> None:
    assert passed(
        (b"Authorization", b"Bearer client"),
        (b"X-Pair-Model", b"client's"),
        drop=(b"authorization",),
        add=((b"Authorization", b"Bearer node"), (b"x-pair-model", b"m")),
    ) == (b"Authorization: Bearer node\r\nx-pair-model: m\r\n")


def test_what_is_added_stays_one_line() -> None:
    evil = "Müller\r\nSet-Cookie: a\0b".encode()
    clean = "Müller  Set-Cookie: a b".encode()
    assert passed(add=((b"x-n", evil),)) == b"x-n: " + clean + b"\r\n"
    got = answer_bytes(answer_head(), framing=b"", keep_length=True, add=((b"x-n", evil),))
    assert got == b"HTTP/1.1 200 OK\r\nx-n: " + clean + b"\r\n\r\n"
    assert trailer_bytes([(b"x-n", evil)]) == b"x-n: " + clean + b"\r\n"


@pytest.mark.parametrize(
    ("had_length", "body_length", "line"),
    [(None, 0, b""), (0, 0, b"Content-Length: 0\r\n"), (None, 7, b"Content-Length: 7\r\n")],
)
def test_a_body_goes_with_its_length(had_length: int | None, body_length: int, line: bytes) -> None:
    sent = request_bytes(
        request_head(content_length=had_length), authority=b"e", body_length=body_length
    )
    assert sent == b"GET /v1/models?x=%20 HTTP/1.1\r\nHost: e\r\n" + line + b"\r\n"


def test_the_target_can_be_replaced() -> None:
    sent = request_bytes(request_head(), authority=b"e", body_length=0, target=b"/other")
    assert sent == b"GET /other HTTP/1.1\r\nHost: e\r\n\r\n"


def test_the_length_of_an_answer_passes_or_not() -> None:
    head = answer_head((b"Content-LENGTH", b"3"))
    assert b"LENGTH: 3" in answer_bytes(head, framing=b"", keep_length=True)
    assert b"LENGTH" not in answer_bytes(head, framing=b"", keep_length=False)


def test_the_length_of_an_answer_passes_though_connection_names_it() -> None:
    head = answer_head(
        (b"Connection", b"keep-alive, Content-Length, x-a"),
        (b"X-A", b"1"),
        (b"content-length", b"3"),
    )
    got = answer_bytes(head, framing=b"", keep_length=True)
    assert got == b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n"


NAME = st.text("abcXYZ-_", min_size=1, max_size=6).map(lambda text: b"H" + text.encode())
VALUE = st.binary(max_size=10).map(lambda value: bytes(byte for byte in value if byte >= 32))


@given(st.lists(st.tuples(NAME, VALUE)))
def test_all_other_headers_pass_in_order_case_and_number(headers: list[Header]) -> None:
    raw = b"".join(b"%b: %b\r\n" % header for header in headers)
    assert passed(*headers) == raw
    got = answer_bytes(answer_head(*headers, reason=b""), framing=b"", keep_length=True)
    assert got == b"HTTP/1.1 200 \r\n" + raw + b"\r\n"


@pytest.mark.parametrize(
    ("offer", "protocol"),
    [
        (b"websocket", b"websocket"),
        (b"websocket, tube/1 ", b"websocket, tube/1"),
        (b"h2c", b""),
        (b"websocket, h2c", b""),
        (b",H2C", b""),
        (b"tube/1,\tHTTP/2.0", b""),
    ],
)
def test_what_may_not_be_taken_is_not_offered_in_a_list_either(
    offer: bytes, protocol: bytes
) -> None:
    """An engine that took it would be spoken to past every check and slot."""
    head = request_head((b"Connection", b"Upgrade"), (b"Upgrade", offer))
    head.upgrade = True
    assert head.protocol == protocol
    sent = request_bytes(head, authority=b"e", body_length=0)
    assert (b"upgrade" in sent.lower()) is bool(protocol)


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [(None, False), (b"identity", False), (b" Identity ", False), (b"gzip", True), (b"x", True)],
)
def test_a_body_is_packed_unless_the_engine_says_that_it_is_not(
    encoding: bytes | None, packed: bool
) -> None:
    head = answer_head(*(() if encoding is None else ((b"Content-Encoding", encoding),)))
    assert head.packed == packed
    assert head.readable(b"words") == (b"" if packed else b"words")
