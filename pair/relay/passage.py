"""One answer on its way from an upstream to a client: the held head, framing, back-pressure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pair.relay.exchange import Exchange
from pair.relay.heads import AnswerHead, Header
from pair.relay.upstream_connection import UpstreamConnection


class Tap(Protocol):
    """Who wants to know what passes. Called from the transport's callbacks: must be quick and must not raise."""

    def first_content(self) -> Sequence[Header]:
        """The first content byte is here; returns headers to add. Called once, just before the head goes out."""

    def body(self, piece: bytes) -> None:
        """This piece has been relayed."""


async def carry(exchange: Exchange, upstream: UpstreamConnection, head: AnswerHead, tap: Tap) -> None:
    """Relay the answer that `upstream.ask` began; returns when the client has it whole.

    The head is held until the first content byte, so that `exchange.begun` says on which side of the commit
    point a failure fell: comment and blank lines at the start of an event stream are not content, a completed empty body is.
    On any error, cancellation included, the upstream is aborted; the exchange is left to the caller.

    Raises:
        LostUpstream: ended before it was whole.
        GarbledAnswer: its framing is broken.
    """
    raise NotImplementedError
