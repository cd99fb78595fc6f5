"""Virtual time: a heap of what comes next, and the shipped scheduler as the only scheduler.

The world does what a shell does (perform decisions, start attempts, send one `Closed` for each
`Opened`) and what a house does (compute, answer probes, die), with a heap where those have an event
loop and a network. Messages take no time; computing does.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never

from pair.core.decisions import Abort, Decision, Dispatch, Probe, RefusalKind, Refuse, WakeAt
from pair.core.events import (
    AttemptFailed,
    Closed,
    Event,
    Failure,
    FailureKind,
    FirstByte,
    NodeReported,
    NodeSighted,
    Opened,
    ProbeMissed,
    Ticked,
    Usage,
)
from pair.core.names import LeaseId, NodeId, Outcome, TicketId
from pair.core.scheduler import Scheduler
from pair.sim.machines import MODEL, Incident, Machine, Mishap
from pair.sim.workload import PlannedCall

WARM_UP_S = 1.0
"""The first call comes this long after the machines, as in a house that is up and running."""

CONNECT_LIMIT_S = 3.0
"""How long an attempt waits for a machine that is gone, as the relay does by default."""

_NO_USAGE = Usage()

STEP_EVENTS = 2000
"""The world looks up from its work after this many events: some 20 ms."""


@dataclass(slots=True, eq=False)
class CallRecord:
    """What became of one call; times from the first call's accept, None until they happen.

    Attributes:
        refusals: how often a machine that was full turned it away; counted in `attempts`, too.
        cached_tokens: of its prompt, those that its machine had read before.
        load_s: what it waited for the model to come into memory.
    """

    call: PlannedCall
    opened_s: float | None = None
    node: NodeId | None = None
    attempts: int = 0
    refusals: int = 0
    cached_tokens: int = 0
    load_s: float = 0.0
    granted_s: float | None = None
    first_byte_s: float | None = None
    closed_s: float | None = None
    outcome: Outcome | None = None
    reason: str = ""


@dataclass(slots=True, eq=False)
class Attempt:
    """One attempt on one machine.

    Attributes:
        over: it ended in some way; what is still to come of it in the heap means nothing.
        hangs: its machine died under it, and nobody has noticed yet.
    """

    ticket: TicketId
    lease: LeaseId
    place: Place
    call: PlannedCall
    committed: bool = False
    over: bool = False
    hangs: bool = False


@dataclass(slots=True, eq=False)
class Place:
    """A machine and its state now; `busy_s` is the time that its slots spent on answered calls."""

    machine: Machine
    up: bool = True
    slow: bool = False
    attempts: dict[LeaseId, Attempt] = field(default_factory=dict)
    busy_s: float = 0.0


class World:
    """One run of one workload on one fleet; made for one `run`."""

    def __init__(
        self,
        scheduler: Scheduler,
        machines: Sequence[Machine],
        calls: Sequence[PlannedCall],
        incidents: Sequence[Incident] = (),
    ) -> None:
        self.scheduler = scheduler
        self.places = {machine.id: Place(machine) for machine in machines}
        self.records = [CallRecord(call) for call in calls]
        self.now = 0.0
        self._incidents = incidents
        self._heap: list[tuple[float, int, Callable[[Any], None], Any]] = []
        self._entries = 0
        self._wake_at: float | None = None
        self._attempts: dict[TicketId, Attempt] = {}
        self._closed = 0

    def run(self) -> Iterator[int]:
        """Live until every call has its fate; yields now and then how many have theirs."""
        for node in self.places:
            self._feed(NodeSighted(node, node, (f"sim://{node}",)))
        for incident in self._incidents:
            self._at(WARM_UP_S + incident.at_s, self._befall, incident)
        if self.records:
            self._at(WARM_UP_S + self.records[0].call.at_s, self._arrive, 0)
        while self._closed < len(self.records):
            for _ in range(STEP_EVENTS):
                self.now, _, act, subject = heapq.heappop(self._heap)
                act(subject)
                if self._closed == len(self.records):
                    break
            yield self._closed

    def _at(self, at: float, act: Callable[[Any], None], subject: object) -> None:
        self._entries += 1
        heapq.heappush(self._heap, (at, self._entries, act, subject))

    def _feed(self, event: Event) -> None:
        for decision in self.scheduler.handle(event, self.now):
            self._perform(decision)

    def _perform(self, decision: Decision) -> None:
        match decision:
            case Dispatch():
                self._start(decision)
            case Refuse():
                # Not now: an event is fed only after all decisions of the one before.
                self._at(self.now, self._refused, decision)
            case Abort():
                self._aborted(decision)
            case Probe():
                self._ask(decision)
            case WakeAt():
                self._wake_at = decision.at
                self._at(decision.at, self._wake, decision.at)
            case _:
                assert_never(decision)

    def _wake(self, at: float) -> None:
        if at == self._wake_at:
            self._wake_at = None
            self._feed(Ticked())

    # Clients

    def _arrive(self, index: int) -> None:
        call = self.records[index].call
        if index + 1 < len(self.records):
            following = self.records[index + 1].call
            self._at(WARM_UP_S + following.at_s, self._arrive, index + 1)
        ticket = TicketId(index + 1)
        self.records[index].opened_s = self.now - WARM_UP_S
        if call.leaves_after_s is not None:
            self._at(self.now + call.leaves_after_s, self._leave, ticket)
        self._feed(Opened(ticket, MODEL, job=call.job, streamed=True))

    def _leave(self, ticket: TicketId) -> None:
        if self._record(ticket).outcome is None:
            self._close(ticket, Outcome.CLIENT_LEFT)

    def _refused(self, refuse: Refuse) -> None:
        if self._record(refuse.ticket).outcome is None:
            spent = refuse.kind is RefusalKind.ATTEMPTS_SPENT
            self._record(refuse.ticket).reason = refuse.detail
            self._close(refuse.ticket, Outcome.FAILED if spent else Outcome.REFUSED)

    def _broken(self, ticket: TicketId) -> None:
        if self._record(ticket).outcome is None:
            self._close(ticket, Outcome.FAILED)

    def _close(self, ticket: TicketId, outcome: Outcome, usage: Usage = _NO_USAGE) -> None:
        record = self._record(ticket)
        record.outcome, record.closed_s = outcome, self.now - WARM_UP_S
        self._closed += 1
        attempt = self._attempts.get(ticket)
        if attempt is not None:
            self._end(attempt)
        self._feed(Closed(ticket, outcome, usage))

    def _record(self, ticket: TicketId) -> CallRecord:
        return self.records[ticket - 1]

    # Attempts

    def _start(self, dispatch: Dispatch) -> None:
        place, record = self.places[dispatch.replica.node], self._record(dispatch.ticket)
        record.node, record.attempts = dispatch.replica.node, dispatch.attempt
        record.granted_s, record.reason = self.now - WARM_UP_S, dispatch.reason
        attempt = Attempt(dispatch.ticket, dispatch.lease, place, record.call)
        self._attempts[dispatch.ticket] = attempt
        if place.up:
            place.attempts[dispatch.lease] = attempt
            self._at(self.now + place.machine.prefill_s(record.call), self._first_byte, attempt)
        else:
            self._at(self.now + CONNECT_LIMIT_S, self._unreachable, attempt)

    def _first_byte(self, attempt: Attempt) -> None:
        if attempt.over or attempt.hangs:
            return
        attempt.committed = True
        self._record(attempt.ticket).first_byte_s = self.now - WARM_UP_S
        decode_s = attempt.place.machine.decode_s(attempt.call)
        self._at(self.now + decode_s, self._answered, attempt)
        self._feed(FirstByte(attempt.ticket, attempt.lease))

    def _answered(self, attempt: Attempt) -> None:
        if attempt.over or attempt.hangs:
            return
        attempt.place.busy_s += attempt.place.machine.service_s(attempt.call)
        usage = Usage(attempt.call.prompt_tokens, None, attempt.call.output_tokens)
        self._close(attempt.ticket, Outcome.ANSWERED, usage)

    def _unreachable(self, attempt: Attempt) -> None:
        if not attempt.over:
            self._fail(attempt, FailureKind.UNREACHABLE, "no route to it")

    def _fail(self, attempt: Attempt, kind: FailureKind, detail: str) -> None:
        self._end(attempt)
        failure = Failure(FailureKind.CUT if attempt.committed else kind, detail)
        if attempt.committed:
            self._at(self.now, self._broken, attempt.ticket)
        self._feed(AttemptFailed(attempt.ticket, attempt.lease, failure))

    def _aborted(self, abort: Abort) -> None:
        attempt = self._attempts[abort.ticket]
        self._end(attempt)
        if attempt.committed:
            self._at(self.now, self._broken, abort.ticket)

    def _end(self, attempt: Attempt) -> None:
        attempt.over = True
        attempt.place.attempts.pop(attempt.lease, None)
        del self._attempts[attempt.ticket]

    # Machines

    def _ask(self, probe: Probe) -> None:
        place = self.places[probe.node]
        if place.up and not place.slow:
            self._at(self.now, self._report, place)
        else:
            self._at(self.now + probe.limit_s, self._missed, place)

    def _report(self, place: Place) -> None:
        if place.up:
            report = place.machine.report(len(place.attempts))
            self._feed(NodeReported(place.machine.id, report))
        else:
            self._missed(place)

    def _missed(self, place: Place) -> None:
        flows = place.up and any(attempt.committed for attempt in place.attempts.values())
        last_byte_at = self.now if flows else None
        self._feed(ProbeMissed(place.machine.id, place.up, last_byte_at, "no answer"))

    def _befall(self, incident: Incident) -> None:
        place = self.places[incident.machine]
        match incident.mishap:
            case Mishap.DIES:
                place.up = False
                for attempt in place.attempts.values():
                    attempt.hangs = True
            case Mishap.RETURNS:
                place.up = True
                self._break_all(place, "the machine restarted")
                node = place.machine.id
                self._feed(NodeSighted(node, node, (f"sim://{node}",)))
            case Mishap.SLOWS:
                place.slow = True
            case Mishap.RECOVERS:
                place.slow = False
            case Mishap.RESETS:
                if place.up:
                    self._break_all(place, "the engine crashed")
            case _:
                assert_never(incident.mishap)

    def _break_all(self, place: Place, detail: str) -> None:
        for attempt in list(place.attempts.values()):
            if not attempt.over:
                self._fail(attempt, FailureKind.RESET, detail)
