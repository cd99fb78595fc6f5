"""The node's report as a stream: one line at once, one after each change, the latest wins.

Several proxies count on the same slots, and a probe a second would leave each of them with a
picture that is a second old. Apart from the app because it lives as long as a proxy's connection
and not as long as a question. Nothing is kept for a reader: while it does not read nothing is
written, and the next line that it gets is the state of then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from pair.core.reports import NodeReport
from pair.relay.exchange import Exchange
from pair.relay.heads import Header
from pair.wire.dialects import dialect_of
from pair.wire.errors import own_answer
from pair.wire.node_report import REPORTS_PATH, encode_report

APART_S = 0.02
"""Between two lines (s): a burst of short calls is told of 50 times a second at the most."""

REPEAT_S = 10.0
"""A line comes at least so often (s), so that a reader can tell a still node from a dead
connection; probes find out about a dead node much sooner."""

READERS_LIMIT = 64
"""Streams at once; a house has a few proxies, and whoever is one too many has its probes."""

FULL_RETRY_AFTER_S = 60
"""When one too many may ask again; its probes do without."""

_LINES: tuple[Header, ...] = (
    (b"Content-Type", b"application/x-ndjson"),
    (b"Cache-Control", b"no-store"),
)


class _Reader:
    """One stream. Attributes: news: something changed since its last line."""

    def __init__(self) -> None:
        self.news = asyncio.Event()
        self._takes = asyncio.Event()
        self._takes.set()

    def throttle(self, paused: bool) -> None:
        """As the source of an exchange: it does not take more for now, or again."""
        if paused:
            self._takes.clear()
        else:
            self._takes.set()

    async def wait(self) -> None:
        """Until its next line is due and it takes one; one that never does is cut by the front."""
        with suppress(TimeoutError):
            async with asyncio.timeout(REPEAT_S):
                await self.news.wait()
        await self._takes.wait()
        self.news.clear()


class ReportFeed:
    """One a node.

    Attributes:
        number: of what has changed so far; each report carries it.
    """

    def __init__(self) -> None:
        self.number = 1
        self._readers: set[_Reader] = set()
        self._closed = False

    @property
    def readers(self) -> int:
        """How many are told."""
        return len(self._readers)

    def changed(self) -> None:
        """What the report says is no longer what it said."""
        self.number += 1
        for reader in self._readers:
            reader.news.set()

    def close(self) -> None:
        """Let every stream end with a last line."""
        self._closed = True
        self.changed()

    async def serve(self, exchange: Exchange, report: Callable[[], NodeReport]) -> None:
        """Stream to this reader until it leaves or the feed is closed."""
        if len(self._readers) >= READERS_LIMIT:
            words = f"This node tells {READERS_LIMIT} proxies of its changes; ask for its report."
            answer = own_answer(
                dialect_of(REPORTS_PATH),
                503,
                "too_many_readers",
                words,
                retry_after_s=FULL_RETRY_AFTER_S,
            )
            exchange.answer(answer.status, answer.headers, answer.body)
            return
        reader = _Reader()
        self._readers.add(reader)
        try:
            exchange.go_ahead(_LINES, b"")
            exchange.feed_from(reader)
            while True:
                last = self._closed
                exchange.send(encode_report(report()) + b"\n")
                if last:
                    break
                await asyncio.sleep(APART_S)
                await reader.wait()
            exchange.finish()
        finally:
            exchange.feed_from(None)
            self._readers.discard(reader)
