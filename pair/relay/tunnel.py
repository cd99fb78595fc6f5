"""After `101 Switching Protocols`: two connections become one, and nothing of it is read any more.

What comes from one side goes to the other as it comes. A side that takes nothing pauses the other
one; one that has said its last is told to the other, and then the rest of its words may come, but
not for ever: most of what uses an upgrade (WebSocket) has its own goodbye, and whoever closes has
left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pair.errors import NodeFault
from pair.relay.exchange import Exchange
from pair.relay.heads import AnswerHead, Header
from pair.relay.upstream_answer import UpstreamAnswer

# How long one side may go on after the other has said its last: an engine that never notices holds
# its slot for no longer.
HALF_OPEN_S = 5.0


async def tunnel(
    exchange: Exchange, upstream: UpstreamAnswer, head: AnswerHead, add: Sequence[Header]
) -> None:
    """Pass the 101 on and then all that follows, until both sides have ended.

    Args:
        add: headers of ours for the 101.

    Raises:
        LostUpstream: its connection was reset. A client's reset cancels the task, as ever.
    """
    tube = _Tube(exchange, upstream)
    try:
        exchange.switch(head, add, tube)
        upstream.send_from(tube)
        upstream.attach(tube)
        exchange.feed_from(upstream)
        await tube.over()
        if tube.fault is not None:
            raise tube.fault
    except BaseException:
        upstream.abort()
        raise
    finally:
        exchange.feed_from(None)
    upstream.close()
    exchange.finish()


class _Tube:
    """The sink of what the upstream says, and of what the client does.

    Attributes:
        fault: why the upstream's side broke.
    """

    def __init__(self, exchange: Exchange, upstream: UpstreamAnswer) -> None:
        self.fault: NodeFault | None = None
        self._exchange = exchange
        self._upstream = upstream
        self._open_sides = 2
        self._news = asyncio.Event()

    async def over(self) -> None:
        """Wait for the end: both sides have said their last, one of them some time ago, or a
        fault.
        """
        await self._news.wait()
        try:
            async with asyncio.timeout(HALF_OPEN_S):
                while self._open_sides and self.fault is None:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            pass  # the other one has left long ago

    # What the upstream says (`Sink`)

    def take(self, piece: bytes, *, whole: bool) -> None:
        """To the client."""
        self._exchange.send(piece)
        if whole:
            self._exchange.end_sending()
            self._one_ended()

    def lost(self, fault: NodeFault) -> None:
        """The upstream's connection broke."""
        self.fault = fault
        self._news.set()

    # What the client says (`Receiver`), and how much of it the upstream takes (`Source`)

    def received(self, piece: bytes) -> None:
        """To the upstream."""
        self._upstream.send(piece)

    def ended(self) -> None:
        """The client has said its last."""
        self._upstream.end_sending()
        self._one_ended()

    def throttle(self, paused: bool) -> None:
        """The upstream takes no more for now, or again."""
        self._exchange.pause_client(paused)

    def _one_ended(self) -> None:
        self._open_sides -= 1
        self._news.set()
