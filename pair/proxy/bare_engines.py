"""Engines that the user named by their URL and that have no `pair` beside them: the proxy itself
asks them.

Such an engine is a node of its own: its id is its URL, its report is made here from its kind's
status paths. Which kind it is, is found out once, and again when another one may stand there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

import aiohttp

from pair.core.names import NodeId
from pair.core.reports import NodeReport
from pair.engines.engine import Engine, EngineReport
from pair.engines.finder import recognise
from pair.engines.generic import Generic
from pair.errors import SilentNode, UnreachableNode

USELESS_LIMIT = 20
"""So many reports in a row without any model, for want of an answer that its kind can read, before
the kind is doubted: about as many seconds. Finding out takes ten questions, each a line in the
engine's log, and an engine that wants a key or loads for long has nothing to report either."""


@dataclass(slots=True)
class _Known:
    """An engine as it was recognised.

    Attributes:
        useless: its latest reports in a row that named no model and complained.
        left: nothing listened there since; what comes back may be another kind.
    """

    engine: Engine
    useless: int = 0
    left: bool = False

    @property
    def doubtful(self) -> bool:
        return self.left or self.useless >= USELESS_LIMIT


class BareEngines:
    """What is known of each named URL; bounded by the user's own list.

    Args:
        slots: by URL, the user's word on the slots there, 0 for the engine's own word.
    """

    def __init__(self, slots: Mapping[str, int]) -> None:
        self._slots = slots
        self._known: dict[str, _Known] = {}

    def knows(self, url: str) -> bool:
        """Whether the engine at this URL has been recognised and is not in doubt."""
        known = self._known.get(url)
        return known is not None and not known.doubtful

    async def report(self, session: aiohttp.ClientSession, url: str, limit_s: float) -> NodeReport:
        """Ask the engine, and find out its kind first if that is not known.

        Raises:
            NodeFault: nothing, or nothing that is an engine, answers there.
        """
        try:
            async with asyncio.timeout(limit_s):
                said = await self._ask(session, url)
        except TimeoutError as fault:
            raise SilentNode(f"no answer from {url} within {limit_s:.1f} s") from fault
        return NodeReport(NodeId(url), "", "", False, said.replicas, said.warnings)

    async def _ask(self, session: aiohttp.ClientSession, url: str) -> EngineReport:
        known = self._known.get(url)
        if known is None or known.doubtful:
            found = await recognise(session, url, slots=self._slots.get(url, 0))
            known = self._known[url] = _after(known, found)
        try:
            said = await known.engine.report(session)
        except UnreachableNode:
            known.left = True
            raise
        known.useless = 0 if said.replicas or not said.warnings else known.useless + 1
        return said


def _after(before: _Known | None, found: Engine) -> _Known:
    """What to hold of an engine that was recognised, perhaps once more.

    The same kind keeps its object, which remembers its models while it loads. `generic` is what
    remains when an engine is too busy to answer what would give it away, so it replaces no kind
    whose reports can still be read.
    """
    if before is not None and (
        found.kind == before.engine.kind
        or (found.kind == Generic.kind and before.useless < USELESS_LIMIT)
    ):
        return _Known(before.engine)
    return _Known(found)
