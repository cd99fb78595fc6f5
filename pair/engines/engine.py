"""An engine: where it is, what kind, and how it says it is.

A kind differs from the next in the paths that it is asked and in how its answers are read; both are
methods here that it fills in. Asking itself, the limits and the failures are the same for all.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar
from urllib.parse import urlsplit

import aiohttp

from pair.core.names import EngineName
from pair.core.reports import ReplicaReport, ReplicaState
from pair.engines.question import NO_HEADERS, TooLarge, ask
from pair.errors import GarbledAnswer, NodeFault
from pair.wire.engine_reports.llamacpp import is_loading
from pair.wire.engine_reports.reading import EngineLoad, EngineModel, ModelList
from pair.wire.engine_reports.recognition import NEEDS_KEY, Answers, Said

EXTRA_LIMIT_S = 0.5
"""Longest wait for an answer that only adds to the list of models. llama.cpp answers some of these
between two batches of a long prompt; the rest of the report must not wait for that."""

SEVERAL_SHARE = 0.6
"""The part of a report's limit that each of several lists may take."""

UNREADABLE_LIMIT = 5
"""So many unreadable lists in a row before the models of the last good one are given up: an engine
that restarts may say nonsense once or twice."""

NOT_THERE = frozenset({404, 405, 501})
"""An extra path that was answered so is not asked again, for each try is a line in a log."""

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
"""What URLs call this machine."""

_KEYLESS = "wants an API key, which pair has none of; name one with key_env or key_file"
_REFUSED = "refuses the API key that key_env or key_file names for it"


