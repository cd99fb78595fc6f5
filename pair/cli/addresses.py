"""What an address to listen on means: to this machine, to others, and in a URL.

Apart from the relay's notation of addresses, because this is about who can connect there.
"""

from __future__ import annotations

import asyncio
import socket
from ipaddress import ip_address

from pair.errors import UnusableAddress
from pair.relay.addresses import TcpAddress, parse_address


def tcp_address(text: str) -> TcpAddress:
    """Where something listens that others must be able to find.

    Raises:
        UnusableAddress: it is a path; nobody on a network can connect there.
    """
    address = parse_address(text)
    if not isinstance(address, TcpAddress):
        raise UnusableAddress(f"{text!r} is a path; a node listens on HOST:PORT")
    return address


def is_loopback(address: TcpAddress) -> bool:
    """Whether only this machine can connect there; a name other than localhost counts as no."""
    try:
        return ip_address(address.name.partition("%")[0]).is_loopback
    except ValueError:
        return address.name == "localhost"


def within_machine(address: TcpAddress) -> TcpAddress:
    """Where this machine itself connects to what listens there."""
    wildcards = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - read, not listened on
    return TcpAddress(wildcards.get(address.name, address.name), address.port)


async def resolved(address: TcpAddress) -> str:
    """The literal that a name to listen on means here; a literal is its own.

    Raises:
        UnusableAddress: the name means nothing here.
    """
    try:
        ip_address(address.name.partition("%")[0])
    except ValueError:
        pass
    else:
        return address.name
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(address.name, address.port, type=socket.SOCK_STREAM)
    except OSError as fault:
        raise UnusableAddress(f"{address.name} is no address of this machine: {fault}") from fault
    return str(found[0][4][0])
