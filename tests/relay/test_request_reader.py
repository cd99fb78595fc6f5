"""What a request is, wherever its bytes are cut, and what is refused because it could be read in
two ways.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pair.errors import RequestFault
from pair.relay.heads import RequestHead
from pair.relay.request_reader import RequestReader

LIMIT_BYTES = 4096


@dataclass
class Read:
    """All requests found in some bytes, and the fault that ended it."""

    requests: list[tuple[RequestHead, bytes]]
    fault: int | None
    unread: bytes


def read(*received: bytes) -> Read:
    """Feed these pieces as a connection would."""
    reader = RequestReader(LIMIT_BYTES)
    requests: list[tuple[RequestHead, bytes]] = []
    body = b""
    for piece in received:
        at = 0
        while at < len(piece):
            try:
                at = reader.feed(piece, at)
            except RequestFault as fault:
                return Read(requests, fault.status, piece[at:])
            body += b"".join(reader.take_pieces())
            if reader.whole:
                assert reader.head is not None
                requests.append((reader.head, body))
                body = b""
                reader.restart()
    return Read(requests, None, b"")


def post(*lines: str, body: bytes = b"") -> bytes:
    """A request with these header lines."""
    return "\r\n".join(["POST /v1/x HTTP/1.1", "Host: a", *lines, "", ""]).encode() + body


def one(received: bytes) -> tuple[RequestHead, bytes]:
    """The only request in these bytes."""
    told = read(received)
    assert (told.fault, len(told.requests)) == (None, 1)
    return told.requests[0]


def test_a_head_is_kept_as_it_came() -> None:
    head, body = one(
        post("X-B: 1", "x-b:  2 ", "Authorization: Bearer k", "Content-Length: 3", body=b"abc")
    )
    assert (head.method, head.target, head.minor_version) == (b"POST", b"/v1/x", 1)
    assert head.headers == [
        (b"Host", b"a"),
        (b"X-B", b"1"),
        (b"x-b", b"2 "),
        (b"Authorization", b"Bearer k"),
        (b"Content-Length", b"3"),
    ]
    assert (head.first(b"x-b"), head.first(b"absent")) == (b"1", None)
    assert (head.content_length, head.chunked, head.keep_alive) == (3, False, True)
    assert body == b"abc"


@pytest.mark.parametrize(
    ("lines", "version", "keep_alive"),
    [
        ([], "1.1", True),
        (["Connection: close"], "1.1", False),
        (["Connection: x-a, Close"], "1.1", False),
        ([], "1.0", False),
        (["Connection: keep-alive"], "1.0", True),
    ],
)
def test_whether_the_connection_stays(lines: list[str], version: str, keep_alive: bool) -> None:
    head, _ = one("\r\n".join([f"GET / HTTP/{version}", "Host: a", *lines, "", ""]).encode())
    assert head.keep_alive is keep_alive


@pytest.mark.parametrize(
    ("target", "method", "seen", "host"),
    [
        ("/a?b=%20&c=[1]", "GET", b"/a?b=%20&c=[1]", b"a"),
        ("//v1//models", "GET", b"//v1//models", b"a"),
        ("*", "OPTIONS", b"*", b"a"),
        ("http://other:80/v1?x", "GET", b"/v1?x", b"other:80"),
        ("HTTP://other", "GET", b"/", b"other"),
        ("http://other?x=/", "GET", b"/?x=/", b"other"),
    ],
)
def test_targets_come_in_origin_form(target: str, method: str, seen: bytes, host: bytes) -> None:
    head, _ = one(f"{method} {target} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    assert (head.target, head.first(b"host")) == (seen, host)


def test_a_client_that_waits_for_100_is_noticed() -> None:
    head, _ = one(post("Expect: 100-Continue", "Content-Length: 1", body=b"x"))
    assert head.expects_continue


@pytest.mark.parametrize(
    "framing",
    [
        (["Content-Length: 5"], b"hello"),
        (["Transfer-Encoding: chunked"], b"2\r\nhe\r\n3;a=b\r\nllo\r\n0\r\nTrailer: x\r\n\r\n"),
        (["Content-Length: 0"], b""),
        ([], b""),
    ],
)
def test_the_body_of_an_upgrade_that_will_not_happen_is_read(
    framing: tuple[list[str], bytes],
) -> None:
    lines, raw = framing
    request = post("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", *lines, body=raw)
    told = read(request + post())
    assert told.fault is None
    assert [body for _, body in told.requests] == [b"hello" if raw else b"", b""]
    assert [head.upgrade for head, _ in told.requests] == [True, False]


REFUSED = {
    "CL and TE": post("Content-Length: 5", "Transfer-Encoding: chunked", body=b"0\r\n\r\n"),
    "TE and CL": post("Transfer-Encoding: chunked", "Content-Length: 5", body=b"0\r\n\r\n"),
    "two CLs": post("Content-Length: 5", "Content-Length: 6", body=b"hello!"),
    "two equal CLs": post("Content-Length: 5", "Content-Length: 5", body=b"hello"),
    "list of CLs": post("Content-Length: 5, 5", body=b"hello"),
    "CL with sign": post("Content-Length: +5", body=b"hello"),
    "CL in hex": post("Content-Length: 0x5", body=b"hello"),
    "CL empty": post("Content-Length:", body=b"hello"),
    "CL too large": post("Content-Length: 99999999999999999999", body=b"hello"),
    "CL with thousands of zeros": post("Content-Length: " + "0" * 2000 + "5", body=b"hello"),
    "TE with space": post("Transfer-Encoding : chunked", body=b"0\r\n\r\n"),
    "TE unknown": post("Transfer-Encoding: xchunked", body=b"0\r\n\r\n"),
    "TE identity": post("Transfer-Encoding: identity", body=b"0\r\n\r\n"),
    "TE gzip, chunked": post("Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n"),
    "TE chunked, gzip": post("Transfer-Encoding: chunked, gzip", body=b"0\r\n\r\n"),
    "TE twice": post("Transfer-Encoding: chunked", "Transfer-Encoding: chunked", body=b"0\r\n\r\n"),
    "TE identity, then chunked": post(
        "Transfer-Encoding: identity", "Transfer-Encoding: chunked", body=b"0\r\n\r\n"
    ),
    "TE chunked, then identity": post(
        "Transfer-Encoding: chunked", "Transfer-Encoding: identity", body=b"0\r\n\r\n"
    ),
    "TE with vertical tab": post("Transfer-Encoding: \x0bchunked", body=b"0\r\n\r\n"),
    "TE from 1.0": post("Transfer-Encoding: chunked", body=b"0\r\n\r\n").replace(b"1.1", b"1.0"),
    "folded": post("X: a", " b"),
    "folded with tab": post("X: a", "\tb"),
    "folded after nothing": post("X:", " b"),
    "bare LF in a header": post("X: a\nY: b"),
    "bare LF everywhere": post("X: a").replace(b"\r\n", b"\n"),
    "bare LF at the end": b"GET / HTTP/1.1\r\nHost: a\r\n\n",
    "bare CR": post("X: a\rY: b"),
    "NUL in a value": post("X: a\0b"),
    "NUL in a name": post("X\0: a"),
    "control character": post("X: a\x01b"),
    "non-ASCII value": post("X: ä"),
    "non-ASCII name": post("Xä: a"),
    "non-ASCII target": b"GET /\xe4 HTTP/1.1\r\nHost: a\r\n\r\n",
    "name with space": post("X y: a"),
    "name no token": post("X(y): a"),
    "name empty": post(": a"),
    "no colon": post("abc"),
    "no Host": b"GET / HTTP/1.1\r\n\r\n",
    "two Hosts": post("Host: b"),
    "fragment": b"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n",
    "star for GET": b"GET * HTTP/1.1\r\nHost: a\r\n\r\n",
    "credentials in the target": b"GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n",
    "another scheme": b"GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
    "no target": b"GET  HTTP/1.1\r\nHost: a\r\n\r\n",
    "space in the target": b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
    "unknown method": b"FOO / HTTP/1.1\r\nHost: a\r\n\r\n",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "chunk size with sign": post("Transfer-Encoding: chunked", body=b"+3\r\nabc\r\n0\r\n\r\n"),
    "chunk size in 0x": post("Transfer-Encoding: chunked", body=b"0x3\r\nabc\r\n0\r\n\r\n"),
    "chunk size with space": post("Transfer-Encoding: chunked", body=b"3 \r\nabc\r\n0\r\n\r\n"),
    "chunk size too large": post("Transfer-Encoding: chunked", body=b"f" * 17 + b"\r\nabc"),
    "chunk too long": post("Transfer-Encoding: chunked", body=b"3\r\nabcd\r\n0\r\n\r\n"),
    "chunk with bare LF": post("Transfer-Encoding: chunked", body=b"3\nabc\n0\n\n"),
    "chunk extension with NUL": post(
        "Transfer-Encoding: chunked", body=b"3;\0\r\nabc\r\n0\r\n\r\n"
    ),
    "endless chunk extension": post("Transfer-Encoding: chunked", body=b"3;" + b"a" * 5000),
    "endless trailers": post("Transfer-Encoding: chunked", body=b"0\r\n" + b"A: b\r\n" * 1000),
    "length in a trailer": post(
        "Transfer-Encoding: chunked", body=b"0\r\nContent-Length: 5\r\n\r\nhello"
    ),
}


@pytest.mark.parametrize("request_bytes", REFUSED.values(), ids=REFUSED.keys())
@pytest.mark.parametrize("step", [1, 7, 100_000])
def test_what_can_be_read_in_two_ways_is_refused(request_bytes: bytes, step: int) -> None:
    pieces = [request_bytes[at : at + step] for at in range(0, len(request_bytes), step)]
    told = read(*pieces)
    assert (told.fault, told.requests) == (400, [])


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
        (b"GET / HTTP/0.9\r\nHost: a\r\n\r\n", 400),
        (b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", 405),
        (post("X: " + "a" * LIMIT_BYTES), 400),
        (b"GET /" + b"a" * LIMIT_BYTES, 400),
        (b"\r\n" * LIMIT_BYTES, 400),
    ],
)
def test_what_is_refused_in_other_words(request_bytes: bytes, status: int) -> None:
    for step in (1, 100_000):
        pieces = [request_bytes[at : at + step] for at in range(0, len(request_bytes), step)]
        assert read(*pieces).fault == status


def test_nothing_of_the_next_request_is_parsed() -> None:
    reader = RequestReader(LIMIT_BYTES)
    first = post("Transfer-Encoding: chunked", body=b"2\r\n\r\n\r\n0\r\n\r\n")
    received = first + b"nonsense\r\n\r\n"
    at = 0
    while not reader.whole:
        at = reader.feed(received, at)
    assert (received[:at], b"".join(reader.take_pieces())) == (first, b"\r\n")


def test_empty_lines_before_a_request_are_nothing_of_it() -> None:
    reader = RequestReader(LIMIT_BYTES)
    for piece in (b"\r", b"\n", b"\r\n", b"\r\n"):
        assert reader.feed(piece) == len(piece)
        assert not reader.started
    reader.feed(b"G")
    assert reader.started


BODY = st.binary(max_size=60) | st.lists(
    st.sampled_from([b"\r\n", b"\r\n\r\n", b"0\r\n\r\n", b"x"])
).map(b"".join)


@st.composite
def valid_request(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """The bytes of a request, and its body."""
    body = draw(BODY)
    lead = draw(st.sampled_from([b"", b"\r\n", b"\r\n\r\n"]))
    extra = draw(st.sampled_from([[], ["X: y"], ["Connection: Upgrade", "Upgrade: h2c"]]))
    match draw(st.sampled_from(["length", "chunked", "none"])):
        case "none":
            return lead + post(*extra), b""
        case "length":
            return lead + post(*extra, f"Content-Length: {len(body)}", body=body), body
        case _:
            raw = b""
            at = 0
            while at < len(body):
                size = draw(st.integers(1, len(body) - at))
                raw += b"%x\r\n%b\r\n" % (size, body[at : at + size])
                at += size
            raw += draw(st.sampled_from([b"0\r\n\r\n", b"0\r\nA: b\r\nC: d\r\n\r\n"]))
            return lead + post(*extra, "Transfer-Encoding: chunked", body=raw), body


@given(
    requests=st.lists(valid_request(), min_size=1, max_size=4), cuts=st.lists(st.integers(0, 800))
)
def test_requests_are_the_same_wherever_their_bytes_are_cut(
    requests: list[tuple[bytes, bytes]], cuts: list[int]
) -> None:
    stream = b"".join(raw for raw, _ in requests)
    at = sorted({min(cut, len(stream)) for cut in cuts} | {len(stream)})
    pieces = [stream[start:end] for start, end in zip([0, *at], at, strict=False)]
    told = read(*pieces)
    assert told.fault is None
    assert [body for _, body in told.requests] == [body for _, body in requests]
    assert told.requests == read(stream).requests


@given(
    st.binary(max_size=300)
    | st.lists(
        st.sampled_from(
            [
                b"GET / HTTP/1.1\r\n",
                b"POST /x HTTP/1.1\r\n",
                b"Host: a\r\n",
                b"\r\n",
                b"\n",
                b"\r",
                b":",
                b"Content-Length: 3\r\n",
                b"Transfer-Encoding: chunked\r\n",
                b"Connection: Upgrade\r\n",
                b"Upgrade: x\r\n",
                b"3\r\nabc\r\n",
                b"0\r\n\r\n",
                b"abc",
                b"\0",
                b" ",
                b"CONNECT a:1 HTTP/1.1\r\n",
            ]
        )
    ).map(b"".join)
)
@example(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n\r\n\r\n")
def test_any_bytes_are_requests_or_a_fault_and_the_same_byte_by_byte(received: bytes) -> None:
    whole = read(received)
    split = read(*[received[at : at + 1] for at in range(len(received))])
    assert (whole.requests, whole.fault) == (split.requests, split.fault)
    assert whole.fault in (None, 400, 405, 505)


def test_trailers_are_no_headers() -> None:
    reader = RequestReader(65536)
    raw = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    at = reader.feed(raw)
    tail = b"0\r\nAuthorization: late\r\n\r\n"
    while not reader.whole:
        at = reader.feed(tail)
    assert at == len(tail)
    assert reader.head is not None
    assert [name for name, _ in reader.head.headers] == [b"Host", b"Transfer-Encoding"]
