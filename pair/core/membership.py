"""Which nodes exist and in which phase each is: sightings, reports and missed probes become phases
here.

A sighting is not membership: mDNS records outlive a stopped machine by 75 minutes, so only an
answer makes a node ready and only silence makes it lost. This module knows nothing of tickets; it
says what changed and the scheduler acts on it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from pair.core.events import NodeSighted, ProbeMissed
from pair.core.limits import Limits
from pair.core.load import forget_report, take_report
from pair.core.names import EngineName, ModelName, NodeId, Phase, ReplicaId
from pair.core.replica import Replica
from pair.core.reports import NodeReport, ReplicaReport, ReplicaState

LATE_S = 1.0
"""A wake this much too late (s) means that this machine slept or stalled, and says nothing about
the nodes.
"""

FIRST_LOOK_S = 0.05
"""From leaving a call to the first question (s) whether its engine is done: time enough for the
hang-up to get there, and too short for anybody to notice.
"""

CLOSE_LOOKS_S = 0.25
"""For so long after that (s) the engine is made to count at each question. Not for longer:
llama.cpp notices a hang-up only after a second in which nobody made it count
(`pair/engines/llamacpp.py`).
"""

PROCESSES_KEPT = 3
"""Marks of processes that a node's latest one has replaced; more than two machines with one id are
told just as well.
"""


@dataclass(slots=True, eq=False)
class Node:
    """A machine, known by its lasting id.

    Attributes:
        reason: why it is in its phase, in words.
        found_addresses: of its latest record.
        fixed_addresses: those that the user named; none for a node that was only found.
        misses: probes missed in a row; `unreachable` counts the latest of them that got no
            connection, `silent_s` is how long they waited altogether. Not the time since the last
            answer, in which this machine may have slept.
        probe_sent_at: when the probe under way was asked for, None without one; it waits for
            `probe_limit_s`.
        prompt: it answers from memory (a `pair` node), so silence means trouble; a bare engine that
            computes may be silent.
        process: the mark in its latest report; `processes` are those before it, latest first.
        latest: its newest word, None before the first.
        twins_at: when a mark last came back that another had replaced. A process that has ended
            never does, so two machines have this id.
        drain_asked: the user wants it drained, whatever it reports.
    """

    id: NodeId
    name: str
    phase: Phase
    phase_since: float
    reason: str
    sighted_at: float
    found_addresses: tuple[str, ...] = ()
    fixed_addresses: tuple[str, ...] = ()
    misses: int = 0
    unreachable: int = 0
    silent_s: float = 0.0
    withdrawn: bool = False
    probe_sent_at: float | None = None
    probe_limit_s: float = 0.0
    answered_at: float | None = None
    version: str = ""
    prompt: bool = True
    process: str = ""
    processes: tuple[str, ...] = ()
    latest: NodeReport | None = None
    twins_at: float | None = None
    drain_asked: bool = False
    warnings: tuple[str, ...] = ()
    replicas: dict[tuple[EngineName, ModelName], Replica] = field(default_factory=dict)

    @property
    def fixed(self) -> bool:
        """Whether the user named it."""
        return bool(self.fixed_addresses)

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where to try, without doubles."""
        return tuple(dict.fromkeys((*self.found_addresses, *self.fixed_addresses)))

    @property
    def left_at(self) -> float | None:
        """When we last left a call on which it may still compute, and of which it will tell; None
        if there is none.
        """
        return max(
            (
                replica.draining.newest_at
                for replica in self.replicas.values()
                if replica.draining.newest_at is not None and replica.draining.counts
            ),
            default=None,
        )

    def heard(self) -> None:
        """It answered, with a report or with bytes of a call."""
        self.misses = self.unreachable = 0
        self.silent_s = 0.0

    def note_process(self, process: str, now: float) -> None:
        """Which process has answered, "" where it does not say."""
        if process in (self.process, ""):
            return
        if process in self.processes:
            self.twins_at = now
        if self.process:
            self.processes = (self.process, *self.processes)[:PROCESSES_KEPT]
        self.process = process

    def is_news(self, report: NodeReport) -> bool:
        """Whether no newer report has overtaken this one on another connection."""
        latest = self.latest
        return (
            latest is None
            or not report.number
            or report.process != latest.process
            or report.number >= latest.number
        )

    def enter(self, phase: Phase, reason: str, now: float) -> None:
        """Change phase; the time in a phase starts anew only when it really changes."""
        if phase is not self.phase:
            self.phase = phase
            self.phase_since = now
        self.reason = reason


