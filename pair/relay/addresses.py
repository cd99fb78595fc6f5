"""Where a socket listens or connects: `NAME:PORT`, `[V6]:PORT` (a scope may follow:
`[fe80::1%eth0]:PORT`) or a Unix path.

Separate because both sides of the relay read the same notation. URLs are the business of the
layers above.
"""

from __future__ import annotations

from dataclasses import dataclass

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
