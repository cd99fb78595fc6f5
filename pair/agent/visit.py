"""One request on a node's face, from its head to the one line that is logged of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from pair.agent.engine_book import Choice
from pair.relay.exchange import Exchange
from pair.relay.heads import Header
from pair.wire.dialects import dialect_of, is_light, only_asks
from pair.wire.errors import OwnAnswer

logger = logging.getLogger(__name__)


class Visit:
    """What is known of one request; the tap of its answer besides.

    Attributes:
        choice: where it went, None if nowhere.
        status: of the answer that was begun, 0 without one.
        fault: what went wrong at the engine, "" if nothing did.
    """

    __slots__ = ("_bytes", "choice", "dialect", "exchange", "fault", "light", "path", "status")

    def __init__(self, exchange: Exchange, path: str) -> None:
        self.exchange = exchange
        self.path = path
        self.dialect = dialect_of(path)
        self.light = is_light(exchange.head.method, path) and not exchange.head.protocol
        self.choice: Choice | None = None
        self.status = 0
        self.fault = ""
        self._bytes = 0

    @property
    def once(self) -> bool:
        """Whether it must not be done twice, which a second try on a new connection might do."""
        return self.light and not only_asks(self.exchange.head.method, self.path)

    def answer(self, answer: OwnAnswer) -> None:
        """A whole answer of our own."""
        self.status = answer.status
        self.exchange.answer(answer.status, answer.headers, answer.body)

    def first_content(self) -> Sequence[Header]:
        """A node adds nothing to an answer; the proxy says who gave it."""
        return ()

    def body(self, piece: bytes) -> None:
        """Count what is relayed."""
        self._bytes += len(piece)

    def log(self) -> None:
        """One line, without anything that the client wrote but the path."""
        took_s = asyncio.get_running_loop().time() - self.exchange.accepted_at
        replica = None if self.choice is None else self.choice.replica
        logger.info(
            "%s %s engine=%s model=%s status=%s bytes=%d took=%.3fs client=%s%s%s",
            self.exchange.head.method.decode("latin-1"),
            self.path[:200],
            "-" if self.choice is None else self.choice.engine.name,
            "-" if replica is None else replica.model,
            self.status or "-",
            self._bytes,
            took_s,
            self.exchange.client,
            " left" if self.exchange.client_left else "",
            f" fault={self.fault!r}" if self.fault else "",
        )
