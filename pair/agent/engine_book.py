"""The engines of this machine as they were last seen: written by the watch, read by the app, never
awaited.

Separate from both so that a request is answered from memory, whatever an engine is busy with.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace

from pair.agent.admission import Admission
from pair.core.names import EngineName, ModelName
from pair.core.reports import ReplicaReport, ReplicaState
from pair.relay.addresses import parse_base_url
from pair.relay.credentials import Credential
from pair.relay.limits import UpstreamLimits
from pair.relay.upstream_pool import UpstreamPool
from pair.wire.dialects import kinds_for


class LocalEngine:
    """One engine of this machine.

    Attributes:
        name: unique here and lasting.
        url: without a slash at its end.
        pool: connections to it.
        path: what stands before every target there, usually empty.
        replicas: its models, as it last said, with the user's slots.
        foreign: requests running or waiting there that did not come through this node, by model,
            when it was last asked.
        fault: one sentence while it does not answer or says nonsense, "" while all is well.
        warnings: what it says of itself otherwise.
        look: set it to have the engine asked at once, because something happened there.
        credential: the key that the user has named for it, None without one.
    """

    def __init__(
        self,
        name: EngineName,
        kind: str,
        url: str,
        limits: UpstreamLimits,
        credential: Credential | None = None,
    ) -> None:
        address, self.path = parse_base_url(url)
        self.name = name
        self.kind = kind
        self.credential = credential
        self.url = url
        self.pool = UpstreamPool(address, limits)
        self.replicas: tuple[ReplicaReport, ...] = ()
        self.foreign: dict[ModelName, int] = {}
        self.fault = ""
        self.warnings: tuple[str, ...] = ()
        self.look = asyncio.Event()


@dataclass(frozen=True, slots=True)
class Choice:
    """Where a request goes; `replica` is None for a light request that concerns no model."""

    engine: LocalEngine
    replica: ReplicaReport | None


class EngineBook:
    """Bounded by the watch, which adds an engine for each given address and usual port only."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._engines: dict[EngineName, LocalEngine] = {}

    @property
    def engines(self) -> Iterable[LocalEngine]:
        """All of them, in the order in which they came."""
        return self._engines.values()

    def add(self, engine: LocalEngine) -> bool:
        """Take it in; False if an engine of this name is here already, which then is the same
        one.
        """
        return self._engines.setdefault(engine.name, engine) is engine

    def remove(self, engine: LocalEngine) -> None:
        """Forget it; what still runs there runs on."""
        del self._engines[engine.name]

    def named(self, name: EngineName, model: ModelName | None) -> Choice | None:
        """The engine that a proxy has chosen, None if it is not here or does not hold the model."""
        engine = self._engines.get(name)
        if engine is None or model is None:
            return None if engine is None else Choice(engine, None)
        replica = _holding(engine, model)
        return None if replica is None else Choice(engine, replica)

    def with_model(self, model: ModelName) -> Choice | None:
        """The least busy replica of this model, one that can take a request now before one that
        cannot.
        """
        holding = [
            (engine, replica)
            for engine in self.engines
            if (replica := _holding(engine, model)) is not None
        ]
        best = min(holding, key=lambda held: self._rank(*held), default=None)
        return None if best is None else Choice(*best)

    def only_replica(self) -> Choice | None:
        """The one that a request without a model can mean: there is no other."""
        choices = [
            Choice(engine, replica) for engine in self.engines for replica in engine.replicas
        ]
        return choices[0] if len(choices) == 1 else None

    def for_path(self, path: str) -> Choice | None:
        """An engine for a light request that concerns no model: one that answers before one that
        does not, then one that knows the path.
        """
        kinds = kinds_for(path)
        engine = min(
            self.engines,
            key=lambda engine: (bool(engine.fault), engine.kind not in kinds),
            default=None,
        )
        return None if engine is None else Choice(engine, None)

    def models(self) -> list[str]:
        """Every name under which a model can be asked for here."""
        names = {
            name
            for engine in self.engines
            for replica in engine.replicas
            for name in (replica.model, *replica.aliases)
        }
        return sorted(names)

    def replicas(self, proxy: str | None = None) -> tuple[ReplicaReport, ...]:
        """For the report: what the engines said, with what runs there by our own count; for a proxy
        also how much of it came through this proxy.
        """
        return tuple(
            self._counted(engine, replica, proxy)
            for engine in self.engines
            for replica in engine.replicas
        )

    def warnings(self) -> tuple[str, ...]:
        """For the report, and with it for `pair nodes`."""
        return tuple(
            warning
            for engine in self.engines
            for warning in (engine.fault, *engine.warnings)
            if warning
        )

    def _counted(
        self, engine: LocalEngine, replica: ReplicaReport, proxy: str | None = None
    ) -> ReplicaReport:
        """Ours as of now and foreign work as of the last look.

        An engine's own number is up to a look old: a request of ours that has ended since would
        still be in it, and a proxy would leave the free slot unused.
        """
        key = (replica.engine, replica.model)
        load = self._admission.taken(key) + engine.foreign.get(replica.model, 0)
        yours = None
        if proxy is not None:
            yours = self._admission.running_of(key, proxy)
            load += self._admission.turns.ahead(key, proxy)
        if replica.waiting is None:
            return replace(replica, running=load, yours=yours)
        running = min(load, replica.slots)
        return replace(replica, running=running, waiting=load - running, yours=yours)

    def _rank(self, engine: LocalEngine, replica: ReplicaReport) -> tuple[bool, float]:
        counted = self._counted(engine, replica)
        load = (counted.running or 0) + (counted.waiting or 0)
        return replica.state is not ReplicaState.READY, load / replica.slots


def _holding(engine: LocalEngine, model: ModelName) -> ReplicaReport | None:
    """The engine's replica of this model, by name before alias."""
    by_alias = None
    for replica in engine.replicas:
        if replica.model == model:
            return replica
        if model in replica.aliases:
            by_alias = replica
    return by_alias
