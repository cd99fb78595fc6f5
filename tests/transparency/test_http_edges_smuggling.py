"""Item 16: what could be read in two ways is refused with 400, the connection closed, and nothing
of it reaches an engine; through the production proxy.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.relay.wires import client
from tests.transparency.edges import CHAT, PATH, Edge, edge

BEHIND = b"POST /v1/chat/completions HTTP/1.1\r\nHost: test\r\nX-Smuggled: 1\r\n"
BEHIND += b"Content-Length: %d\r\n\r\n" % len(CHAT) + CHAT
LENGTH = b"Content-Length: %d\r\n" % len(CHAT)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CHUNKS = b"%x\r\n%b\r\n0\r\n\r\n" % (len(CHAT), CHAT)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def door() -> AsyncIterator[Edge]:
    async with edge() as opened:
        yield opened


def request(lines: bytes, body: bytes = CHAT, target: bytes = PATH) -> bytes:
    """One with these header lines after a `Host`."""
    return b"POST " + target + b" HTTP/1.1\r\nHost: test\r\n" + lines + b"\r\n" + body


AMBIGUOUS = {
    "length and chunks": request(LENGTH + CHUNKED, CHUNKS),
    "chunks and length": request(CHUNKED + LENGTH, CHUNKS),
    "two lengths": request(LENGTH + b"Content-Length: 1\r\n"),
    "the same length twice": request(LENGTH + LENGTH),
    "lengths in a list": request(b"Content-Length: 5, 5\r\n"),
    "a signed length": request(b"Content-Length: +32\r\n"),
    "a negative length": request(b"Content-Length: -1\r\n"),
    "a hexadecimal length": request(b"Content-Length: 0x20\r\n"),
    "a length with a space": request(b"Content-Length: 3 2\r\n"),
    "no length in it": request(b"Content-Length: \r\n"),
    "a length beyond 64 bits": request(b"Content-Length: 99999999999999999999\r\n"),
    "a space before the colon": request(b"Transfer-Encoding : chunked\r\n", CHUNKS),
    "a space before a length's colon": request(b"Content-Length : 32\r\n"),
    "a tab before the colon": request(b"Transfer-Encoding\t: chunked\r\n", CHUNKS),
    "another coding": request(b"Transfer-Encoding: xchunked\r\n", CHUNKS),
    "chunked first": request(b"Transfer-Encoding: chunked, identity\r\n", CHUNKS),
    "chunked twice": request(CHUNKED + CHUNKED, CHUNKS),
    "chunked and gzip": request(b"Transfer-Encoding: gzip, chunked\r\n", CHUNKS),
    "a quoted coding": request(b'Transfer-Encoding: "chunked"\r\n', CHUNKS),
    "a vertical tab before the coding": request(b"Transfer-Encoding: \x0bchunked\r\n", CHUNKS),
    "bare line feeds": request(LENGTH).replace(b"\r\n", b"\n"),
    "one bare line feed": request(b"X: y\n" + LENGTH),
    "a bare carriage return": request(b"X: y\rContent-Length: 1\r\n" + LENGTH),
    "a folded line": request(b"X: y\r\n z\r\n" + LENGTH),
    "a folded coding": request(b"Transfer-Encoding:\r\n chunked\r\n", CHUNKS),
    "a space before the first name": request(b" X: y\r\n" + LENGTH),
    "a NUL in a value": request(b"X: a\0b\r\n" + LENGTH),
    "a NUL in a name": request(b"X\0: y\r\n" + LENGTH),
    "a byte above ASCII in a value": request("X: é\r\n".encode() + LENGTH),
    "a byte above ASCII in a name": request(b"X\xe9: y\r\n" + LENGTH),
    "a byte above ASCII in the target": request(LENGTH, target=b"/v1/\xc3\xa9"),
    "a control character in a value": request(b"X: a\x01b\r\n" + LENGTH),
    "a name that is no token": request(b"X(y): z\r\n" + LENGTH),
    "an empty name": request(b": y\r\n" + LENGTH),
    "a line without a colon": request(b"X\r\n" + LENGTH),
    "two hosts": request(b"Host: other\r\n" + LENGTH),
    "a host with a user": request(LENGTH).replace(b"Host: test", b"Host: a@test"),
    "a host with a path": request(LENGTH).replace(b"Host: test", b"Host: test/v1"),
    "hosts in a list": request(LENGTH).replace(b"Host: test", b"Host: test, other"),
    "an empty host": request(LENGTH).replace(b"Host: test", b"Host:"),
    "no host": request(LENGTH).replace(b"Host: test\r\n", b""),
    "a target with a space": request(LENGTH, target=b"/v1/a b"),
    "a target with a fragment": request(LENGTH, target=PATH + b"#x"),
    "a target that is a name": request(LENGTH, target=b"v1"),
    "another protocol": request(LENGTH).replace(b"HTTP/1.1", b"HTTQ/1.1"),
    "no version": b"POST " + PATH + b"\r\nHost: test\r\n\r\n",
    "chunks from 1.0": request(CHUNKED, CHUNKS).replace(b"HTTP/1.1", b"HTTP/1.0"),
}

BROKEN_CHUNKS = {
    "a size that is none": b"xyz\r\nabc\r\n0\r\n\r\n",
    "a negative size": b"-1\r\nabc\r\n0\r\n\r\n",
    "a size with a prefix": b"0x3\r\nabc\r\n0\r\n\r\n",
    "a size with an underscore": b"1_0\r\n" + bytes(16) + b"\r\n0\r\n\r\n",
    "a size beyond 64 bits": b"fffffffffffffffff\r\nabc\r\n0\r\n\r\n",
    "too little in it": b"5\r\nabc\r\n0\r\n\r\n",
    "too much in it": b"3\r\nabcd\r\n0\r\n\r\n",
    "bare line feeds": b"3\nabc\n0\n\n",
    "a bare line feed behind an extension": b"3;a\nabc\r\n0\r\n\r\n",
    "a NUL in an extension": b"3;a=\0\r\nabc\r\n0\r\n\r\n",
    "an empty size": b"\r\nabc\r\n0\r\n\r\n",
    "a broken trailer": b"0\r\nX : y\r\n\r\n",
    "a trailer with a bare line feed": b"0\r\nX: y\nZ: a\r\n\r\n",
}


async def refused(door: Edge, sent: bytes) -> None:
    """One answer, 400, and the end; the engine has heard nothing."""
    async with client(door.address) as wire:
        await wire.send(sent + BEHIND)
        answer = await wire.answer()
        assert (answer.status, answer.values("connection")) == (400, ["close"])
        assert await wire.rest() == b""
    assert not door.engine.has_call


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", AMBIGUOUS)
async def test_16_what_could_be_read_in_two_ways_is_refused(door: Edge, name: str) -> None:
    await refused(door, AMBIGUOUS[name])


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", BROKEN_CHUNKS)
async def test_16_broken_chunks_are_refused(door: Edge, name: str) -> None:
    await refused(door, request(CHUNKED, BROKEN_CHUNKS[name]))


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    "large",
    [
        request(b"X: " + b"a" * 70_000 + b"\r\n" + LENGTH),
        request(b"".join(b"X-%d: y\r\n" % number for number in range(10_000)) + LENGTH),
        request(LENGTH, target=PATH + b"?" + b"a" * 70_000),
        request(b"X" * 70_000 + b": y\r\n" + LENGTH),
    ],
    ids=["one value", "many", "the target", "a name"],
)
async def test_16_an_oversized_head_is_refused(door: Edge, large: bytes) -> None:
    await refused(door, large)
