"""A house in virtual time around an audited scheduler: nodes that answer probes, or do not.

It performs decisions as a shell would and moves the clock from one promised time to the next.
Stories are told with it (`story.py`), and the random walk ends its life with it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

from pair.core.decisions import Abort, Decision, Dispatch, Probe, Refuse, WakeAt
from pair.core.events import Event, NodeReported, ProbeMissed, Ticked
from pair.core.limits import Limits
from pair.core.names import EngineName, LeaseId, ModelName, NodeId, TicketId
from pair.core.reports import NodeReport, ReplicaReport, ReplicaState
from pair.core.strategy import Strategy
from tests.core.audit import AuditedScheduler


def replica(
    model: str = "m",
    *,
    engine: str = "echo:1",
    slots: int = 1,
    state: ReplicaState = ReplicaState.READY,
    aliases: tuple[str, ...] = (),
    running: int | None = None,
    waiting: int | None = None,
    yours: int | None = None,
    any_name: bool = False,
) -> ReplicaReport:
    return ReplicaReport(
        engine=EngineName(engine),
        engine_kind="echo",
        model=ModelName(model),
        aliases=frozenset(map(ModelName, aliases)),
        state=state,
        slots=slots,
        running=running,
        waiting=waiting,
        yours=yours,
        any_name=any_name,
    )


def report(
    node: str,
    *replicas: ReplicaReport,
    version: str = "1",
    draining: bool = False,
    name: str | None = None,
    process: str = "",
    number: int = 0,
) -> NodeReport:
    """What a node says; without replicas one of the model `m` with one slot."""
    return NodeReport(
        node=NodeId(node),
        name=node if name is None else name,
        version=version,
        draining=draining,
        replicas=replicas or (replica(),),
        process=process,
        number=number,
    )


class House:
    """The shell around the scheduler.

    Attributes:
        words: what each living node says when asked; who is not in it is dead.
        slow: living nodes that accept a probe and do not answer it.
        needs_s: how long a living node takes for its answer, if not next to nothing.
        flowing: nodes whose answers' bytes keep coming.
        said: decisions since the last look, without probes and wake-ups.
        probes: every probe so far.
    """

    def __init__(self, limits: Limits, strategy: Strategy | None = None) -> None:
        self.scheduler = AuditedScheduler(limits, strategy)
        self.now = 0.0
        self.words: dict[NodeId, NodeReport] = {}
        self.slow: set[NodeId] = set()
        self.needs_s: dict[NodeId, float] = {}
        self.flowing: set[NodeId] = set()
        self.said: list[Decision] = []
        self.probes: list[tuple[float, Probe]] = []
        self.leases: dict[TicketId, Dispatch] = {}
        self.nodes_of: dict[LeaseId, NodeId] = {}
        self.answer_probes = True
        self._wake_at: float | None = None
        self._coming: list[tuple[float, int, Callable[[], Event]]] = []
        self._count = count()

    def feed(self, event: Event) -> list[Decision]:
        """Hand one event to the scheduler at the present time and perform what it decides."""
        if isinstance(event, Ticked):
            self._wake_at = None
        decisions = self.scheduler.handle(event, self.now)
        for decision in decisions:
            match decision:
                case WakeAt():
                    self._wake_at = decision.at
                case Probe():
                    self.probes.append((self.now, decision))
                    self._ask(decision)
                case Dispatch():
                    self.leases[decision.ticket] = decision
                    self.nodes_of[decision.lease] = decision.replica.node
                    self.said.append(decision)
                case Refuse() | Abort():
                    self.said.append(decision)
        return decisions

    def later(self, after_s: float, make: Callable[[], Event]) -> None:
        """Feed an event after some time; it is made only then."""
        heapq.heappush(self._coming, (self.now + after_s, next(self._count), make))

    def _ask(self, probe: Probe) -> None:
        if not self.answer_probes:
            return
        needs_s = self.needs_s.get(probe.node, 0.001)
        slow = probe.node in self.slow or needs_s > probe.limit_s
        if probe.node in self.words and not slow:
            self.later(needs_s, lambda: self._answer(probe))
        elif slow:
            self.later(probe.limit_s, lambda: self._missed(probe, connected=True))
        else:
            self.later(probe.limit_s, lambda: self._missed(probe, connected=False))

    def _answer(self, probe: Probe) -> Event:
        word = self.words.get(probe.node)
        return self._missed(probe, False) if word is None else NodeReported(probe.node, word)

    def _missed(self, probe: Probe, connected: bool) -> Event:
        last_byte_at = self.now if probe.node in self.flowing else None
        return ProbeMissed(probe.node, connected, last_byte_at, "no answer")

    def run_until(self, until: float) -> None:
        """Let time pass, with every promise kept."""
        while True:
            wake_at = float("inf") if self._wake_at is None else self._wake_at
            coming_at = self._coming[0][0] if self._coming else float("inf")
            at = min(wake_at, coming_at)
            if at > until:
                break
            self.now = max(self.now, at)
            if coming_at <= wake_at:
                self.feed(heapq.heappop(self._coming)[2]())
            else:
                self.feed(Ticked())
        self.now = until

    def oversleep_until(self, at: float) -> None:
        """The machine itself sleeps: nothing happens, then everything that was due, in order."""
        self.now = at
        self.run_until(at)
