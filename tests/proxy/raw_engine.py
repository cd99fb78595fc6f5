"""An engine down to its socket: it lists a model and then does with each call what a test says, or
nothing at all.

It can do what no engine program lets one do: stop listening while its connections live on (a
machine that froze), or let connections queue that nobody accepts.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from tests.relay.wires import Wire

BOUND_S = 10.0
"""Longest wait for anything; reached only by a failing test."""

MODELS = "/v1/models"

SILENCE = b""
"""A page that is never answered."""


def page(body: bytes, status: int = 200, *headers: str) -> bytes:
    """A small whole answer after which the connection ends."""
    lines = "".join(f"{header}\r\n" for header in (*headers, "Connection: close"))
    return f"HTTP/1.1 {status} X\r\n{lines}Content-Length: {len(body)}\r\n\r\n".encode() + body


def model_list(model: str) -> bytes:
    """The page by which it is recognised."""
    return page(json.dumps({"object": "list", "data": [{"id": model}]}).encode())


@dataclass
class Call:
    """A request that it got and has not answered."""

    wire: Wire
    head: bytes
    body: bytes
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            await self.wire.send(piece)

    async def until_hung_up(self) -> None:
        async with asyncio.timeout(BOUND_S):
            await self.hung_up.wait()


class RawEngine:
    """On a port of its own, on which it listens from `listen` to `vanish`.

    Attributes:
        pages: what it answers to GET, by path; all else is a 404.
        accepted: how many connections it has taken.
        refusal: said to each call instead of reading its body, before closing.
        prelude: said to each call before its body is read.
    """

    def __init__(
        self, model: str, pages: Mapping[str, bytes] | None, tasks: asyncio.TaskGroup
    ) -> None:
        self.pages = {MODELS: model_list(model)} if pages is None else dict(pages)
        self.accepted = 0
        self.refusal = b""
        self.prelude = b""
        self._calls: asyncio.Queue[Call] = asyncio.Queue()
        self._tasks = tasks
        self._accepting: asyncio.Task[None] | None = None
        self._running: list[asyncio.Task[None]] = []
        self._crowd: list[socket.socket] = []
        self._socket = _bound(0)
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def listen(self) -> None:
        """Answer from now on; before, connections are refused."""
        self._socket.listen(128)
        self._accepting = self._tasks.create_task(self._accept())

    async def next_call(self) -> Call:
        """The next request for work."""
        async with asyncio.timeout(BOUND_S):
            return await self._calls.get()

    @property
    def has_call(self) -> bool:
        """Whether one came that nobody has taken yet."""
        return not self._calls.empty()

    async def vanish(self) -> None:
        """New connections are refused; those that stand stay as they are."""
        await self._stop_accepting()
        self._socket.close()

    def come_back(self, pages: Mapping[str, bytes]) -> None:
        """Listen again at the same port, with these pages."""
        self.pages = dict(pages)
        self._socket = _bound(self.port)
        self.listen()

    async def jam(self) -> None:
        """Accept nothing any more, and let the queue be full, so that connecting hangs."""
        await self._stop_accepting()
        self._socket.listen(0)
        for _ in range(4):
            joining = socket.socket()
            joining.setblocking(False)
            joining.connect_ex(("127.0.0.1", self.port))
            self._crowd.append(joining)

    async def stop(self) -> None:
        """End everything."""
        await self._stop_accepting()
        for task in self._running:
            task.cancel()
        for each in (*self._crowd, self._socket):
            each.close()

    async def _stop_accepting(self) -> None:
        if self._accepting is not None:
            self._accepting.cancel()
            # Only then may the socket go: the loop still watches its number.
            await asyncio.wait([self._accepting])
            self._accepting = None

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            accepted, _ = await loop.sock_accept(self._socket)
            self.accepted += 1
            self._running.append(self._tasks.create_task(self._follow(accepted)))

    async def _follow(self, accepted: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=accepted, limit=1 << 24)
        wire = Wire(reader, writer)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._serve(wire)
        finally:
            writer.transport.abort()

    async def _serve(self, wire: Wire) -> None:
        head = await wire.until(b"\r\n\r\n")
        method, target, _ = head.split(b" ", 2)
        if method == b"POST" and self.refusal:
            await wire.send(self.refusal)
            await wire.close()
            return
        if method == b"POST" and self.prelude:
            await wire.send(self.prelude)
        body = await wire.body_after(head)
        if method == b"GET":
            answer = self.pages.get(target.decode(), page(b"", 404))
            if answer is SILENCE:
                await wire.ended()
            await wire.send(answer)
            await wire.close()
            return
        call = Call(wire, head, body)
        self._calls.put_nowait(call)
        try:
            await wire.ended()
        finally:
            call.hung_up.set()


def _bound(port: int) -> socket.socket:
    taken = socket.socket()
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    taken.setblocking(False)
    taken.bind(("127.0.0.1", port))
    return taken


@asynccontextmanager
async def raw_engine(
    model: str = "raw", pages: Mapping[str, bytes] | None = None, *, listening: bool = True
) -> AsyncIterator[RawEngine]:
    """One of them, stopped at the end; `pages` instead of its list of models."""
    async with asyncio.TaskGroup() as tasks:
        engine = RawEngine(model, pages, tasks)
        if listening:
            engine.listen()
        try:
            yield engine
        finally:
            await engine.stop()
