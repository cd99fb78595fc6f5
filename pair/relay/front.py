"""Where clients connect: listening sockets, one task per exchange in one TaskGroup, and the orderly end of them all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from pair.relay.exchange import Exchange
from pair.relay.limits import FrontLimits

Serve = Callable[[Exchange], Awaitable[None]]


class Front:
    """An async context manager; leaving it ends everything at once, so `drain` first.

    What `serve` raises is logged and becomes a 500, or a cut where the answer had begun.
    """

    def __init__(self, serve: Serve, limits: FrontLimits) -> None:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        raise NotImplementedError

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        raise NotImplementedError

    async def open(self, address: str) -> str:
        """Listen there as well and return the address with the port that it became (for port 0).

        Raises:
            UnusableAddress: in use, not ours, not allowed or not an address; names it.
        """
        raise NotImplementedError

    async def drain(self, limit_s: float) -> None:
        """Stop accepting, close idle connections, let running exchanges end for `limit_s`, then cancel them."""
        raise NotImplementedError
