"""Asks nodes how they are: performs the core's `Probe` decisions and feeds back exactly one answer
for each.

A node with `pair` is asked for its report; an engine that the user named by its URL is asked
through its kind's own status paths. All addresses of a node are tried; the one that works is
remembered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from types import TracebackType
from typing import Self

import aiohttp

from pair.core.decisions import Probe
from pair.core.events import Event, NodeIdentified, NodeReported, ProbeMissed
from pair.core.reports import NodeReport
from pair.engines.pair_node import NotPair, report_of
from pair.engines.question import question_session
from pair.errors import NodeFault, SilentNode, UnreachableNode
from pair.proxy.bare_engines import BareEngines
from pair.proxy.links import Links
from pair.proxy.report_streams import ReportStreams
from pair.relay.names import Names

logger = logging.getLogger(__name__)

_FIRST_SHARE = 0.5
"""The part of a probe's limit in which what the user named may say that `pair` runs there."""

_CONNECTIONS_LIMIT = 256
"""Probes under way at once; further ones wait for a connection within their limit."""


class AnotherNode(NodeFault):
    """The address has become another node's or engine's, so nothing that comes from there is of
    this one.
    """

    def __init__(self, detail: str, url: str) -> None:
        super().__init__(detail)
        self.url = url


class Prober:
    """One task a probe, all in one group, each bounded by the probe's limit."""

    def __init__(
        self,
        links: Links,
        bare: BareEngines,
        streams: ReportStreams,
    ) -> None:
        self._links = links
        self._bare = bare
        self._streams = streams
        self._feed: Callable[[Event], None] = _not_open
        self._tasks = asyncio.TaskGroup()
        self._probes: set[asyncio.Task[None]] = set()
        self._names = Names()
        self._sessions: dict[bool, aiohttp.ClientSession] = {}

    def open(self, feed: Callable[[Event], None]) -> Self:
        """Say where the answers go, before the first probe."""
        self._feed = feed
        return self

    async def __aenter__(self) -> Self:
        for fresh in (False, True):
            self._sessions[fresh] = question_session(
                None,
                fresh=fresh,
                connections_limit=_CONNECTIONS_LIMIT,
                look_up=self._names.look_up,
            )
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._feed = _not_open
        for task in tuple(self._probes):
            task.cancel()
        # Without the error: the group would wrap it, and whoever raised it expects it as it was.
        await self._tasks.__aexit__(None, None, None)
        for session in self._sessions.values():
            await session.close()

    def probe(self, probe: Probe) -> None:
        """Start asking; exactly one event follows, unless the proxy ends first."""
        if self._feed is _not_open:
            return
        task = self._tasks.create_task(self._answer(probe), name=f"probe {probe.node}")
        self._probes.add(task)
        task.add_done_callback(self._probes.discard)

    async def _answer(self, probe: Probe) -> None:
        try:
            report = await self._ask_node(probe)
        except NodeFault as fault:
            taken = fault.url if isinstance(fault, AnotherNode) else None
            event = ProbeMissed(
                probe.node,
                connected=not isinstance(fault, UnreachableNode),
                last_byte_at=self._links.last_byte_at(probe.node) if taken is None else None,
                detail=str(fault),
                taken_address=taken,
            )
            self._feed(event)
            self._streams.missed(probe.node)
            return
        except Exception:
            logger.exception("probe of %s", probe.node)
            self._feed(ProbeMissed(probe.node, True, None, "the probe itself failed; see the log"))
            return
        if report.node != probe.node:
            self._feed(NodeIdentified(probe.node, report.node))
        self._feed(NodeReported(report.node, report))
        for url in self._links.urls(report.node)[:1]:
            self._streams.answered(report, url)

    async def _ask_node(self, probe: Probe) -> NodeReport:
        """Ask at the address that worked, or at all at once where none did; the first answer wins.

        Raises:
            NodeFault: no address gave a report of this node.
        """
        urls = self._links.urls(probe.node)
        if not urls:
            raise UnreachableNode("it has no address")
        if not probe.fresh:
            urls = urls[:1]
        reports: list[tuple[str, NodeReport]] = []
        faults: list[NodeFault] = []
        asks: list[asyncio.Task[None]] = []

        async def ask(place: int) -> None:
            try:
                report = await self._report_at(probe, urls[place])
            except NodeFault as fault:
                faults.append(fault)
                return
            reports.append((urls[place], report))
            for other in asks:
                if other is not asks[place]:
                    other.cancel()

        # A group of its own: what goes wrong in here ends this probe and nothing else.
        async with asyncio.TaskGroup() as tasks:
            asks += [tasks.create_task(ask(place)) for place in range(len(urls))]
        if not reports:
            raise min(faults, key=_says_little)
        url, report = reports[0]
        self._links.worked(report.node, url)
        return report

    async def _report_at(self, probe: Probe, url: str) -> NodeReport:
        """The report of this node at this address.

        Only what the user named by its URL, and what has not said yet that it is more than that,
        may be a bare engine: a `pair` node that fails to report for a moment still passes its
        engine's own paths on, and would be taken for that engine.

        Raises:
            NodeFault: there is none.
        """
        session = self._sessions[probe.fresh]
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + probe.limit_s
        by_url = probe.node == url
        if not by_url or not self._bare.knows(url):
            try:
                # An engine may be busy with this question, too, and must be asked its own in time.
                limit_s = probe.limit_s * _FIRST_SHARE if by_url else probe.limit_s
                report = await report_of(
                    session, url, limit_s, headers=self._links.question_headers(url)
                )
            except SilentNode:
                if not by_url:
                    raise
            except NotPair as fault:
                if not by_url and fault.in_trouble:
                    raise
                if not by_url:
                    raise AnotherNode(str(fault), url) from fault
            else:
                if report.node != probe.node and not by_url:
                    raise AnotherNode(f"another node ({report.name}) answers at {url}", url)
                return self._bare.with_what_is_ignored(report, url)
        if probe.closely:
            self._bare.count_now(url)
        in_use = self._links.in_use(probe.node)
        return await self._bare.report(session, url, max(0.0, ends_at - loop.time()), in_use=in_use)


def _says_little(fault: NodeFault) -> int:
    """How little a fault at one of its addresses says of a node, 0 for the most: one that
    connected says more than one that did not, and more still if it may have been the node itself.
    """
    if isinstance(fault, UnreachableNode):
        return 2
    return 1 if isinstance(fault, AnotherNode) else 0


def _not_open(event: Event) -> None:
    """Where answers go before and after the prober's life: nowhere."""