@dataclass(frozen=True, slots=True)
class EngineReport:
    """What an engine says of itself at one moment, in a node's terms."""

    replicas: tuple[ReplicaReport, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reading:
    """What a kind reads out of its answers.

    Attributes:
        state: of every model that the list does not know better.
        any_name: as in `ReplicaReport`.
    """

    models: ModelList
    load: EngineLoad = EngineLoad()
    state: ReplicaState = ReplicaState.READY
    any_name: bool = False


class Engine(ABC):
    """One engine at one address.

    Attributes:
        kind: as in `ReplicaReport.engine_kind`.
        url: without a slash at its end; may have a path before all of the engine's own.
        name: unique on its node and lasting, such as `llamacpp:8080`.
        slots: the user's word on the slots of each model, 0 to take the engine's.
        headers: what each question carries, such as a key.
        in_use: work of ours runs there; set by who asks.
        sure: nothing that would have given another kind away was left unanswered.
        estranged: its latest answers were not those of its kind.
        own: a process of this node, which nothing else can replace.
    """

    kind: ClassVar[str]
    own: ClassVar[bool] = False

    def __init__(self, url: str, slots: int = 0, headers: Mapping[str, str] = NO_HEADERS) -> None:
        self.url = url
        self.slots = slots
        self.headers = headers
        self.in_use = False
        self.sure = True
        self.estranged = False
        self.name = engine_name(self.kind, url)
        self._known: tuple[ReplicaReport, ...] = ()
        self._unreadable = 0
        self._not_there: set[str] = set()
        self._count_now = False

    async def report(
        self, session: aiohttp.ClientSession, limit_s: float | None = None
    ) -> EngineReport:
        """Ask it. The list of models may take `limit_s`, None for the session's limit.

        A list that cannot be read is a warning: the engine lives. While it loads or wants a key,
        the models of the last good list are reported as such; without one there is a warning only.

        Raises:
            UnreachableNode: no connection.
            SilentNode, LostUpstream, GarbledAnswer: a connection, but no answer in HTTP.
        """
        lists, extras = self._lists(), self._extras_there()
        answers, faults = await self._ask(session, lists, extras, limit_s or session.timeout.total)
        answered = [answers[path] for path in lists if path in answers]
        if not answered:
            fault = faults[lists[0]]
            if isinstance(fault, TooLarge):
                return self._unusable(fault)
            raise fault
        for path in extras:
            if path in answers and answers[path].status in NOT_THERE:
                self._not_there.add(path)
        if all(said.status in NEEDS_KEY for said in answered):
            return self._unready(ReplicaState.NEEDS_KEY, _REFUSED if self.headers else _KEYLESS)
        if any(is_loading(*said) for said in answered):
            return self._unready(ReplicaState.LOADING, "is loading its model")
        try:
            reading = self.read(answers)
        except GarbledAnswer as fault:
            return self._unusable(fault)
        self._unreadable = 0
        self._known = tuple(self._replica(model, reading) for model in reading.models.models)
        return EngineReport(self._known, self._named(reading.models.warnings))

    def count_now(self) -> None:
        """The next report tells how many requests it works on, also where that is not asked every
        time.
        """
        self._count_now = True

    @abstractmethod
    def _lists(self) -> Sequence[str]:
        """The paths that have the models; one of them must be answered."""

    def _extras(self) -> Sequence[str]:
        """The paths that add to the lists; each may be missing, and may take `EXTRA_LIMIT_S`."""
        return ()

    @abstractmethod
    def read(self, answers: Answers) -> Reading:
        """What the answers say; of the lists at least one is there, with any status.

        Raises:
            GarbledAnswer: no list can be read.
        """

    def _extras_there(self) -> Sequence[str]:
        return [path for path in self._extras() if path not in self._not_there]

    async def _ask(
        self,
        session: aiohttp.ClientSession,
        lists: Sequence[str],
        extras: Sequence[str],
        limit_s: float | None,
    ) -> tuple[dict[str, Said], Mapping[str, NodeFault]]:
        """All questions at once: answers and faults by path."""
        answers: dict[str, Said] = {}
        faults: dict[str, NodeFault] = {}

        async def put(path: str, limit_s: float | None) -> None:
            try:
                answers[path] = await ask(session, self.url + path, limit_s, headers=self.headers)
            except NodeFault as fault:
                faults[path] = fault

        # Where one of several will do, one that hangs must leave time to say what the other said.
        list_limit_s = limit_s * SEVERAL_SHARE if limit_s and len(lists) > 1 else limit_s
        async with asyncio.TaskGroup() as tasks:
            for path in lists:
                tasks.create_task(put(path, list_limit_s))
            for path in extras:
                tasks.create_task(put(path, min(EXTRA_LIMIT_S, limit_s or EXTRA_LIMIT_S)))
        return answers, faults

    def _replica(self, model: EngineModel, reading: Reading) -> ReplicaReport:
        load = reading.load
        return ReplicaReport(
            engine=self.name,
            engine_kind=self.kind,
            model=model.name,
            aliases=model.aliases,
            state=ReplicaState.LOADING if model.loading else reading.state,
            slots=self.slots or model.slots or load.slots or 1,
            running=load.running,
            waiting=load.waiting,
            resident=model.resident,
            context_tokens=model.context_tokens or load.context_tokens,
            cache_tokens=load.cache_tokens,
            any_name=reading.any_name,
        )

    def _unready(self, state: ReplicaState, words: str) -> EngineReport:
        replicas = tuple(
            replace(replica, state=state, running=None, waiting=None) for replica in self._known
        )
        return EngineReport(replicas, self._named((words,)))

    def _unusable(self, fault: GarbledAnswer) -> EngineReport:
        self._unreadable += 1
        if self._unreadable > UNREADABLE_LIMIT:
            self._known = ()
        replicas = tuple(replace(r, running=None, waiting=None) for r in self._known)
        return EngineReport(replicas, self._named((f"its list of models is unusable: {fault}",)))

    def _named(self, warnings: Iterable[str]) -> tuple[str, ...]:
        return tuple(f"{self.name}: {warning}" for warning in warnings)


def found(answers: Answers, path: str) -> bytes | None:
    """The body of an answer that is there and says 200, else None."""
    said = answers.get(path)
    return said.body if said is not None and said.status == 200 else None


def listed(answers: Answers, path: str) -> bytes:
    """The body of the list at this path.

    Raises:
        GarbledAnswer: no list came, or a refusal of one.
    """
    said = answers.get(path)
    if said is None:
        raise GarbledAnswer(f"no answer to GET {path}")
    if said.status != 200:
        raise GarbledAnswer(f"status {said.status} to GET {path}")
    return said.body


def engine_name(kind: str, url: str) -> EngineName:
    """`KIND:PORT` on this machine, `KIND:ADDRESS:PORT` elsewhere."""
    parts = urlsplit(url)
    port = parts.port or 80
    if parts.hostname in LOOPBACK:
        return EngineName(f"{kind}:{port}{parts.path}")
    return EngineName(f"{kind}:{parts.hostname}:{port}{parts.path}")
