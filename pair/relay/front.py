"""Where clients connect: listening sockets, a task per exchange in one TaskGroup, an end."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from pair.errors import UnusableAddress
from pair.relay.addresses import Address, TcpAddress, UnixAddress, parse_address
from pair.relay.client_connection import ClientConnection
from pair.relay.frontage import Frontage, Serve
from pair.relay.limits import FrontLimits
from pair.relay.sockets import connections_that_fit

# Connections that the kernel keeps until we accept them: a fan-out of agents opens some hundred at
# once.
BACKLOG = 1024
# For what was written to leave once everything has ended.
LAST_WORDS_S = 1.0

_WHY = {
    errno.EADDRINUSE: "it is in use",
    errno.EADDRNOTAVAIL: "this machine has no such address",
    errno.EACCES: "that is not allowed",
    errno.EPERM: "that is not allowed",
    errno.ENOENT: "its folder does not exist",
}


class _Leaving(Exception):
    """Makes the TaskGroup cancel what is still running."""


class Front:
    """An async context manager; leaving it ends everything at once, so `drain` first.

    What `serve` raises is logged and becomes a 500, or a cut where the answer had begun.
    """

    def __init__(self, serve: Serve, limits: FrontLimits) -> None:
        fitting = connections_that_fit(limits.connections_limit)
        self._limits = limits = replace(limits, connections_limit=fitting)
        self._frontage = Frontage(serve, limits)
        self._listening: list[asyncio.Server] = []
        # With what was made there: whoever came later may have put something else in its place.
        self._made: list[tuple[str, tuple[int, int] | None]] = []

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._frontage.connections)

    @property
    def buffered_bytes(self) -> int:
        """How much of the budget for request bodies is taken."""
        return self._limits.buffered_limit_bytes - self._frontage.budget.free_bytes

    async def __aenter__(self) -> Self:
        await self._frontage.tasks.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop_accepting()
        self._stop_connections()
        try:
            # Not the error that we were left by: a TaskGroup would wrap it.
            await self._frontage.tasks.__aexit__(_Leaving, _Leaving(), None)
        except* _Leaving:
            await self._closed(LAST_WORDS_S)
        finally:
            self._stop_connections()

    async def open(self, address: str) -> str:
        """Listen there as well and return the address with the port that it became (for port 0).

        Raises:
            UnusableAddress: in use, not ours, not allowed or not an address; names it.
        """
        where = parse_address(address)
        try:
            listening = await self._listen(where)
        except OSError as error:
            # asyncio words its own text around the number, uvloop and name resolution theirs. From
            # Python 3.13 on asyncio gives no number where the machine lacks the address.
            number = error.errno or errno.EADDRNOTAVAIL
            why = _WHY.get(number, error.strerror or str(error))
            raise UnusableAddress(f"cannot listen on {where}: {why}") from error
        self._listening.append(listening)
        if isinstance(where, UnixAddress):
            self._made.append((where.path, _identity(where.path)))
            return where.path
        return str(TcpAddress(where.name, listening.sockets[0].getsockname()[1]))

    async def drain(self, limit_s: float) -> None:
        """Stop accepting, close what is idle, let exchanges end for `limit_s`, then cancel them."""
        self._stop_accepting()
        for connection in tuple(self._frontage.connections):
            connection.wind_up()
        if not await self._closed(limit_s):
            self._stop_connections()
            await self._closed(LAST_WORDS_S)

    async def _listen(self, where: Address) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        if isinstance(where, UnixAddress):
            # The loop takes any socket there for a stale one and removes it.
            if _somebody_listens(where.path):
                raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
            return await loop.create_unix_server(self._connection, where.path, backlog=BACKLOG)
        return await loop.create_server(
            self._connection, where.name, where.port, backlog=BACKLOG, reuse_address=True
        )

    def _connection(self) -> ClientConnection:
        return ClientConnection(self._frontage)

    def _stop_accepting(self) -> None:
        self._frontage.draining = True
        # While they are open: who comes now finds somebody or nothing, and no number of an inode
        # is given out again.
        for path, made in self._made:
            if _identity(path) == made:
                Path(path).unlink(missing_ok=True)
        self._made.clear()
        for listening in self._listening:
            listening.close()
        self._listening.clear()

    def _stop_connections(self) -> None:
        for connection in tuple(self._frontage.connections):
            connection.stop()

    async def _closed(self, limit_s: float) -> bool:
        """Whether all connections have ended, waiting that long for it."""
        if not self._frontage.connections:
            return True
        self._frontage.all_closed.clear()
        try:
            async with asyncio.timeout(limit_s):
                await self._frontage.all_closed.wait()
        except TimeoutError:
            return False
        return True


def _somebody_listens(path: str) -> bool:
    """Whether a connection is taken there; raises `OSError` when that cannot be found out."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except BlockingIOError:
            # Its queue of connections is full.
            return True
    return True


def _identity(path: str) -> tuple[int, int] | None:
    """Tells what is there now from what was or will be there; None if nothing is."""
    try:
        found = Path(path).lstat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
