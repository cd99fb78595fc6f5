"""Where a socket listens or connects: `NAME:PORT`, `[V6]:PORT` (with a scope, `[fe80::1%eth0]:PORT`) or a Unix path.

Separate because both sides of the relay read the same notation. URLs are the business of the layers above.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """A port on a name or a literal; `name` carries the scope of a link-local address."""

    name: str
    port: int

    def __str__(self) -> str:
        return f"[{self.name}]:{self.port}" if ":" in self.name else f"{self.name}:{self.port}"

    @property
    def authority(self) -> bytes:
        """What `Host` says there; a scope means something on this machine only, so it is left out."""
        return str(TcpAddress(self.name.partition("%")[0], self.port)).encode("ascii")


@dataclass(frozen=True, slots=True)
class UnixAddress:
    """A socket in the file system."""

    path: str

    def __str__(self) -> str:
        return self.path

    @property
    def authority(self) -> bytes:
        """What `Host` says there: the socket is this machine's own."""
        return b"localhost"


Address = TcpAddress | UnixAddress


def parse_address(text: str) -> Address:
    """Read an address; anything with a slash is a path.

    Raises:
        UnusableAddress: it is none of the three forms; the text says which it should be.
    """
    raise NotImplementedError
