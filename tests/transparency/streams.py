"""Streams as each dialect asks for and ends them, and ways to tell what a client made of one."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

from pair.agent.service import Node
from pair.core.names import NodeId, Outcome
from pair.settings import FixedNode, NamedEngine, NodeSettings, Settings
from tests.proxy.raw_engine import RawEngine, raw_engine
from tests.relay.wires import Wire, client
from tests.support.house import House, house

PATHS = {
    "openai": "/v1/chat/completions",
    "anthropic": "/v1/messages",
    "ollama": "/api/chat",
}
TYPES = {
    "openai": "text/event-stream",
    "anthropic": "text/event-stream",
    "ollama": "application/x-ndjson",
}
EVENTS = {
    "openai": (b'data: {"choices":[]}\n\n', b"data: [DONE]\n\n"),
    "anthropic": (b'event: ping\ndata: {"type":"ping"}\n\n', b"event: message_stop\ndata: {}\n\n"),
    "ollama": (b'{"done":false}\n', b'{"done":true}\n'),
}
PULSES = {"openai": b": waiting", "anthropic": b": waiting", "ollama": b" "}


def request(dialect: str, *, stream: bool = True, model: str = "raw") -> bytes:
    """A whole request of this dialect."""
    body = {"model": model, "messages": [], "max_tokens": 9, "stream": stream}
    content = json.dumps(body).encode()
    head = f"POST {PATHS[dialect]} HTTP/1.1\r\nHost: test\r\nContent-Length: {len(content)}\r\n\r\n"
    return head.encode() + content


def stream_head(dialect: str, *more: str) -> bytes:
    """The head of a chunked stream, from an engine that takes one request a connection."""
    kind = f"Content-Type: {TYPES[dialect]}"
    lines = (kind, "Transfer-Encoding: chunked", "Connection: close", *more)
    return ("HTTP/1.1 200 OK\r\n" + "".join(f"{line}\r\n" for line in lines) + "\r\n").encode()


def chunk(piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece)


def dechunked(raw: bytes) -> tuple[bytes, bool]:
    """The body in these chunks, and whether its end is there."""
    body = b""
    while raw:
        size, _, raw = raw.partition(b"\r\n")
        if not size or not raw:
            break
        length = int(size, 16)
        if not length:
            return body, True
        body, raw = body + raw[:length], raw[length + 2 :]
    return body, False


def error_in(dialect: str, body: bytes) -> Any:
    """The error event with which this stream ends, as the dialect's clients read it."""
    if dialect == "ollama":
        return json.loads(body.rstrip(b"\n").rpartition(b"\n")[2])["error"]
    event, _, line = body.rstrip(b"\n").rpartition(b"data: ")
    if dialect == "anthropic":
        assert event.endswith(b"event: error\n")
        assert json.loads(line)["type"] == "error"
    return json.loads(line)["error"]


def fates(built: House) -> dict[Outcome, int]:
    """How many tickets ended how, those that none did left out."""
    return {outcome: n for outcome, n in built.snapshot().closed.items() if n}


@asynccontextmanager
async def scripted(
    *, engines: int = 1, through_nodes: bool = False, settings: Settings | None = None
) -> AsyncIterator[tuple[House, Sequence[RawEngine]]]:
    """A house with scripted engines, each directly or behind a node of `pair`."""
    settings = settings or Settings()
    async with AsyncExitStack() as stack:
        behind = [await stack.enter_async_context(raw_engine()) for _ in range(engines)]
        urls = [engine.url for engine in behind]
        if through_nodes:
            for number, url in enumerate(urls):
                mine = NodeSettings(
                    listen="127.0.0.1:0", engines=(NamedEngine(url),), find_engines=False
                )
                node = Node(
                    replace(settings, node=mine),
                    node_id=NodeId(f"id-{number}"),
                    name=f"node-{number}",
                    version="test",
                )
                urls[number] = f"http://{(await stack.enter_async_context(node)).address}"
        named = replace(settings, nodes=tuple(FixedNode(url) for url in urls))
        built = await stack.enter_async_context(house(settings=named))
        nodes = built.proxy.scheduler.membership.nodes
        await built.until(lambda: sum(bool(node.replicas) for node in nodes.values()) == engines)
        await built.ready(engines)
        yield built, behind
        await built.quiet()
        built.assert_books_are_clean()


@asynccontextmanager
async def asking(built: House, sent: bytes) -> AsyncIterator[Wire]:
    """A client that has sent this."""
    async with client(built.proxy.addresses[0]) as wire:
        await wire.send(sent)
        yield wire
