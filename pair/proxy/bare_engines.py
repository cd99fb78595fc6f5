"""Engines that the user named by their URL and that have no `pair` beside them: the proxy itself
asks them.

Such an engine is a node of its own: its id is its URL, its report is made here from its kind's
status paths.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import aiohttp

from pair.core.names import NodeId
from pair.core.reports import NodeReport
from pair.engines.engine import Engine
from pair.engines.finder import recognise
from pair.errors import SilentNode


class BareEngines:
    """What is known of each named URL; bounded by the user's own list.

    Args:
        slots: by URL, the user's word on the slots there, 0 for the engine's own word.
    """

    def __init__(self, slots: Mapping[str, int]) -> None:
        self._slots = slots
        self._engines: dict[str, Engine] = {}

    def knows(self, url: str) -> bool:
        """Whether the engine's kind at this URL has been recognised."""
        return url in self._engines

    async def report(self, session: aiohttp.ClientSession, url: str, limit_s: float) -> NodeReport:
        """Ask the engine, and find out its kind first if that is not known.

        Raises:
            NodeFault: nothing, or nothing that is an engine, answers there.
        """
        try:
            async with asyncio.timeout(limit_s):
                engine = self._engines.get(url)
                if engine is None:
                    engine = self._engines[url] = await recognise(session, url)
                said = await engine.report(session)
        except TimeoutError as fault:
            raise SilentNode(f"no answer from {url} within {limit_s:g} s") from fault
        slots = self._slots.get(url, 0)
        replicas = (
            said.replicas if not slots else tuple(replace(r, slots=slots) for r in said.replicas)
        )
        return NodeReport(NodeId(url), "", "", False, replicas, said.warnings)
