"""What all connections of one front share, and the top of every task that serves an exchange."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable
from pathlib import PurePath
from typing import Protocol

from pair.relay.body_budget import BodyBudget
from pair.relay.exchange import Exchange, plain_answer
from pair.relay.limits import FrontLimits
from pair.relay.sweep import Sweep

Serve = Callable[[Exchange], Awaitable[None]]

log = logging.getLogger(__name__)


class Connected(Protocol):
    """A client's connection, as far as its front is concerned."""

    def wind_up(self) -> None:
        """End now if nothing is going on, else after the running exchange."""

    def stop(self) -> None:
        """End now: cancel the exchange, and end when it has had its last word."""

    def sweep(self, now: float) -> None:
        """Check its time limits."""


class Frontage:
    """Made by the front.

    Attributes:
        connections: those that have not ended.
        draining: no further request is taken.
        all_closed: set when the last connection ends.
    """

    def __init__(self, serve: Serve, limits: FrontLimits) -> None:
        self.limits = limits
        self.tasks = asyncio.TaskGroup()
        self.budget = BodyBudget(limits.buffered_limit_bytes)
        self.connections: set[Connected] = set()
        self.draining = False
        self.all_closed = asyncio.Event()
        self._serve = serve
        self._sweep = Sweep()

    def joined(self, connection: Connected) -> None:
        """It has been accepted."""
        self.connections.add(connection)
        self._sweep.add(connection)

    def left(self, connection: Connected) -> None:
        """It has ended."""
        self._sweep.discard(connection)
        self.connections.discard(connection)
        if not self.connections:
            self.all_closed.set()

    def start(self, exchange: Exchange) -> asyncio.Task[None]:
        """Serve it in a task of its own."""
        return self.tasks.create_task(self._run(exchange))

    async def _run(self, exchange: Exchange) -> None:
        """The top of that task: nothing escapes from here but cancellation."""
        try:
            await self._serve(exchange)
            if not exchange.over:
                log.error("serving %s ended without an answer", exchange.client)
        except Exception as error:  # noqa: BLE001 - the top of a task
            where = _whereabouts(error)
            log.error("serving %s failed: %s", exchange.client, where)  # noqa: TRY400 - in one line
        finally:
            self._settle(exchange)

    def _settle(self, exchange: Exchange) -> None:
        """No exchange stays without an answer, none keeps its share of the budget."""
        exchange.feed_from(None)
        exchange.body.close()
        if exchange.over:
            return
        if exchange.begun or exchange.ahead:
            exchange.cut()
            return
        exchange.close_after()
        if self.draining:
            plain_answer(exchange, 503, "Shutting down.")
        else:
            plain_answer(exchange, 500, "An error of pair's own; its log says where.")


def _whereabouts(error: BaseException) -> str:
    """The kind of an error and where it came from, innermost place first.

    Neither its text nor any value: they may quote what a client sent.
    """
    frames = traceback.extract_tb(error.__traceback__)[:0:-1]
    places = " < ".join(f"{PurePath(frame.filename).name}:{frame.lineno}" for frame in frames)
    return f"{type(error).__name__} at {places}"
