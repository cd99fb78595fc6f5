"""mDNS on this machine's loopback, for tests: what a browser tells, and records that no honest
advertiser sends.

Other programs of this machine may announce nodes there as well, so every test uses ids of its own.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import TypeVar

from zeroconf import ServiceInfo

from pair.core.events import NodeSighted, NodeWithdrawn
from pair.core.names import NodeId
from pair.discovery.advertiser import Advertiser
from pair.wire.advert import SERVICE_TYPE, Advert

Event = TypeVar("Event", NodeSighted, NodeWithdrawn)


def new_id() -> NodeId:
    """An id that no other test has."""
    return NodeId(f"test-{uuid.uuid4().hex}")


class Inbox:
    """A listener, and how to wait for what it is told."""

    def __init__(self) -> None:
        self.events: list[NodeSighted | NodeWithdrawn] = []
        self._told = asyncio.Event()

    def __call__(self, event: NodeSighted | NodeWithdrawn) -> None:
        self.events.append(event)
        self._told.set()

    async def first(
        self, kind: type[Event], node: NodeId, fits: Callable[[Event], bool] = lambda _: True
    ) -> Event:
        """The first event of this kind about this node that fits, within 5 s."""
        async with asyncio.timeout(5):
            while True:
                for event in self.events:
                    if isinstance(event, kind) and event.node == node and fits(event):
                        return event
                self._told.clear()
                await self._told.wait()

    def about(self, node: NodeId) -> list[NodeSighted | NodeWithdrawn]:
        """All events about this node so far."""
        return [event for event in self.events if event.node == node]


async def hears(inbox: Inbox) -> None:
    """Wait until the browser behind this inbox listens: what is sent from now on reaches it."""
    beacon = new_id()
    async with Advertiser(Advert(beacon, "beacon"), "127.0.0.1", 7248):
        await inbox.first(NodeSighted, beacon)


def record(label: str, properties: dict[bytes, bytes], port: int = 7248) -> ServiceInfo:
    """A record on loopback, however wrong."""
    return ServiceInfo(
        SERVICE_TYPE,
        f"{label}.{SERVICE_TYPE}",
        port=port,
        properties=properties,
        server=f"{label}.local.",
        addresses=[bytes([127, 0, 0, 1])],
    )
