"""Keeps a stream of reports open to each node that has one, and feeds what comes to the core.

Apart from the prober, which asks and counts answers: a stream is only listened to. It proves
nothing when it ends, nor is it ever waited for; the prober's next answer is what has it opened
again, so whoever is not asked any more has no stream either.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import aiohttp

from pair.core.events import Event, NodeReported
from pair.core.membership import Node
from pair.core.names import NodeId, Phase
from pair.core.reports import NodeReport
from pair.engines.pair_node import NoStream, reports_of
from pair.engines.question import question_session
from pair.errors import NodeFault
from pair.proxy.bare_engines import BareEngines
from pair.proxy.links import Links
from pair.relay.names import Names

logger = logging.getLogger(__name__)

APART_S = 0.01
"""Between two reports of one node (s): twice as many as a node tells, so that one which tells them
by the thousand costs no more than that. What waits meanwhile, the last of it is read."""

STEADY_S = 10.0
"""A stream that was open for so long (s) was a good one: the next is opened at once."""

FIRST_PAUSE_S = 0.2
"""After a stream that ended early (s); doubled with each further one, for a node that takes
connections and drops them must not be asked at each probe."""

PAUSE_LIMIT_S = 60.0
"""Longest such pause (s)."""


@dataclass(slots=True, eq=False)
class _Stream:
    """What is known of one node's stream.

    Attributes:
        process: the mark of the process that it was opened to.
        task: None while it is not open.
        refused: this process has no such stream.
        ends: it ended early so many times in a row.
        not_before: it may be opened again then, by loop time.
    """

    url: str
    process: str
    task: asyncio.Task[None] | None = None
    refused: bool = False
    ends: int = 0
    not_before: float = 0.0


class ReportStreams:
    """One task a stream, all in one group; bounded by the nodes in the scheduler's table.

    Args:
        nodes: that table, for reading.
    """

    def __init__(self, links: Links, bare: BareEngines, nodes: Mapping[NodeId, Node]) -> None:
        self._links = links
        self._bare = bare
        self._nodes = nodes
        self._feed: Callable[[Event], None] = _not_open
        self._streams: dict[NodeId, _Stream] = {}
        self._tasks = asyncio.TaskGroup()
        self._session: aiohttp.ClientSession

    def open(self, feed: Callable[[Event], None]) -> Self:
        """Say where the reports go, before the first stream."""
        self._feed = feed
        return self

    @property
    def count(self) -> int:
        """How many are open, or being opened."""
        return sum(stream.task is not None for stream in self._streams.values())

    async def __aenter__(self) -> Self:
        # A stream has its connection for itself.
        self._session = question_session(None, fresh=True, look_up=Names().look_up)
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._feed = _not_open
        for stream in self._streams.values():
            _end(stream)
        # Without the error: the group would wrap it, and whoever raised it expects it as it was.
        await self._tasks.__aexit__(None, None, None)
        await self._session.close()

    def answered(self, report: NodeReport, url: str) -> None:
        """This node has answered a probe there: listen to it as well, if it is a `pair` node that
        is not listened to.
        """
        if self._feed is _not_open or not report.version:
            return
        stream = self._streams.get(report.node)
        if stream is None or (stream.url, stream.process) != (url, report.process):
            if stream is not None:
                _end(stream)
            elif len(self._streams) >= len(self._nodes):
                self._tidy()
            stream = self._streams[report.node] = _Stream(url, report.process)
        now = asyncio.get_running_loop().time()
        if stream.task is None and not stream.refused and now >= stream.not_before:
            name = f"reports of {report.node}"
            listening = self._listen(report.node, stream)
            stream.task = self._tasks.create_task(listening, name=name)

    def missed(self, node_id: NodeId) -> None:
        """It has not answered a probe: listen no longer to one that is lost, since a dead machine
        never ends its connections.
        """
        node, stream = self._nodes.get(node_id), self._streams.get(node_id)
        if stream is not None and (node is None or node.phase is Phase.LOST):
            _end(stream)
            del self._streams[node_id]

    async def _listen(self, node_id: NodeId, stream: _Stream) -> None:
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        try:
            headers = self._links.question_headers(stream.url)
            reports = reports_of(self._session, stream.url, headers=headers)
            async with aclosing(reports):
                async for report in reports:
                    if report.node != node_id or self._streams.get(node_id) is not stream:
                        break
                    whole = self._bare.with_what_is_ignored(report, stream.url)
                    self._feed(NodeReported(node_id, whole, pushed=True))
                    await asyncio.sleep(APART_S)
        except NoStream as fault:
            stream.refused = True
            logger.info("node %s: %s", node_id, fault)
        except NodeFault as fault:
            logger.debug("node %s: %s", node_id, fault)
        finally:
            stream.task = None
            now = loop.time()
            stream.ends = 0 if now - began_at >= STEADY_S else stream.ends + 1
            pause_s = FIRST_PAUSE_S * 2.0 ** min(stream.ends - 1, 16) if stream.ends else 0.0
            stream.not_before = now + min(pause_s, PAUSE_LIMIT_S)

    def _tidy(self) -> None:
        """Forget nodes that the scheduler no longer knows."""
        for node_id in self._streams.keys() - self._nodes.keys():
            _end(self._streams.pop(node_id))


def _end(stream: _Stream) -> None:
    if stream.task is not None:
        stream.task.cancel()


def _not_open(event: Event) -> None:
    """Where reports go before and after the streams' life: nowhere."""
