"""The production proxy with a scripted engine behind it and scripted clients in front: every byte
of a request and of its answer is the test's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from pair.settings import FixedNode, Settings
from tests.proxy.raw_engine import RawEngine, raw_engine
from tests.relay.wires import Answer, Wire, client
from tests.support.house import House, house

CHAT = b'{"model": "raw", "messages": []}'
PATH = b"/v1/chat/completions"


@dataclass
class Edge:
    """A house with one scripted engine."""

    house: House
    engine: RawEngine

    @property
    def address(self) -> str:
        return self.house.proxy.addresses[0]

    async def through(self, request: bytes, answer: bytes) -> tuple[bytes, bytes, Answer]:
        """Head and body as the engine got them, and the answer as the client did."""
        async with client(self.address) as wire, asyncio.TaskGroup() as tasks:
            asking = tasks.create_task(asked(wire, request))
            call = await self.engine.next_call()
            await call.send(answer)
            if b"onnection: close" in answer:
                await call.wire.close()
            return call.head, call.body, await asking


async def asked(wire: Wire, request: bytes) -> Answer:
    """The answer to this."""
    await wire.send(request)
    return await wire.answer(bodyless=request.startswith(b"HEAD "))


@asynccontextmanager
async def edge(settings: Settings | None = None) -> AsyncIterator[Edge]:
    """Entered when the proxy has found the engine."""
    async with raw_engine() as engine:
        named = replace(settings or Settings(), nodes=(FixedNode(engine.url, slots=8),))
        async with house(settings=named) as built:
            await built.ready(1)
            yield Edge(built, engine)
            built.assert_books_are_clean()


def post(
    body: bytes = CHAT, *headers: bytes, path: bytes = PATH, length: bool = True, version: int = 1
) -> bytes:
    """A whole request."""
    lines = [b"POST %b HTTP/1.%d" % (path, version), b"Host: test", *headers]
    if length:
        lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join([*lines, b"", body])


def values(head: bytes, name: bytes) -> list[bytes]:
    """Of a header, in order."""
    lines: Sequence[bytes] = head.split(b"\r\n")[1:]
    pairs = [line.partition(b":") for line in lines]
    return [value.strip() for given, _, value in pairs if given.lower() == name.lower()]
