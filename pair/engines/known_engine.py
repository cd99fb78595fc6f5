"""An engine as it was recognised, and when to doubt that it still is that engine.

One program can take another's place at an address, and an engine that computes may not answer what
would give its kind away. Kept apart from the kinds, which only know themselves, and used by nodes
and proxies alike.
"""

from __future__ import annotations

import asyncio

import aiohttp

from pair.engines.engine import Engine, EngineReport
from pair.engines.finder import QUESTION_LIMIT_S, recognise
from pair.engines.generic import Generic
from pair.errors import UnreachableNode

USELESS_LIMIT = 20
"""So many reports in a row without any model, for want of an answer that its kind can read, before
the kind is doubted: about as many seconds. Finding out takes ten questions, each a line in the
engine's log, and an engine that wants a key or loads for long has nothing to report either."""

UNSURE_S = 10.0
"""What was taken for `generic` because it did not answer every question is asked again after it."""

NAMELESS_S = 300.0
"""The same for a `generic` that did answer: its own list looks like that of any other kind."""

QUESTION_SHARE = 0.6
"""The part of a report's limit that finding out the kind may take first."""


class KnownEngine:
    """Asks the engine, and finds out its kind once more where that is in doubt.

    Attributes:
        engine: as it was recognised last; another object once another kind stands there.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._useless = 0
        self._left = False
        self._recognised_at = asyncio.get_running_loop().time()

    @property
    def doubtful(self) -> bool:
        """Whether another engine may stand there by now."""
        if self.engine.own:
            return False
        if self._left or self.engine.estranged or self._useless >= USELESS_LIMIT:
            return True
        if self.engine.kind != Generic.kind:
            return False
        age_s = asyncio.get_running_loop().time() - self._recognised_at
        return age_s >= (NAMELESS_S if self.engine.sure else UNSURE_S)

    async def report(
        self, session: aiohttp.ClientSession, limit_s: float | None = None
    ) -> EngineReport:
        """As `Engine.report`, of whichever engine stands there now.

        Raises:
            NodeFault: as `Engine.report` and `recognise`.
        """
        if self.doubtful:
            await self._look_closer(session, limit_s)
        try:
            said = await self.engine.report(session, limit_s)
        except UnreachableNode:
            self._left = True
            raise
        self._useless = 0 if said.replicas or not said.warnings else self._useless + 1
        return said

    async def _look_closer(self, session: aiohttp.ClientSession, limit_s: float | None) -> None:
        """The same kind keeps its object, which remembers its models while it loads. `generic` for
        want of answers replaces no kind whose reports can still be read.
        """
        before = self.engine
        found = await recognise(
            session,
            before.url,
            slots=before.slots,
            headers=before.headers,
            limit_s=min(QUESTION_LIMIT_S, (limit_s or QUESTION_LIMIT_S) * QUESTION_SHARE),
        )
        same = found.kind == before.kind
        hidden = found.kind == Generic.kind and not found.sure and self._useless < USELESS_LIMIT
        if same or hidden:
            before.sure, before.estranged = found.sure and same, False
        else:
            found.in_use = before.in_use
            self.engine = found
        self._useless, self._left = 0, False
        self._recognised_at = asyncio.get_running_loop().time()
