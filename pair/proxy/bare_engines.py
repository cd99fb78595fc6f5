"""Engines that the user named by their URL and that have no `pair` beside them: the proxy itself
asks them.

Such an engine is a node of its own: its id is its URL, its report is made here from its kind's
status paths. Which kind it is, is found out once, and again when another one may stand there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import aiohttp

from pair.core.names import NodeId
from pair.core.reports import NodeReport
from pair.engines.engine import EngineReport
from pair.engines.finder import QUESTION_LIMIT_S, recognise
from pair.engines.known_engine import QUESTION_SHARE, KnownEngine
from pair.engines.question import NO_HEADERS
from pair.errors import SilentNode

NO_KEYS: Mapping[str, Mapping[str, str]] = MappingProxyType({})

NODE_CHECK_S = 60.0
"""So often a known engine is first asked whether `pair` runs there now, which costs it one line in
its log."""


class BareEngines:
    """What is known of each named URL; bounded by the user's own list.

    Args:
        slots: by URL, the user's word on the slots there, 0 for the engine's own word.
        headers: by URL, what each question carries there, such as a key.
    """

    def __init__(
        self, slots: Mapping[str, int], headers: Mapping[str, Mapping[str, str]] = NO_KEYS
    ) -> None:
        self._slots = slots
        self._headers = headers
        self._known: dict[str, KnownEngine] = {}
        self._checked_at: dict[str, float] = {}

    def knows(self, url: str) -> bool:
        """Whether the engine at this URL has been recognised, is not in doubt, and need not be
        asked just now whether it is more than an engine.
        """
        known = self._known.get(url)
        if known is None or known.doubtful:
            return False
        return asyncio.get_running_loop().time() - self._checked_at[url] < NODE_CHECK_S

    def slots_of(self, url: str) -> int:
        """The user's word on the slots there, 0 if there is none."""
        return self._slots.get(url, 0)

    def with_what_is_ignored(self, report: NodeReport, url: str) -> NodeReport:
        """The report of a `pair` node at this URL, for people: the user's word on slots is for
        engines without `pair`.
        """
        slots = self.slots_of(url)
        if not slots:
            return report
        words = (
            f"pair runs at {url} and says itself how many slots its engines have: slots={slots} for"
            " it is ignored, set node.slots there"
        )
        return replace(report, warnings=(*report.warnings, words))

    def headers_of(self, url: str) -> Mapping[str, str]:
        """What each question carries there."""
        return self._headers.get(url, NO_HEADERS)

    def count_now(self, url: str) -> None:
        """Have the engine at this URL count its requests at its next report."""
        known = self._known.get(url)
        if known is not None:
            known.engine.count_now()

    async def report(
        self, session: aiohttp.ClientSession, url: str, limit_s: float, *, in_use: bool = False
    ) -> NodeReport:
        """Ask the engine, and find out its kind first if that is not known.

        Args:
            in_use: whether work of ours runs there.

        Raises:
            NodeFault: nothing, or nothing that is an engine, answers there.
        """
        try:
            async with asyncio.timeout(limit_s):
                said = await self._ask(session, url, limit_s, in_use=in_use)
        except TimeoutError as fault:
            raise SilentNode(f"no answer from {url} within {limit_s:.1f} s") from fault
        return NodeReport(NodeId(url), "", "", False, said.replicas, said.warnings)

    async def _ask(
        self, session: aiohttp.ClientSession, url: str, limit_s: float, *, in_use: bool
    ) -> EngineReport:
        known = self._known.get(url)
        if known is None:
            found = await recognise(
                session,
                url,
                slots=self.slots_of(url),
                headers=self.headers_of(url),
                limit_s=min(QUESTION_LIMIT_S, limit_s * QUESTION_SHARE),
            )
            known = self._known[url] = KnownEngine(found)
            self._checked_at[url] = asyncio.get_running_loop().time()
        elif not self.knows(url):
            self._checked_at[url] = asyncio.get_running_loop().time()
        known.engine.in_use = in_use
        return await known.report(session, limit_s)
