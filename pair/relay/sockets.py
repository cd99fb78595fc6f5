"""What both sides ask of a TCP socket. Unix sockets need none of it."""

from __future__ import annotations

import asyncio
import select
import socket
import struct
import sys
from typing import Any

if sys.platform != "win32":
    import fcntl
    import resource
    import termios

# A machine that was switched off is noticed after 30 + 3 * 10 s on a connection where nothing else
# is said, and a router in between does not forget it while a non-streamed answer takes minutes.
KEEPALIVE_IDLE_S = 30
KEEPALIVE_INTERVAL_S = 10
KEEPALIVE_PROBES = 3

# Of one connection, held in our memory while the other side does not take it; the reading of the
# one who sends is paused above the first and goes on below the second.
WRITE_HIGH_BYTES = 64 * 1024
WRITE_LOW_BYTES = 16 * 1024

# Of a connection, held unsent in the kernel, which else lets its own buffer grow to megabytes
# behind a client that reads slowly.
UNSENT_BYTES = 64 * 1024

_INT = struct.Struct("i")
# Said of a connection whose other side has closed in order; not every system tells it apart.
_CLOSED_OVER_THERE: int = getattr(select, "POLLRDHUP", 0)

# Files for what are no clients and nothing that is asked for them: listeners, logs, probes.
FILES_ASIDE = 64

# SO_LINGER, on and for no time: closing sends a reset instead of an orderly end.
_NO_LINGER = struct.pack("hh" if sys.platform == "win32" else "ii", 1, 0)


def connections_that_fit(limit: int) -> int:
    """Of so many client connections, how many this process has files for: each may need a second
    one upstream, and all else needs some. A process without files left can neither accept nor dial.
    """
    if sys.platform == "win32":
        return limit
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return limit
    return max(1, min(limit, (files - FILES_ASIDE) // 2))


def tune(transport: asyncio.Transport) -> None:
    """No waiting for fuller packets, dead connections found, write buffer bounded."""
    transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES, low=WRITE_LOW_BYTES)
    connected = transport.get_extra_info("socket")
    if not _is_tcp(connected):
        return
    options = [
        (socket.IPPROTO_TCP, "TCP_NODELAY", 1),
        (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
        (socket.IPPROTO_TCP, "TCP_KEEPIDLE", KEEPALIVE_IDLE_S),
        (socket.IPPROTO_TCP, "TCP_KEEPINTVL", KEEPALIVE_INTERVAL_S),
        (socket.IPPROTO_TCP, "TCP_KEEPCNT", KEEPALIVE_PROBES),
        (socket.IPPROTO_TCP, "TCP_NOTSENT_LOWAT", UNSENT_BYTES),
    ]
    try:
        for level, name, value in options:
            option = getattr(socket, name, None)  # not every system has the last four
            if option is not None:
                connected.setsockopt(level, option, value)
    except OSError:
        # macOS says EINVAL when the other side has gone already, which the transport will say next.
        return


def end_sending(transport: asyncio.Transport) -> None:
    """Half-close it once all that was written has left; it may have been reset by now."""
    if transport.is_closing() or not transport.can_write_eof():
        return
    try:
        transport.write_eof()
    except OSError:  # asyncio shuts down at once
        transport.abort()


def unacknowledged_bytes(transport: asyncio.Transport) -> int:
    """What the kernel has taken and the other side's has not; 0 where the system does not say."""
    connected = transport.get_extra_info("socket")
    if sys.platform == "win32" or not _is_tcp(connected):
        return 0
    try:
        said = fcntl.ioctl(connected.fileno(), termios.TIOCOUTQ, bytes(_INT.size))
    except OSError:
        return 0
    return int(_INT.unpack(said)[0])


def has_left(transport: asyncio.Transport, *, reset_only: bool) -> bool:
    """Whether the other side has closed or reset it, told without reading what it has sent; False
    where the system cannot say.

    `reset_only`: one that has merely said its last still listens.
    """
    if sys.platform == "win32":
        return False
    connected = transport.get_extra_info("socket")
    if connected is None or connected.fileno() < 0:
        return False
    asking = select.poll()
    asking.register(connected.fileno(), _CLOSED_OVER_THERE)
    seen = sum(said for _, said in asking.poll(0))
    if not reset_only:
        return seen != 0
    # Where a mere end cannot be told from a reset, only what is an error is one.
    return bool(seen & (select.POLLERR | (select.POLLHUP if _CLOSED_OVER_THERE else 0)))


def unread_bytes(transport: asyncio.BaseTransport, limit_bytes: int) -> bytes:
    """What came and was not read when a write failed; to be called in `connection_lost`.

    A server that refuses a request early answers and closes. What we still send is then answered
    with a reset, and a loop that sees that first gives up reading.
    """
    connected = transport.get_extra_info("socket")
    unread = bytearray()
    try:
        with socket.fromfd(connected.fileno(), connected.family, connected.type) as ours:
            ours.setblocking(False)
            while len(unread) < limit_bytes and (piece := ours.recv(limit_bytes - len(unread))):
                unread += piece
    except OSError:
        pass  # the reset itself, or nothing more
    return bytes(unread)


def reset(transport: asyncio.Transport) -> None:
    """Close at once and so that it cannot be taken for an orderly end: `abort` alone says FIN.

    A Unix socket has no such thing and is closed.
    """
    connected = transport.get_extra_info("socket")
    if _is_tcp(connected) and not transport.is_closing():
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    transport.abort()


def _is_tcp(connected: Any) -> bool:
    return connected is not None and connected.family in {socket.AF_INET, socket.AF_INET6}
