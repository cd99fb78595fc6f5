"""How a connection comes about: names, several addresses behind one, and in words why it did not.

Separate from the pool because it is the only place that meets the operating system's errors. Race
of addresses after RFC 8305 by hand, since uvloop does not offer asyncio's.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import TypeVar, cast

from pair.errors import NodeFault, NoSocketsLeft, UnreachableNode
from pair.relay.addresses import Address, TcpAddress, UnixAddress
from pair.relay.names import Found, Names

# How long an address may take before the next one is tried beside it (RFC 8305 recommends it).
STAGGER_S = 0.25

_Where = tuple[str, int] | tuple[str, int, int, int]
Resolved = tuple[int, int, int, _Where]
_Spoken = TypeVar("_Spoken", bound=asyncio.BaseProtocol)

# What says most about an address comes first; where several failed, that is the one that is told.
_WHY = {
    errno.ECONNREFUSED: "refused the connection, so nothing listens there",
    errno.ENOENT: "does not exist",
    errno.EACCES: "may not be connected to by this user",
    errno.EHOSTUNREACH: "cannot be reached, there is no route to it",
    errno.ENETUNREACH: "cannot be reached, there is no route to its network",
    errno.ETIMEDOUT: "did not answer",
}

# What this machine lacks: files for the process or for all, memory for sockets, free ports.
OURS = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL))


class Dialer:
    """Knows one address, and what its name meant last time."""

    def __init__(self, address: Address, limit_s: float) -> None:
        self._address = address
        self._limit_s = limit_s
        self._resolved: list[Resolved] = []
        self._names = Names()

    async def dial(self, protocol: Callable[[], _Spoken]) -> _Spoken:
        """A new connection, spoken by what `protocol` makes.

        Raises:
            UnreachableNode: refused, no route, unresolved, or the limit passed; says which.
            NoSocketsLeft: this machine has none.
        """
        loop = asyncio.get_running_loop()
        address = self._address
        try:
            async with asyncio.timeout(self._limit_s):
                if isinstance(address, UnixAddress):
                    return (await loop.create_unix_connection(protocol, address.path))[1]
                connected = await self._connect(address)
                return (await loop.create_connection(protocol, sock=connected))[1]
        except TimeoutError as error:
            raise UnreachableNode(f"{address} did not answer within {self._limit_s:g} s") from error
        except socket.gaierror as error:
            raise UnreachableNode(f"{address} cannot be reached, its name is not known") from error
        except OSError as error:
            raise _in_words(error, address) from error

    async def _connect(self, address: TcpAddress) -> socket.socket:
        """What worked last time first; if that fails or there is none, the name is looked up."""
        if self._resolved:
            try:
                return await self._race(self._resolved)
            except OSError:
                if _is_literal(address):
                    raise
        self._resolved = await look_up(address, self._names)
        return await self._race(self._resolved)

    async def _race(self, resolved: list[Resolved]) -> socket.socket:
        """The first of these to connect; while one takes its time, the next is tried beside it."""
        if len(resolved) == 1:
            return await _open(resolved[0])
        winners: list[socket.socket] = []
        failures: list[OSError] = []
        failed = [asyncio.Event() for _ in resolved]
        tries: list[asyncio.Task[None]] = []

        async def attempt(place: int) -> None:
            if place:
                try:
                    async with asyncio.timeout(STAGGER_S * place):
                        await failed[place - 1].wait()
                except TimeoutError:
                    pass  # its turn, though the one before has not failed yet
            try:
                winner = await _open(resolved[place])
            except OSError as error:
                failures.append(error)
                failed[place].set()
                return
            winners.append(winner)
            for other in tries:
                if other is not tries[place]:
                    other.cancel()

        try:
            async with asyncio.TaskGroup() as group:
                tries += [group.create_task(attempt(place)) for place in range(len(resolved))]
        except BaseException:
            for winner in winners:
                winner.close()
            raise
        for late in winners[1:]:
            late.close()
        if not winners:
            raise min(failures, key=_rank)
        self._remember(winners[0])
        return winners[0]

    def _remember(self, winner: socket.socket) -> None:
        """Try this one first from now on."""
        name = winner.getpeername()
        self._resolved.sort(key=lambda one: one[3][:2] != name[:2])


async def _open(resolved: Resolved) -> socket.socket:
    family, kind, protocol, where = resolved
    connected = socket.socket(family, kind, protocol)
    try:
        connected.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connected, where)
    except BaseException:
        connected.close()
        raise
    return connected


async def look_up(address: TcpAddress, names: Names) -> list[Resolved]:
    """All addresses of a name, in the system's order but with the families in turns."""
    if _is_literal(address):
        found: Found = socket.getaddrinfo(
            address.name, address.port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
        )
    else:
        found = await names.look_up(address.name, address.port)
    by_family: dict[int, list[Resolved]] = {}
    for family, kind, protocol, _, where in found:
        if family in {socket.AF_INET, socket.AF_INET6}:
            resolved = (family, kind, protocol, cast("_Where", where))
            by_family.setdefault(family, []).append(resolved)
    turns = max(map(len, by_family.values()), default=0)
    return [
        of_one[turn] for turn in range(turns) for of_one in by_family.values() if turn < len(of_one)
    ]


def _is_literal(address: TcpAddress) -> bool:
    try:
        socket.getaddrinfo(address.name, None, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        return False
    return True


def _in_words(error: OSError, address: Address) -> NodeFault:
    if error.errno in OURS:
        return NoSocketsLeft(f"{address} was not asked: {error.strerror or error} on this machine")
    why = _WHY.get(error.errno or 0) or f"cannot be reached: {error.strerror or error}"
    return UnreachableNode(f"{address} {why}")


def _rank(error: OSError) -> int:
    told = list(_WHY)
    return told.index(error.errno) if error.errno in told else len(told)
