"""Where a socket listens or connects: `NAME:PORT`, `[V6]:PORT` (a scope may follow:
`[fe80::1%eth0]:PORT`) or a Unix path.

Separate because both sides of the relay read the same notation; what a base URL means in it, too.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlsplit

from pair.errors import UnusableAddress

PORTS = 65536


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """A port on a name or a literal; `name` carries the scope of a link-local address."""

    name: str
    port: int

    def __str__(self) -> str:
        return f"[{self.name}]:{self.port}" if ":" in self.name else f"{self.name}:{self.port}"

    @property
    def authority(self) -> bytes:
        """What `Host` says there, without the scope, which means something on this machine only."""
        unscoped = str(TcpAddress(self.name.partition("%")[0], self.port))
        return unscoped.encode("ascii" if unscoped.isascii() else "idna")


@dataclass(frozen=True, slots=True)
class UnixAddress:
    """A socket in the file system."""

    path: str

    def __str__(self) -> str:
        return self.path

    @property
    def authority(self) -> bytes:
        """What `Host` says there: such a socket is this machine's own."""
        return b"localhost"


Address = TcpAddress | UnixAddress


def parse_address(text: str) -> Address:
    """Read an address; anything with a slash is a path.

    Raises:
        UnusableAddress: it has none of the three forms.
    """
    if "/" in text:
        return UnixAddress(text)
    name, colon, port = text.rpartition(":")
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1]
    elif ":" in name:
        colon = ""  # a bare IPv6 address: its last group is not a port
    if not (name and colon and port.isascii() and port.isdigit() and int(port) < PORTS):
        raise UnusableAddress(
            f"{text!r} is not an address: it takes NAME:PORT, [IPV6]:PORT or a path with a slash"
        )
    address = TcpAddress(name, int(port))
    try:
        _ = address.authority
    except UnicodeError as error:
        raise UnusableAddress(f"{text!r} is not an address: {name!r} is not a name") from error
    return address


class BaseUrl(NamedTuple):
    """A base URL taken apart.

    Attributes:
        address: where to connect, with the port.
        path: what stands before every target there, usually empty.
    """

    address: str
    path: bytes


def parse_base_url(url: str) -> BaseUrl:
    """Take an `http` URL apart, such as `http://127.0.0.1:8080/llm`; without a port it means 80."""
    parts = urlsplit(url)
    address = parts.netloc if parts.port else f"{parts.netloc}:80"
    return BaseUrl(address, parts.path.rstrip("/").encode())


def is_base_url(text: str, schemes: Collection[str] = ("http",)) -> bool:
    """Whether this can be a base URL: a scheme, a machine, perhaps a port; no blanks."""
    try:
        parts = urlsplit(text)
        usable = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return usable and not any(char.isspace() for char in text)
