"""The two ends of a relay as scripts over real sockets: a client and an upstream that say any
bytes they like.
"""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

BOUND_S = 10.0
"""No wait in these tests takes long unless something is wrong."""

_Result = TypeVar("_Result")


async def within(awaited: Awaitable[_Result], bound_s: float = BOUND_S) -> _Result:
    """Wait for it, but not for ever."""
    async with asyncio.timeout(bound_s):
        return await awaited


async def eventually(holds: Callable[[], bool]) -> None:
    """Wait until this holds; for what no event tells, such as the end of a connection."""
    async with asyncio.timeout(BOUND_S):
        while not holds():  # noqa: ASYNC110 - see above
            await asyncio.sleep(0)


@dataclass
class Answer:
    """What came back, with the framing taken off by code that shares nothing with pair's."""

    status: int
    head: bytes
    body: bytes
    whole: bool = True

    def values(self, name: str) -> list[str]:
        """All values of a header, in order."""
        found = re.findall(rb"(?im)^" + name.encode() + rb":[ \t]*(.*?)\r$", self.head)
        return [value.decode("latin-1") for value in found]


class Wire:
    """One end of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, sent: bytes) -> None:
        """Write it all."""
        self.writer.write(sent)
        await within(self.writer.drain())

    async def read(self, limit_bytes: int = 1 << 20) -> bytes:
        """What comes next; empty at the end."""
        return await within(self.reader.read(limit_bytes))

    async def until(self, mark: bytes) -> bytes:
        """Up to and with the mark."""
        return await within(self.reader.readuntil(mark))

    async def rest(self) -> bytes:
        """All until the other side closes; a reset ends it as well."""
        collected = bytearray()
        try:
            while piece := await self.read():
                collected += piece
        except ConnectionError:
            collected += b"<reset>"
        return bytes(collected)

    async def ended(self, bound_s: float = BOUND_S) -> None:
        """Wait until the other side has closed or reset; what still comes is thrown away."""
        with suppress(ConnectionError):
            while await within(self.reader.read(1 << 20), bound_s):
                pass

    async def request(self) -> tuple[bytes, bytes]:
        """One whole request: its head and its body, which must have a length."""
        head = await self.until(b"\r\n\r\n")
        return head, await self.body_after(head)

    async def body_after(self, head: bytes) -> bytes:
        """The body of the request whose head this is."""
        length = re.search(rb"(?im)^content-length:[ \t]*(\d+)", head)
        return await within(self.reader.readexactly(int(length[1]))) if length else b""

    async def answer(self, *, bodyless: bool = False) -> Answer:
        """One answer; `whole` tells whether its framing was kept to its end."""
        head = await self.until(b"\r\n\r\n")
        status = int(head.split()[1])
        length = re.search(rb"(?im)^content-length:[ \t]*(\d+)", head)
        if bodyless or status in (204, 304):
            return Answer(status, head, b"")
        try:
            if re.search(rb"(?im)^transfer-encoding:[ \t]*chunked", head):
                return Answer(status, head, await self._chunks())
            if length:
                return Answer(status, head, await within(self.reader.readexactly(int(length[1]))))
        except (asyncio.IncompleteReadError, ConnectionError):
            return Answer(status, head, b"", whole=False)
        return Answer(status, head, await self.rest())

    async def _chunks(self) -> bytes:
        body = bytearray()
        while True:
            size = int(await self.until(b"\r\n"), 16)
            if size == 0:
                while await self.until(b"\r\n") != b"\r\n":
                    pass
                return bytes(body)
            body += await within(self.reader.readexactly(size))
            assert await within(self.reader.readexactly(2)) == b"\r\n"

    def reset(self) -> None:
        """End it with a reset instead of an orderly close."""
        connected = self.writer.get_extra_info("socket")
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def close(self) -> None:
        """Close it in order."""
        self.writer.close()
        with suppress(ConnectionError):
            await within(self.writer.wait_closed())


Script = Callable[[Wire], Awaitable[None]]


class Upstream:
    """Follows one script for each connection; keeps what it was asked, and how many connections
    there were.
    """

    def __init__(self) -> None:
        self.address = ""
        self.port = 0
        self.connections = 0
        self.requests: list[tuple[bytes, bytes]] = []


@asynccontextmanager
async def upstream(script: Callable[[Wire, Upstream], Awaitable[None]]) -> AsyncIterator[Upstream]:
    """An upstream on a port of its own; what is wrong in the script fails the test."""
    told = Upstream()
    async with asyncio.TaskGroup() as tasks:

        async def follow(wire: Wire) -> None:
            try:
                # The relay may hang up on it.
                with suppress(ConnectionError, asyncio.IncompleteReadError):
                    await script(wire, told)
            finally:
                await wire.close()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            told.connections += 1
            running.append(tasks.create_task(follow(Wire(reader, writer))))

        running: list[asyncio.Task[None]] = []
        listening = await asyncio.start_server(accept, "127.0.0.1", 0, limit=1 << 24)
        told.port = listening.sockets[0].getsockname()[1]
        told.address = f"127.0.0.1:{told.port}"
        try:
            yield told
        finally:
            listening.close()
            for task in running:
                task.cancel()


def answering(*answers: bytes) -> Callable[[Wire, Upstream], Awaitable[None]]:
    """A script: one of these for each request of a connection, then close."""

    async def script(wire: Wire, told: Upstream) -> None:
        for answer in answers:
            told.requests.append(await wire.request())
            await wire.send(answer)

    return script


def ok(body: bytes, *headers: str) -> bytes:
    """A small whole answer."""
    lines = "".join(f"{header}\r\n" for header in headers)
    return f"HTTP/1.1 200 OK\r\n{lines}Content-Length: {len(body)}\r\n\r\n".encode() + body


def chunked(*pieces: bytes) -> bytes:
    """The pieces as chunks, with the end."""
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


@asynccontextmanager
async def client(address: str) -> AsyncIterator[Wire]:
    """A client's connection to a `HOST:PORT` or a path."""
    if "/" in address:
        reader, writer = await within(asyncio.open_unix_connection(address))
    else:
        name, _, port = address.rpartition(":")
        reader, writer = await within(
            asyncio.open_connection(name.strip("[]"), int(port), limit=1 << 24)
        )
    wire = Wire(reader, writer)
    try:
        yield wire
    finally:
        await wire.close()
