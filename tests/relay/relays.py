"""A bare relay for tests: front, pool and the passage between them, nothing of tickets."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from pair.errors import NodeFault, RequestFault
from pair.relay.exchange import Exchange, plain_answer
from pair.relay.front import Front
from pair.relay.heads import Header, request_bytes
from pair.relay.limits import FrontLimits, UpstreamLimits
from pair.relay.passage import carry
from pair.relay.upstream_pool import UpstreamPool
from tests.relay.wires import within

FRONT_LIMITS = FrontLimits(
    head_limit_bytes=65536,
    head_limit_s=30.0,
    idle_client_s=75.0,
    upload_limit_s=120.0,
    connections_limit=1000,
    write_limit_s=60.0,
    buffered_limit_bytes=1 << 29,
)
UPSTREAM_LIMITS = UpstreamLimits(
    connect_limit_s=3.0, head_limit_bytes=65536, idle_upstream_s=4.0, idle_upstream_limit=64
)


def front_limits(**changes: Any) -> FrontLimits:
    """The usual limits but for these."""
    return replace(FRONT_LIMITS, **changes)


def upstream_limits(**changes: Any) -> UpstreamLimits:
    """The usual limits but for these."""
    return replace(UPSTREAM_LIMITS, **changes)


class Tap:
    """Counts what it hears, and keeps none of it."""

    def __init__(self, add: Sequence[Header] = ()) -> None:
        self.add = add
        self.firsts = 0
        self.heard = hashlib.sha256()

    def first_content(self) -> Sequence[Header]:
        """Counts."""
        self.firsts += 1
        return self.add

    def body(self, piece: bytes) -> None:
        """Counts."""
        self.heard.update(piece)


@dataclass
class Relay:
    """What the tests look at.

    Attributes:
        fates: of each exchange, in the order of their ends: answered, client left, or the fault.
    """

    front: Front
    pool: UpstreamPool
    address: str = ""
    taps: list[Tap] = field(default_factory=list)
    serving: int = 0
    fates: asyncio.Queue[str] = field(default_factory=asyncio.Queue)
    started: asyncio.Queue[Exchange] = field(default_factory=asyncio.Queue)

    async def fate(self, bound_s: float = 10.0) -> str:
        """The next one."""
        return await within(self.fates.get(), bound_s)


@asynccontextmanager
async def relay(
    address: str,
    limits: FrontLimits = FRONT_LIMITS,
    upstream: UpstreamLimits = UPSTREAM_LIMITS,
    body_limit_bytes: int = 1 << 27,
) -> AsyncIterator[Relay]:
    """Relay every request to this address."""

    async def serve(exchange: Exchange) -> None:
        told.started.put_nowait(exchange)
        told.serving += 1
        tap = Tap(((b"x-pair-node", b"n"),))
        told.taps.append(tap)
        fate = "cancelled"
        try:
            body = await exchange.read_body(body_limit_bytes)
            head = request_bytes(
                exchange.head,
                authority=told.pool.authority,
                body_length=sum(map(len, body)),
            )
            answer, answer_head = await told.pool.ask(head, body)
            await carry(exchange, answer, answer_head, tap)
            fate = "answered"
        except RequestFault as fault:
            fate = f"refused {fault.status}"
            plain_answer(exchange, fault.status, str(fault))
        except NodeFault as fault:
            fate = f"{type(fault).__name__} begun={exchange.begun}"
            if exchange.begun:
                exchange.cut()
            else:
                plain_answer(exchange, 502, str(fault))
        finally:
            told.serving -= 1
            told.fates.put_nowait("client left" if exchange.client_left else fate)

    async with Front(serve, limits) as front:
        told = Relay(front, UpstreamPool(address, upstream))
        told.address = await front.open("127.0.0.1:0")
        try:
            yield told
        finally:
            told.pool.close()
