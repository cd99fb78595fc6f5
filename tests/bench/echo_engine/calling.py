"""How these tests talk to an echo engine: as JSON through aiohttp, or as bare bytes on a socket."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from pair.bench.echo_engine import EchoEngine, EchoSettings

# No test waits longer for anything; far above what any of them needs on a loaded machine.
LIMIT_S = 20.0
# What a loaded two-core machine may add to a wake-up; the loop's own share is 1 ms.
LATE_S = 0.15
# Rates at which an answer takes no time.
INSTANT = {
    "prefill_rate_tokens_per_s": float("inf"),
    "decode_rate_tokens_per_s": float("inf"),
}
CHAT = "/v1/chat/completions"


def settings(**changes: Any) -> EchoSettings:
    """Settings of an engine whose answers take no time, with `changes`."""
    return EchoSettings(**{**INSTANT, **changes})


def chat_body(words: str = "hello there", tokens: int | None = 4, **more: Any) -> dict[str, Any]:
    """The body of a chat request."""
    messages = more.pop("messages", [{"role": "user", "content": words}])
    body: dict[str, Any] = {"model": "echo", "messages": messages, **more}
    return body if tokens is None else {**body, "max_tokens": tokens}


@dataclass
class Answer:
    """A whole answer as a client got it; `took_s` from sending to the last byte."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    took_s: float = 0.0

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """The JSON of the `data:` lines, without the final [DONE]."""
        lines = [line for line in self.body.decode().split("\n") if line.startswith("data: ")]
        return [json.loads(line[6:]) for line in lines if line != "data: [DONE]"]


@dataclass
class Client:
    """An aiohttp session on one engine."""

    engine: EchoEngine
    session: aiohttp.ClientSession

    async def get(self, path: str, **more: Any) -> Answer:
        return await self.ask("GET", path, **more)

    async def post(self, path: str, body: object = None, **more: Any) -> Answer:
        return await self.ask("POST", path, json=body, **more)

    async def chat(self, words: str = "hello there", tokens: int | None = 4, **more: Any) -> Answer:
        headers = more.pop("headers", {})
        return await self.post(CHAT, chat_body(words, tokens, **more), headers=headers)

    async def ask(self, method: str, path: str, **more: Any) -> Answer:
        began_s = time.monotonic()
        async with self.session.request(method, self.engine.url + path, **more) as response:
            body = await response.read()
            took_s = time.monotonic() - began_s
            return Answer(response.status, response.headers, body, took_s)


@asynccontextmanager
async def engine_and_client(given: EchoSettings | None = None) -> AsyncIterator[Client]:
    """An engine and a session on it."""
    limit = aiohttp.ClientTimeout(total=LIMIT_S)
    connector = aiohttp.TCPConnector(limit=0)
    async with (
        EchoEngine(given or settings()) as engine,
        aiohttp.ClientSession(timeout=limit, connector=connector) as session,
    ):
        yield Client(engine, session)


@dataclass
class RawConnection:
    """A bare connection: what is written to it is exactly what the engine gets, and back."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    got: bytes = field(default=b"")

    def send(self, head: str, body: bytes = b"") -> None:
        self.writer.write(head.replace("\n", "\r\n").encode() + body)

    def send_json(self, path: str, body: object, *header_lines: str, version: str = "1.1") -> None:
        content = json.dumps(body).encode()
        lines = [f"POST {path} HTTP/{version}", "Host: echo", f"Content-Length: {len(content)}"]
        self.send("\n".join([*lines, *header_lines]) + "\n\n", content)

    async def read_to_end(self) -> bytes:
        """Everything until the engine closes; raises ConnectionResetError for a reset."""
        async with asyncio.timeout(LIMIT_S):
            while piece := await self.reader.read(65536):
                self.got += piece
        return self.got

    async def read_until(self, mark: bytes) -> bytes:
        async with asyncio.timeout(LIMIT_S):
            while mark not in self.got:
                piece = await self.reader.read(65536)
                assert piece, f"closed before {mark!r} came, after {self.got!r}"
                self.got += piece
        return self.got

    async def read_answer(self) -> tuple[bytes, bytes]:
        """Head and body of one answer with a content length; the connection stays usable."""
        async with asyncio.timeout(LIMIT_S):
            head = await self.reader.readuntil(b"\r\n\r\n")
            lines = head.lower().split(b"\r\n")
            length = next(int(line[15:]) for line in lines if line.startswith(b"content-length:"))
            return head, await self.reader.readexactly(length)


@asynccontextmanager
async def raw_connection(engine: EchoEngine) -> AsyncIterator[RawConnection]:
    """A bare connection to the engine."""
    address = urlsplit(engine.url)
    assert address.hostname is not None
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    try:
        yield RawConnection(reader, writer)
    finally:
        writer.close()
        try:
            await writer.wait_closed()
        except ConnectionError:
            # The engine has reset it, which is what some tests are about.
            writer.transport.abort()
