"""Connections to one address: made when needed and never before, kept a little while, the freshest used first."""

from __future__ import annotations

from collections.abc import Sequence

from pair.relay.heads import AnswerHead
from pair.relay.limits import UpstreamLimits
from pair.relay.upstream_connection import UpstreamConnection


class UpstreamPool:
    """Knows one address (`pair/relay/addresses.py` has the notation). The environment's proxies are never used.

    Attributes:
        authority: what `Host` says there.
        last_byte_at: loop time of the last answer byte from there, None if there never was one.
    """

    authority: bytes
    last_byte_at: float | None

    def __init__(self, address: str, limits: UpstreamLimits) -> None:
        raise NotImplementedError

    async def connect(self, *, fresh: bool = False) -> UpstreamConnection:
        """An idle connection, or a new one (`fresh`: always). The caller releases or aborts it.

        Raises:
            UnreachableNode: refused, no route, unresolved, or the connect limit passed; says which.
        """
        raise NotImplementedError

    async def ask(
        self, head: bytes, body: Sequence[bytes], *, fresh: bool = False
    ) -> tuple[UpstreamConnection, AnswerHead]:
        """Connect and ask. Where an idle connection turns out to be closed by then, asks once more on a fresh one.

        On any error, cancellation included, the connection is aborted; else the caller releases or aborts it.

        Raises:
            UnreachableNode: see `connect`.
            LostUpstream, GarbledAnswer: see `UpstreamConnection.ask`.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Close the idle connections, and from now on each one when it is released."""
        raise NotImplementedError
