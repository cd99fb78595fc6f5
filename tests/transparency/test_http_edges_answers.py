"""Item 15: what engines may answer, and what a client gets of it."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator

import pytest

from tests.relay.wires import Wire, chunked, client, ok
from tests.transparency.edges import CHAT, Edge, asked, edge, post

HEAD = b"HTTP/1.1 200 OK\r\n"
CLOSE = b"Connection: close\r\n"


@pytest.fixture
async def door() -> AsyncIterator[Edge]:
    async with edge() as opened:
        yield opened


@pytest.mark.parametrize("coding", ["gzip", "br", "zstd"])
@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_15_packed_answers_pass_as_they_are(door: Edge, coding: str, kind: str) -> None:
    packed = gzip.compress(b"data: [DONE]\n\n") + bytes(range(256))
    headers = (f"Content-Type: {kind}", f"Content-Encoding: {coding}", "Vary: Accept-Encoding")
    _, _, answer = await door.through(
        post(CHAT, b"Accept-Encoding: gzip, br, zstd"), ok(packed, *headers, "Connection: close")
    )
    assert answer.body == packed
    assert answer.values("content-encoding") == [coding]
    assert answer.values("vary") == ["Accept-Encoding"]


async def test_15_headers_keep_their_order_case_and_duplicates(door: Edge) -> None:
    lines = b"Set-Cookie: a=1\r\nX-b: 1\r\nSET-COOKIE: b=2\r\nx-A: \xe9\r\nSet-Cookie: a=1\r\n"
    _, _, answer = await door.through(post(), HEAD + lines + CLOSE + b"Content-Length: 0\r\n\r\n")
    assert lines in answer.head


async def test_15_interim_answers_are_passed_over(door: Edge) -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\nX: y\r\n\r\n"
    hints = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    _, _, answer = await door.through(post(), interim + hints + ok(b"fine", "Connection: close"))
    assert (answer.status, answer.body) == (200, b"fine")
    assert answer.values("link") == answer.values("x") == []


@pytest.mark.parametrize("head", [b"204 No Content\r\n", b"304 Not Modified\r\nETag: x\r\n"])
async def test_15_an_answer_without_a_body_leaves_the_connection_usable(
    door: Edge, head: bytes
) -> None:
    async with client(door.address) as wire, asyncio.TaskGroup() as tasks:
        asking = tasks.create_task(asked(wire, post()))
        await (await door.engine.next_call()).send(b"HTTP/1.1 " + head + CLOSE + b"\r\n")
        answer = await asking
        assert (str(answer.status).encode(), answer.body) == (head[:3], b"")
        assert answer.values("transfer-encoding") == []
        again = tasks.create_task(asked(wire, post()))
        await (await door.engine.next_call()).send(ok(b"fine", "Connection: close"))
        assert (await again).body == b"fine"


async def test_15_the_length_of_what_a_304_stands_for_passes(door: Edge) -> None:
    reply = b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n" + CLOSE + b"\r\n"
    _, _, answer = await door.through(post(), reply)
    assert (answer.status, answer.values("content-length")) == (304, ["9"])


async def test_15_trailers_pass(door: Edge) -> None:
    chunks = b"4\r\nfine\r\n0\r\nX-Sum: 1\r\nX-Sum: 2\r\n\r\n"
    head = HEAD + b"Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"
    async with client(door.address) as wire:
        await wire.send(post())
        await (await door.engine.next_call()).send(head + chunks)
        got = await wire.until(b"\r\n\r\n")
        assert b"\r\nTrailer: X-Sum\r\n" in got
        assert await wire.until(b"0\r\n") == b"4\r\nfine\r\n0\r\n"
        assert await wire.until(b"\r\n\r\n") == b"X-Sum: 1\r\nX-Sum: 2\r\n\r\n"


async def test_15_an_answer_that_ends_with_its_connection_is_whole(door: Edge) -> None:
    _, _, answer = await door.through(post(), HEAD + CLOSE + b"\r\nfine")
    assert (answer.body, answer.whole) == (b"fine", True)


async def test_15_a_chunked_answer_without_its_end_does_not_look_whole(door: Edge) -> None:
    async with client(door.address) as wire:
        await wire.send(post())
        call = await door.engine.next_call()
        await call.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n4\r\nfine\r\n")
        await wire.until(b"fine\r\n")
        await call.wire.close()
        assert b"0\r\n\r\n" not in await wire.rest()


@pytest.mark.parametrize("status", [401, 413])
async def test_15_an_early_refusal_of_a_large_upload_reaches_the_client(
    door: Edge, status: int
) -> None:
    """The engine answers before it has read the body, and closes, which resets its connection."""
    large = b'{"model": "raw", "input": "' + b"a" * 20_000_000 + b'"}'
    refusal = b"HTTP/1.1 %d No\r\nContent-Length: 2\r\n" % status + CLOSE + b"\r\nno"
    door.engine.refusal = refusal
    async with client(door.address) as wire:
        answer = await asked(wire, post(large))
        assert (answer.status, answer.body) == (status, b"no")


async def test_15_our_own_refusal_of_a_large_upload_reaches_the_client(door: Edge) -> None:
    async with client(door.address) as wire, asyncio.TaskGroup() as tasks:
        sending = tasks.create_task(send_until_closed(wire, post(bytes(200_000_000))))
        answer = await wire.answer()
        assert (answer.status, answer.values("connection")) == (413, ["close"])
        sending.cancel()


async def test_15_an_answer_may_begin_while_the_body_still_goes_up(door: Edge) -> None:
    """Nobody reads such a large body from memory: it is sent on while the answer comes."""
    large = b'{"model": "raw", "input": "' + b"a" * 20_000_000 + b'"}'
    begun = HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nearly\r\n"
    door.engine.prelude = begun
    async with client(door.address) as wire:
        await wire.send(post(large))
        await wire.until(b"early\r\n")
        call = await door.engine.next_call()
        assert call.body == large
        await call.send(chunked(b"late"))
        assert await wire.until(b"0\r\n\r\n") == b"4\r\nlate\r\n0\r\n\r\n"


async def send_until_closed(wire: Wire, request: bytes) -> None:
    """Upload without looking at what comes back."""
    try:
        await wire.send(request)
    except ConnectionError:
        return
