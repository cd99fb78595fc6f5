"""Whether a client still takes what it is sent."""

from __future__ import annotations

import asyncio

from pair.relay.sockets import unacknowledged_bytes


class Intake:
    """Of one client's connection.

    Attributes:
        written_bytes: given to its transport so far; whoever writes counts them here.
    """

    __slots__ = ("_taken_at", "_taken_bytes", "written_bytes")

    def __init__(self, now: float) -> None:
        self.written_bytes = 0
        self._taken_bytes = 0
        self._taken_at = now

    def stuck_s(self, transport: asyncio.Transport, now: float) -> float:
        """For how long it has taken nothing of what waits for it; to be asked again and again."""
        pending_bytes = transport.get_write_buffer_size()
        taken_bytes = self.written_bytes - pending_bytes
        if pending_bytes:
            # The kernel takes more only when a good part of what it holds has left.
            taken_bytes -= unacknowledged_bytes(transport)
        if pending_bytes == 0 or taken_bytes != self._taken_bytes:
            self._taken_bytes = taken_bytes
            self._taken_at = now
        return now - self._taken_at
