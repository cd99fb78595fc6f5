"""Connections to one address: made when needed, kept a little while, the freshest used first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pair.errors import LostUpstream
from pair.relay.addresses import parse_address
from pair.relay.dialing import Dialer
from pair.relay.heads import AnswerHead
from pair.relay.limits import UpstreamLimits
from pair.relay.sweep import Sweep
from pair.relay.upstream_answer import UpstreamAnswer
from pair.relay.upstream_connection import UpstreamConnection

# How long a request can be on its way to a connection that was being closed over there: the end
# shows after one round trip, milliseconds at home and not much more than a tenth of a second over
# a Wi-Fi that saves power. What ends later may be an engine that worked on the request and died.
CLOSING_RACE_S = 0.25


class UpstreamPool:
    """Knows one address (`pair/relay/addresses.py` has the notation).

    The environment's proxies are never used.

    Attributes:
        name: the address, for messages.
        authority: what `Host` says there.
        head_limit_bytes: of an answer.
        last_byte_at: loop time of the last answer byte from there, None if there never was one.
    """

    def __init__(self, address: str, limits: UpstreamLimits) -> None:
        """Raises `UnusableAddress` if it is none."""
        where = parse_address(address)
        self.name = str(where)
        self.authority = where.authority
        self.head_limit_bytes = limits.head_limit_bytes
        self.last_byte_at: float | None = None
        self._limits = limits
        self._dialer = Dialer(where, limits.connect_limit_s)
        self._idle: list[UpstreamConnection] = []
        self._closed = False
        self._sweep = Sweep()

    @property
    def idle(self) -> int:
        """How many connections are kept for the next request."""
        return len(self._idle)

    async def ask(
        self, head: bytes, body: Sequence[bytes], *, fresh: bool = False, switches: bool = False
    ) -> tuple[UpstreamAnswer, AnswerHead]:
        """Ask, on an idle connection or (`fresh`: always) a new one; wait for the answer's head.

        With `switches` it asks for another protocol, and the connection serves no other request
        before or after, whatever comes of it.

        An idle connection may have been closed over there a moment ago, before the request
        arrived. When it ends without a byte, and as soon as that would show, the same is asked
        once more on a new one. The caller ends the answer by `release`, `abort` or `carry`; on any
        error, cancellation included, that is done here.

        Raises:
            UnreachableNode: no connection within the limit; says why.
            LostUpstream: closed or reset before a head.
            GarbledAnswer: not HTTP, or a head above the limit.
        """
        asked_at = asyncio.get_running_loop().time()
        connection = None if fresh or switches else self._pop(asked_at)
        while True:
            if connection is None:
                connection = await self._dialer.dial(lambda: UpstreamConnection(self))
            answer = connection.ask(head, body, switches=switches)
            try:
                return answer, await answer.wait_for_head()
            except LostUpstream as lost:
                answer.abort()
                if not self._was_closed_for_idleness(lost, asked_at):
                    raise
                connection = None
            except BaseException:
                answer.abort()
                raise

    def _was_closed_for_idleness(self, lost: LostUpstream, asked_at: float) -> bool:
        """Whether an idle connection was closed over there while the request was on its way.

        Later it was no such race, and whether that engine is asked again is not for us to say.
        """
        waited_s = asyncio.get_running_loop().time() - asked_at
        return lost.reused and not lost.answered and waited_s <= CLOSING_RACE_S

    def close(self) -> None:
        """Close the idle connections, and from now on each one when it is released."""
        self._closed = True
        for connection in tuple(self._idle):
            connection.abort()

    def _pop(self, now: float) -> UpstreamConnection | None:
        """The connection that was used last, if it is still good and young enough."""
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and now - connection.idle_since <= self._limits.idle_upstream_s:
                return connection
            connection.abort()
        return None

    # --- what connections call (their `Shelf`) ---------------------------------------------------

    def keep(self, connection: UpstreamConnection) -> bool:
        """Take it back; False if there is no room."""
        if self._closed or len(self._idle) >= self._limits.idle_upstream_limit:
            return False
        self._idle.append(connection)
        if len(self._idle) == 1:
            self._sweep.add(self)
        return True

    def drop(self, connection: UpstreamConnection) -> None:
        """It has ended; does nothing if it was not idle."""
        if connection in self._idle:
            self._idle.remove(connection)
        if not self._idle:
            self._sweep.discard(self)

    def sweep(self, now: float) -> None:
        """Drop what was idle for too long: the oldest are in front."""
        while self._idle and now - self._idle[0].idle_since > self._limits.idle_upstream_s:
            self._idle.pop(0).abort()
        if not self._idle:
            self._sweep.discard(self)
