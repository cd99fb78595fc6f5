"""Keeps the book of this machine's engines true: finds them, asks them how they are, notices their
end.

Separate from the app because it waits for engines, which the app never may. One task an engine and
one that looks for new ones, all in one group.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import aiohttp

from pair.agent.admission import Admission
from pair.agent.engine_book import EngineBook, LocalEngine
from pair.core.membership import CLOSE_LOOKS_S, FIRST_LOOK_S
from pair.core.reports import ReplicaReport, ReplicaState
from pair.engines.engine import Engine, EngineReport
from pair.engines.finder import EngineFinder, recognise
from pair.engines.known_engine import KnownEngine
from pair.engines.question import NO_HEADERS, question_session
from pair.errors import NoConnectionYet, NodeFault, UnreachableNode
from pair.relay.credentials import Credential, credential_of
from pair.relay.limits import UpstreamLimits
from pair.relay.names import Names
from pair.settings import NodeSettings
from pair.wire.node_report import SLOTS_LIMIT

logger = logging.getLogger(__name__)


MISSES_UNTIL_DOWN = 3
"""An idle engine that connects and says nothing usable this many times in a row is down."""


class EngineWatch:
    """Writes the book while `run` runs.

    Args:
        settings: which engines the user named (each is waited for as long as it takes), their keys,
            the word on their slots, and how often to look.
        engines: those of this process, which need no finding.
        left_grace_s: how long the slot of a request whose client left drains where the engine
            cannot count.
        finder: looks on the usual ports as well, None if nobody wants that.
        changed: called when a look has shown something new.

    Raises:
        SettingsError: the key of an engine is not where the user says.

    Attributes:
        found: set once some engine has answered.
    """

    def __init__(
        self,
        book: EngineBook,
        admission: Admission,
        limits: UpstreamLimits,
        settings: NodeSettings,
        *,
        left_grace_s: float,
        engines: Sequence[Engine],
        finder: EngineFinder | None,
        changed: Callable[[], None],
    ) -> None:
        self._book = book
        self._admission = admission
        self._limits = limits
        self._engines = engines
        self._named = {one.url.rstrip("/"): credential_of(one) for one in settings.engines}
        self._finder = finder
        self._slots = min(settings.slots, SLOTS_LIMIT)
        self._settings = settings
        self._left_grace_s = left_grace_s
        self._missing: dict[str, str] = {}
        self._changed = changed
        self._told: object = None
        self.found = asyncio.Event()

    def warnings(self) -> tuple[str, ...]:
        """One sentence for each named engine that is not there."""
        return tuple(self._missing.values())

    async def run(self) -> None:
        """Watch until cancelled."""
        limit_s = self._settings.look_limit_s
        async with (
            question_session(limit_s, look_up=Names().look_up) as session,
            asyncio.TaskGroup() as tasks,
        ):
            for engine in self._engines:
                follow = partial(self._follow, session, engine)
                tasks.create_task(self._keep(f"engine {engine.name}", follow))
            for url, credential in self._named.items():
                meet = partial(self._meet, session, url, credential)
                tasks.create_task(self._keep(f"engine {url}", meet))
            if self._finder is not None:
                find_new = partial(self._find_new, self._finder, session, tasks)
                tasks.create_task(self._keep("engines on the usual ports", find_new))

    async def _keep(self, name: str, look: Callable[[], Awaitable[None]]) -> None:
        """Do it for ever; one look that fails by our own mistake must not end the node."""
        while True:
            await _logged(name, look())
            await asyncio.sleep(self._settings.find_s)

    async def _meet(
        self, session: aiohttp.ClientSession, url: str, credential: Credential | None
    ) -> None:
        """Find out what is at this address, and follow it as long as it is there."""
        try:
            engine = await recognise(session, url, headers=credential or NO_HEADERS)
        except NodeFault as fault:
            self._missing[url] = f"No engine at {url}: {fault}"
            self._tell()
        else:
            self._missing.pop(url, None)
            await self._follow(session, engine, credential)

    async def _find_new(
        self, finder: EngineFinder, session: aiohttp.ClientSession, tasks: asyncio.TaskGroup
    ) -> None:
        """Look on the usual ports for what was not there before and has no task of its own."""
        urls = (*self._named, *(engine.url for engine in self._book.engines))
        known = {_on_loopback(url) for url in urls}
        for engine in await finder.look(session, known):
            name = f"engine {engine.name}"
            tasks.create_task(_logged(name, self._follow(session, engine)), name=name)

    async def _follow(
        self,
        session: aiohttp.ClientSession,
        engine: Engine,
        credential: Credential | None = None,
    ) -> None:
        """Keep the entry of one engine true until it has been gone for too long."""
        local = LocalEngine(engine.name, engine.kind, engine.url, self._limits, credential)
        if not self._book.add(local):
            return
        logger.info("engine %s at %s", local.name, engine.url)
        loop = asyncio.get_running_loop()
        known = KnownEngine(engine)
        good_at, misses = loop.time(), 0
        try:
            while loop.time() - good_at < self._settings.gone_s:
                fault = await self._look(session, known, local)
                if known.engine is not engine:
                    # Another kind has another name, and is met as an engine of its own.
                    return
                misses = 0 if fault is None else misses + 1
                if fault is None:
                    self.found.set()
                if fault is not None and self._is_down(local, fault, misses):
                    _take_down(local, fault)
                    self._admission.nothing_drains(local.name)
                else:
                    good_at = loop.time()
                self._tell()
                await self._pause(engine, local)
        finally:
            self._book.remove(local)
            self._admission.nothing_drains(local.name)
            local.pool.close()
            self._tell()
            logger.info("engine %s is gone", local.name)

    def _tell(self) -> None:
        """Say so if the report is no longer what it was after the look before. What is counted here
        between two looks, `Admission` tells.
        """
        says = (self._book.replicas(), self._book.warnings(), self.warnings())
        if says != self._told:
            self._told = says
            self._changed()

    async def _look(
        self, session: aiohttp.ClientSession, known: KnownEngine, local: LocalEngine
    ) -> NodeFault | None:
        """Ask it once; what it did instead of answering, None if it answered."""
        asked_at = asyncio.get_running_loop().time()
        try:
            known.engine.in_use = self._works(local)
            said = await known.report(session, self._settings.look_limit_s)
        except NodeFault as fault:
            return fault
        if known.engine.name != local.name:
            return None
        self._take(local, said, asked_at)
        return None

    def _take(self, local: LocalEngine, said: EngineReport, asked_at: float) -> None:
        """Believe what the engine says, but for the slots where the user knows better."""
        replicas = said.replicas
        if self._slots:
            replicas = tuple(replace(replica, slots=self._slots) for replica in replicas)
        local.replicas = replicas
        local.foreign = {
            replica.model: self._foreign(local, replica, asked_at) for replica in replicas
        }
        self._admission.nothing_drains(local.name, but=local.foreign)
        local.warnings = said.warnings
        if local.fault:
            logger.info("engine %s answers again", local.name)
        local.fault = ""

    def _foreign(self, local: LocalEngine, replica: ReplicaReport, asked_at: float) -> int:
        """What runs or waits there and is not ours, as of the last time that the engine counted."""
        key = (replica.engine, replica.model)
        if replica.counts:
            return self._admission.take_count(key, replica.load, asked_at)
        now = asyncio.get_running_loop().time()
        self._admission.expire(key, now, self._left_grace_s)
        return local.foreign.get(replica.model, 0)

    def _is_down(self, local: LocalEngine, fault: NodeFault, misses: int) -> bool:
        """Whether an engine that has not answered is down; some answer nothing while they
        compute.
        """
        if isinstance(fault, UnreachableNode) and not (
            # A server that computes may not accept either, once its queue of connections is full.
            isinstance(fault, NoConnectionYet) and self._works(local)
        ):
            return True
        return misses >= MISSES_UNTIL_DOWN and not self._works(local)

    def _works(self, local: LocalEngine) -> bool:
        return any(
            self._admission.running((replica.engine, replica.model)) for replica in local.replicas
        )

    async def _pause(self, engine: Engine, local: LocalEngine) -> None:
        """Until the next look is due, or something happens there."""
        settled = all(replica.state is ReplicaState.READY for replica in local.replicas)
        idle = settled and not self._works(local) and not any(local.foreign.values())
        pace = self._settings.idle_look_s if idle else self._settings.busy_look_s
        left_at = self._left_at(local)
        if left_at is not None:
            # As the proxy does it: soon, and then less and less often.
            left_s = asyncio.get_running_loop().time() - left_at
            pace = min(pace, max(FIRST_LOOK_S, left_s))
        with suppress(TimeoutError):
            async with asyncio.timeout(pace):
                await local.look.wait()
        local.look.clear()
        if (left_at := self._left_at(local)) is not None:
            left_s = asyncio.get_running_loop().time() - left_at
            if left_s < FIRST_LOOK_S:
                await asyncio.sleep(FIRST_LOOK_S - left_s)
            if left_s < CLOSE_LOOKS_S:
                engine.count_now()

    def _left_at(self, local: LocalEngine) -> float | None:
        """When a client last left a request there of which the engine will tell when it is done."""
        keys = [(one.engine, one.model) for one in local.replicas]
        times = [self._admission.left_at(key) for key in keys if self._admission.counts(key)]
        return max((left_at for left_at in times if left_at is not None), default=None)


def _take_down(local: LocalEngine, fault: NodeFault) -> None:
    if not local.fault:
        logger.warning("engine %s does not answer: %s", local.name, fault)
    local.fault = f"The engine {local.name} does not answer: {fault}"
    local.foreign = {}
    local.replicas = tuple(replace(replica, state=ReplicaState.DOWN) for replica in local.replicas)


def _on_loopback(url: str) -> str:
    """The form in which the finder knows an address of this machine."""
    return url.replace("//localhost", "//127.0.0.1").replace("//[::1]", "//127.0.0.1")


async def _logged(name: str, work: Awaitable[None]) -> None:
    """Await it and log what was not foreseen."""
    try:
        await work
    except Exception:
        logger.exception("%s: this should not have happened", name)
