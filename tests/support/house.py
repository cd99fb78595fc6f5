"""A house to test in: echo engines, each a fixed node, and the production proxy in front of them.

Real sockets throughout; nothing of ours is replaced. Conditions are waited for, with a bound, by
looking again at each turn of the proxy's own books.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp

from pair.bench.echo_engine.engine import EchoEngine
from pair.bench.echo_engine.settings import EchoSettings
from pair.core.names import Outcome, Phase
from pair.core.snapshot import Snapshot, take_snapshot
from pair.proxy.service import Proxy
from pair.settings import FixedNode, Settings

FAST = EchoSettings(prefill_rate_tokens_per_s=1e6, decode_rate_tokens_per_s=1e6, answer_tokens=4)
"""Answers in a few milliseconds."""

WAIT_S = 10.0
"""Longest wait for any condition; reached only by a failing test."""


def chat(
    model: str = "echo", tokens: int = 4, *, stream: bool = False, **more: Any
) -> dict[str, Any]:
    """The body of a chat request."""
    message = {"role": "user", "content": "say something"}
    return {"model": model, "messages": [message], "max_tokens": tokens, "stream": stream, **more}


@dataclass
class House:
    """The running parts.

    Attributes:
        client: an HTTP client whose base is the proxy.
    """

    proxy: Proxy
    engines: list[EchoEngine]
    client: aiohttp.ClientSession
    stack: AsyncExitStack
    closed: list[tuple[int, Outcome]] = field(default_factory=list)

    @property
    def base_url(self) -> str:
        return f"http://{self.proxy.addresses[0]}"

    @property
    def address(self) -> tuple[str, int]:
        """Where a raw connection goes."""
        name, _, port = self.proxy.addresses[0].rpartition(":")
        return name, int(port)

    async def raw(self) -> RawClient:
        """A raw connection to the proxy, closed at the latest with the house."""
        reader, writer = await asyncio.open_connection(*self.address, limit=2**24)
        client = RawClient(reader, writer)
        self.stack.callback(client.reset)
        return client

    def snapshot(self) -> Snapshot:
        """The proxy's books now."""
        return take_snapshot(self.proxy.scheduler, asyncio.get_running_loop().time())

    async def until(self, condition: Callable[[], bool], wait_s: float = WAIT_S) -> None:
        """Wait for a condition; TimeoutError if it does not come."""
        async with asyncio.timeout(wait_s):
            while not condition():  # noqa: ASYNC110 - the books have no bell, and need none
                await asyncio.sleep(0.002)

    async def ready(self, nodes: int, wait_s: float = WAIT_S) -> None:
        """Wait until so many nodes are ready."""
        membership = self.proxy.scheduler.membership
        await self.until(
            lambda: sum(n.phase is Phase.READY for n in membership.nodes.values()) >= nodes, wait_s
        )

    async def quiet(self, wait_s: float = WAIT_S) -> None:
        """Wait until no ticket is open."""
        await self.until(lambda: not self.proxy.scheduler.desk.tickets, wait_s)

    async def send(self, body: dict[str, Any], **headers: str) -> Reply:
        """Post a chat request and read its whole answer."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.client.post("/v1/chat/completions", json=body, headers=named) as answer:
            return Reply(answer.status, answer.headers, await answer.read())

    def assert_books_are_clean(self) -> None:
        """Every count is back at zero and every ticket had one fate (I1, I2)."""
        scheduler = self.proxy.scheduler
        snapshot = self.snapshot()
        assert not scheduler.desk.tickets, "I1: a ticket is still open"
        assert len(scheduler.desk.ledger) == 0, "I2: a lease is still live"
        assert snapshot.waiting == 0, "I1: a ticket still waits"
        assert sum(snapshot.closed.values()) == snapshot.opened, "I1: fates and tickets differ"
        for node in snapshot.nodes:
            for replica in node.replicas:
                assert replica.in_flight == 0, f"I2: {node.name} still has work in flight"


@dataclass(frozen=True)
class Reply:
    """A whole answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@asynccontextmanager
async def house(
    *engines: EchoSettings,
    settings: Settings | None = None,
    slots: Sequence[int] = (),
) -> AsyncIterator[House]:
    """Start engines and proxy; entered when every node is ready.

    Args:
        slots: what the user says of each node's slots, 0 or missing for the engine's own word.
    """
    async with AsyncExitStack() as stack:
        running = [await stack.enter_async_context(EchoEngine(each)) for each in engines]
        given = [*slots, *([0] * len(running))]
        nodes = tuple(
            FixedNode(engine.url, slots=given[number], name=f"node-{number}")
            for number, engine in enumerate(running)
        )
        settings = settings or Settings()
        settings = replace(
            settings,
            nodes=(*nodes, *settings.nodes),
            proxy=replace(settings.proxy, listen=("127.0.0.1:0",)),
        )
        proxy = await stack.enter_async_context(Proxy(settings, proxy_id="test"))
        client = await stack.enter_async_context(
            aiohttp.ClientSession(
                f"http://{proxy.addresses[0]}",
                connector=aiohttp.TCPConnector(limit=0, force_close=False),
                timeout=aiohttp.ClientTimeout(total=120),
            )
        )
        built = House(proxy, running, client, stack)
        await built.ready(len(running))
        yield built


class RawClient:
    """A client that can do what no library lets one do: hang up at any byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def post(
        self, body: dict[str, Any], path: str = "/v1/chat/completions", **headers: str
    ) -> None:
        """Send a whole request."""
        encoded = json.dumps(body).encode()
        lines = [f"POST {path} HTTP/1.1", "Host: test", "Content-Type: application/json"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        lines += [f"Content-Length: {len(encoded)}", "", ""]
        self.writer.write("\r\n".join(lines).encode() + encoded)

    async def until(self, marker: bytes) -> bytes:
        """Read up to and with these bytes."""
        async with asyncio.timeout(WAIT_S):
            return await self.reader.readuntil(marker)

    async def rest(self) -> bytes:
        """Read up to the connection's end; a reset ends it too."""
        received = b""
        async with asyncio.timeout(WAIT_S):
            while True:
                try:
                    piece = await self.reader.read(65536)
                except ConnectionError:
                    return received
                if not piece:
                    return received
                received += piece

    async def rest_or_done(self) -> bytes:
        """Read up to the end of the stream or of the connection, whichever comes first."""
        received = b""
        while b"[DONE]" not in received:
            try:
                piece = await asyncio.wait_for(self.reader.read(65536), WAIT_S)
            except ConnectionError:
                break
            if not piece:
                break
            received += piece
        return received

    def hang_up(self) -> None:
        """Close with a FIN."""
        self.writer.close()

    def reset(self) -> None:
        """Close with a reset."""
        self.writer.transport.abort()