class Membership:
    """The table of nodes, bounded by `nodes_limit` (I7)."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.nodes: dict[NodeId, Node] = {}

    @property
    def full(self) -> bool:
        """Whether a new node needs another one's place."""
        return len(self.nodes) >= self._limits.nodes_limit

    def least_entitled(self) -> Node | None:
        """The node whose place a new one may have: never answered, and sighted longest ago. None
        if all have more right to theirs: strangers must not push out members.
        """
        strangers = (
            node
            for node in self.nodes.values()
            if node.answered_at is None and not node.fixed and node.probe_sent_at is None
        )
        return min(strangers, key=lambda node: node.sighted_at, default=None)

    def sight(self, event: NodeSighted, now: float) -> Node:
        """Note a sighting; the table has room."""
        node = self.nodes.get(event.node)
        if node is None:
            node = Node(event.node, event.name, Phase.SIGHTED, now, "sighted, not asked yet", now)
            self.nodes[event.node] = node
        node.sighted_at = now
        node.withdrawn = False
        if event.fixed:
            # The user may name one machine in several ways.
            node.fixed_addresses = tuple(dict.fromkeys((*event.addresses, *node.fixed_addresses)))
        else:
            node.found_addresses = event.addresses
        if node.answered_at is None:
            node.name = event.name
        return node

    def push(self, node: Node, report: NodeReport, now: float) -> list[Replica] | None:
        """Take a report that nobody asked for, None if it means nothing; else as `report`.

        It answers no probe: what is counted of those, and a probe under way, stay as they are. It
        was written at some time before, so it brings no node back that is in doubt: the probe will.
        Nor is it believed of a process that another one has replaced.
        """
        known = node.phase in (Phase.READY, Phase.LOADING, Phase.DRAINING)
        if not known or report.process in node.processes or not node.is_news(report):
            return None
        return self._take(node, report, -math.inf, now)

    def report(self, node: Node, report: NodeReport, now: float) -> list[Replica]:
        """Take the answer to a probe; returns the replicas that came, went, or changed their names
        or slots. One that a push has overtaken only shows that the node lives.
        """
        # One that was not asked for may be of any time before.
        asked_at = -math.inf if node.probe_sent_at is None else node.probe_sent_at
        node.heard()
        node.probe_sent_at = None
        node.answered_at = now
        # It lives, so its record's goodbye was a hiccup, or it is not quite gone yet: from here on
        # it is lost like any other, and not at its first slow probe.
        node.withdrawn = False
        if node.latest is not None and not node.is_news(report):
            node.enter(*_phase_by_report(node, node.latest), now)
            return []
        return self._take(node, report, asked_at, now)

    def _take(self, node: Node, report: NodeReport, asked_at: float, now: float) -> list[Replica]:
        node.latest = report
        node.name = report.name or node.name
        node.version = report.version
        node.note_process(report.process, now)
        node.prompt = report.version != ""
        node.warnings = report.warnings
        changed = []
        listed = set()
        for said in report.replicas:
            key = (said.engine, said.model)
            listed.add(key)
            replica = node.replicas.get(key)
            if replica is None:
                replica = Replica(ReplicaId(node.id, said.engine, said.model), node.name, said, now)
                node.replicas[key] = replica
                changed.append(replica)
            elif not replica.listed or _what(replica.report) != _what(said):
                changed.append(replica)
            replica.node_name = node.name
            take_report(replica, said, asked_at=asked_at, now=now)
        for key, replica in list(node.replicas.items()):
            if key not in listed:
                if replica.listed:
                    replica.listed = False
                    changed.append(replica)
                if not replica.in_flight:
                    del node.replicas[key]
        node.enter(*_phase_by_report(node, report), now)
        return changed

    def miss(self, node: Node, event: ProbeMissed, now: float, *, in_use: bool) -> None:
        """Count a missed probe and move the node on to suspect or lost.

        An engine that works for us is never dropped for slow probes alone: engines block their
        status paths while they compute. There only probes that got no connection at all count, and
        more of them are needed; as long as it is silent it is only in doubt, the last choice. A
        node with `pair` never blocks, so one that is silent for long is frozen.
        """
        sent_at = now if node.probe_sent_at is None else node.probe_sent_at
        node.probe_sent_at = None
        if event.last_byte_at is not None and event.last_byte_at >= sent_at:
            node.heard()
            return
        node.misses += 1
        node.unreachable = 0 if event.connected else node.unreachable + 1
        node.silent_s += now - sent_at
        for replica in node.replicas.values():
            forget_report(replica)
        if in_use:
            frozen = node.prompt and node.silent_s >= self._limits.silence_limit_s
            lost = frozen or node.unreachable >= self._limits.misses_until_lost_in_use
            suspect = node.prompt or not event.connected
        else:
            lost = node.misses >= self._limits.misses_until_lost or node.withdrawn
            suspect = True
        if lost:
            node.enter(Phase.LOST, _missed_words(node, event), now)
        elif suspect and node.phase is not Phase.LOST:
            node.enter(Phase.SUSPECT, _missed_words(node, event), now)
        elif node.phase is Phase.READY:
            node.enter(Phase.READY, f"works for us, {_missed_words(node, event)}", now)

    def ask(self, node: Node, now: float, *, in_use: bool) -> None:
        """A probe is sent. One after another waits longer on a node that works for us and is
        silent: a machine under heavy load needs seconds where it needs milliseconds otherwise, and
        with the same limit each time it could never show that it lives.
        """
        node.probe_sent_at = now
        patience = node.misses if in_use and node.prompt and not node.unreachable else 0
        node.probe_limit_s = self._limits.probe_limit_s * (1 + patience)

    def probe_interval_s(self, node: Node, now: float) -> float:
        """How long until the next probe; a suspect is asked sooner, to know one way or the other,
        and so is a node that may be done with a call that we have left: the longer ago, the less
        often.
        """
        if node.phase is Phase.LOST:
            return self._limits.lost_interval_s
        left_at = node.left_at
        if left_at is not None:
            return min(self._limits.suspect_interval_s, max(FIRST_LOOK_S, now - left_at))
        if node.phase is Phase.SUSPECT or node.misses:
            return self._limits.suspect_interval_s
        return self._limits.probe_interval_s

    def forgettable(self, node: Node, now: float) -> bool:
        """Whether a lost node's entry may go: nobody sights it any more, and the user did not name
        it.
        """
        return (
            node.phase is Phase.LOST
            and not node.fixed
            and node.probe_sent_at is None
            and (node.withdrawn or now - node.phase_since >= self._limits.forget_s)
        )

    def any_in(self, phase: Phase) -> bool:
        return any(node.phase is phase for node in self.nodes.values())

    def named(self, pin: str) -> Node | None:
        """The node that a client means: by id, else by name if exactly one has it."""
        node = self.nodes.get(NodeId(pin))
        if node is not None:
            return node
        same = [n for n in self.nodes.values() if n.name == pin]
        return same[0] if len(same) == 1 else None


def _what(report: ReplicaReport) -> tuple[object, ...]:
    """What a replica is, in contrast to how it is doing."""
    return report.aliases, report.slots, report.context_tokens


def _missed_words(node: Node, event: ProbeMissed) -> str:
    count = "a probe" if node.misses == 1 else f"{node.misses} probes"
    return f"missed {count}: {event.detail}"


def _phase_by_report(node: Node, report: NodeReport) -> tuple[Phase, str]:
    if report.draining or node.drain_asked:
        return Phase.DRAINING, "finishes what it has"
    states = {said.state for said in report.replicas}
    if states == {ReplicaState.LOADING}:
        return Phase.LOADING, "its engine is loading the model"
    if not states:
        return Phase.READY, "answers, but holds no model"
    return Phase.READY, "answers"
