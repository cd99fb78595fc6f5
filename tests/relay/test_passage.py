"""Answers on their way: what the client gets is what the engine sent, held until there is
something to it.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pair.relay.passage import HELD_BYTES, LeadingSilence
from tests.relay.relays import relay
from tests.relay.wires import Answer, Upstream, Wire, answering, chunked, client, ok, upstream

EVENT_STREAM = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)
GET = b"GET /v1/x HTTP/1.1\r\nHost: a\r\n\r\n"


async def ask(answer: bytes, request: bytes = GET, *, bodyless: bool = False) -> Answer:
    """What the client gets for this answer of the upstream."""
    async with (
        upstream(answering(answer)) as up,
        relay(up.address) as bare,
        client(bare.address) as wire,
    ):
        await wire.send(request)
        return await wire.answer(bodyless=bodyless)


async def test_a_small_answer_passes_with_headers_in_order_case_and_number() -> None:
    got = await ask(ok(b"{}", "Server: x", "Set-Cookie: a=1", "X-Odd-CASE: y", "Set-Cookie: b=2"))
    assert got.head == (
        b"HTTP/1.1 200 OK\r\nServer: x\r\nSet-Cookie: a=1\r\nX-Odd-CASE: y\r\nSet-Cookie: b=2\r\n"
        b"Content-Length: 2\r\nx-pair-node: n\r\n\r\n"
    )
    assert got.body == b"{}"


async def test_an_emoji_cut_at_every_byte_arrives_as_it_was() -> None:
    line = 'data: {"content":"a🦙b"}\n\n'.encode()
    pieces = [line[at : at + 1] for at in range(len(line))]

    async def script(wire: Wire, told: Upstream) -> None:
        await wire.request()
        await wire.send(EVENT_STREAM)
        for piece in pieces:
            await wire.send(b"1\r\n%b\r\n" % piece)
        await wire.send(b"0\r\n\r\n")

    async with upstream(script) as up, relay(up.address) as bare, client(bare.address) as wire:
        await wire.send(GET)
        got = await wire.answer()
    assert got.body == line
    assert bare.taps[0].heard.digest() == hashlib.sha256(line).digest()


@pytest.mark.parametrize(
    "stream",
    [
        b": ping\n\nevent: x\nid: 7\nretry: 10\ndata:no space\n\ndata: last line without its end",
        b"data: a\r\n\r\ndata: b\r\n\r\n: in between\r\n\r\ndata: [DONE]\r\n\r\n",
        b"data: \xf0\x9f\n\n",
        b"",
        b": only a comment",
        b"\r\n\r\n",
    ],
)
async def test_an_event_stream_is_not_touched(stream: bytes) -> None:
    got = await ask(EVENT_STREAM + chunked(*[stream] * bool(stream)))
    assert got.body == stream


async def test_a_line_of_5_mib_arrives_as_it_was() -> None:
    line = b"data: " + os.urandom(5 << 19).hex().encode() + b"\n\n"

    async def script(wire: Wire, told: Upstream) -> None:
        await wire.request()
        await wire.send(EVENT_STREAM + chunked(line, b"data: [DONE]\n\n"))

    async with upstream(script) as up, relay(up.address) as bare, client(bare.address) as wire:
        await wire.send(GET)
        got = await wire.answer()
    assert hashlib.sha256(got.body).digest() == hashlib.sha256(line + b"data: [DONE]\n\n").digest()


async def test_compressed_bodies_pass_with_their_headers() -> None:
    body = bytes(range(256)) * 4
    got = await ask(ok(body, "Content-Encoding: zstd", "Vary: accept-encoding"))
    assert (got.body, got.values("content-encoding")) == (body, ["zstd"])


async def test_a_length_that_connection_names_passes() -> None:
    got = await ask(ok(b"abc", "Connection: keep-alive, content-length"))
    assert (got.body, got.values("content-length"), got.values("connection")) == (b"abc", ["3"], [])


async def test_a_body_that_ends_with_the_connection_becomes_chunked() -> None:
    got = await ask(b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nall of it")
    assert (got.body, got.whole, got.values("transfer-encoding")) == (
        b"all of it",
        True,
        ["chunked"],
    )


async def test_trailers_pass() -> None:
    async with (
        upstream(answering(EVENT_STREAM + b"3\r\nabc\r\n0\r\nX-Sum: 9\r\nX-Two: b\r\n\r\n")) as up,
        relay(up.address) as bare,
        client(bare.address) as wire,
    ):
        await wire.send(GET)
        await wire.until(b"\r\n\r\n")
        assert await wire.until(b"\r\n\r\n") == b"3\r\nabc\r\n0\r\nX-Sum: 9\r\nX-Two: b\r\n\r\n"


async def test_informational_answers_before_the_real_one_are_not_passed_on() -> None:
    got = await ask(
        b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + ok(b"y")
    )
    assert (got.status, got.body, got.values("link")) == (200, b"y", [])


@pytest.mark.parametrize(
    ("request_line", "answer"),
    [
        (b"HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 123\r\n\r\n"),
        (b"GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 123\r\n\r\n"),
        (b"GET", b"HTTP/1.1 204 No Content\r\nX: y\r\n\r\n"),
        (b"HEAD", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
    ],
)
async def test_answers_without_a_body_leave_the_connection_usable(
    request_line: bytes, answer: bytes
) -> None:
    request = request_line + b" / HTTP/1.1\r\nHost: a\r\n\r\n"
    async with (
        upstream(answering(answer, ok(b"next"))) as up,
        relay(up.address) as bare,
        client(bare.address) as wire,
    ):
        await wire.send(request)
        first = await wire.answer(bodyless=True)
        assert first.values("content-length") == (["123"] if b"123" in answer else [])
        assert first.values("transfer-encoding") == []
        await wire.send(GET)
        assert (await wire.answer()).body == b"next"
        assert up.connections == 1


async def test_http_1_0_clients_get_no_chunks() -> None:
    async with (
        upstream(answering(EVENT_STREAM + chunked(b"data: a\n\n", b"data: b\n\n"))) as up,
        relay(up.address) as bare,
        client(bare.address) as wire,
    ):
        await wire.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        got = await wire.answer()
        assert (got.body, got.values("connection")) == (b"data: a\n\ndata: b\n\n", ["close"])
        assert got.values("transfer-encoding") == []


async def test_the_head_is_held_until_the_first_content_byte() -> None:
    async def script(wire: Wire, told: Upstream) -> None:
        await wire.request()
        await wire.send(EVENT_STREAM + b"8\r\n: ping\n\n\r\n")
        await held(wire)

    async def held(wire: Wire) -> None:
        exchange = await bare.started.get()
        await wire.send(b"2\r\n: \r\n3\r\nx\r\n\r\n")
        assert not exchange.begun
        wire.reset()

    async with upstream(script) as up, relay(up.address) as bare, client(bare.address) as wire:
        await wire.send(GET)
        got = await wire.answer()
        assert got.status == 502
        assert await bare.fate() == "LostUpstream begun=False"
        assert bare.taps[0].firsts == 0


async def test_an_upstream_that_dies_after_content_never_looks_whole() -> None:
    async def script(wire: Wire, told: Upstream) -> None:
        await wire.request()
        await wire.send(EVENT_STREAM + b"9\r\ndata: a\n\n\r\n")
        await came.wait()
        wire.reset()

    came = asyncio.Event()
    async with upstream(script) as up, relay(up.address) as bare, client(bare.address) as wire:
        await wire.send(GET)
        await wire.until(b"data: a\n\n\r\n")
        came.set()
        assert b"0\r\n\r\n" not in await wire.rest()
        assert await bare.fate() == "LostUpstream begun=True"


@pytest.mark.parametrize(
    "broken",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\nnonsense",
    ],
)
@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
async def test_a_truncated_answer_never_looks_whole(broken: bytes, version: bytes) -> None:
    async with (
        upstream(answering(broken)) as up,
        relay(up.address) as bare,
        client(bare.address) as wire,
    ):
        await wire.send(b"GET / HTTP/" + version + b"\r\nHost: a\r\n\r\n")
        came = await wire.rest()
        fate = await bare.fate()
    assert fate.endswith("begun=True")
    head, _, body = came.partition(b"\r\n\r\n")
    if version == b"1.0" and b"Content-Length" not in head:
        assert came.endswith(b"<reset>")
    else:
        assert body in (b"short", b"5\r\nshort\r\n")
        assert not body.endswith(b"0\r\n\r\n")


CONTENT = st.sampled_from([b"data: x\n\n", b"event: y\n", b"d", b" :", b"\xef\xbb\xbf:"])
SILENCE = st.lists(
    st.sampled_from([b": ping\n\n", b":\n", b"\n", b"\r\n", b":a: b\r\n\r\n", b"\r", b"::\r"])
).map(b"".join)


@given(silence=SILENCE, content=CONTENT, cuts=st.lists(st.integers(0, 80)))
def test_silence_ends_at_the_first_content_byte_however_it_is_cut(
    silence: bytes, content: bytes, cuts: list[int]
) -> None:
    stream = silence + content
    at = sorted({min(cut, len(stream)) for cut in cuts} | {len(stream)})
    pieces = [stream[start:end] for start, end in zip([0, *at], at, strict=False)]
    leading = LeadingSilence()
    for piece, end in zip(pieces, accumulate(map(len, pieces)), strict=True):
        goes_on = leading.goes_on(piece)
        assert goes_on == (end <= len(silence))
        if not goes_on:
            break
    assert leading.held == stream[:end]


def test_endless_silence_is_let_through_at_a_bound() -> None:
    leading = LeadingSilence()
    pings = 0
    while leading.goes_on(b": ping\n\n"):
        pings += 1
    assert len(leading.held) - 8 <= HELD_BYTES < len(leading.held)
