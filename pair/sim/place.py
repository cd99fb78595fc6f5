"""A machine at work: who is there, what its engine has in memory, and how a call gets on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from pair.core.events import FailureKind, Usage
from pair.core.names import LeaseId, NodeId, Outcome, TicketId
from pair.core.reports import NodeReport
from pair.sim.agenda import Agenda
from pair.sim.machine_cache import Seat, cache_of
from pair.sim.machines import Machine
from pair.sim.pace import Pace
from pair.sim.text import Run, Text, cut
from pair.sim.workload import PlannedCall

NOBODY_ELSE = -(1 << 40)
"""From here on downwards runs are named that only one call has; no trace has so many lines."""


@dataclass(slots=True, eq=False)
class CallRecord:
    """What became of one call; times from the first call's accept, None until they happen.

    Attributes:
        refusals: how often a machine that was full turned it away.
        cached_tokens: of its prompt, those that its machine had read before.
        load_s: what it waited for the model to come into memory.
        too_long: its machine answered that it does not fit into the context window.
    """

    call: PlannedCall
    opened_s: float | None = None
    node: NodeId | None = None
    attempts: int = 0
    refusals: int = 0
    cached_tokens: int = 0
    load_s: float = 0.0
    too_long: bool = False
    granted_s: float | None = None
    first_byte_s: float | None = None
    closed_s: float | None = None
    outcome: Outcome | None = None
    reason: str = ""


class Asker(Protocol):
    """Who sent a call to a machine, and is told how it gets on."""

    def first_byte(self, attempt: Attempt) -> None: ...

    def answered(self, attempt: Attempt, usage: Usage) -> None: ...

    def failed(self, attempt: Attempt, kind: FailureKind, detail: str) -> None: ...


@dataclass(slots=True, eq=False)
class Attempt:
    """One attempt on one machine.

    Attributes:
        over: it ended in some way; what is still to come of it on the agenda means nothing.
        hangs: its machine died under it, and nobody has noticed yet.
        committed, done: its first content byte has come, and its last.
        begun_at, read_at: when its engine began to read its prompt, and when it had.
        text: of its prompt; one that shares nothing is a run that nobody else has.
    """

    asker: Asker
    ticket: TicketId
    lease: LeaseId
    place: Place
    record: CallRecord
    committed: bool = False
    done: bool = False
    over: bool = False
    hangs: bool = False
    seat: Seat | None = None
    begun_at: float = 0.0
    read_at: float = 0.0

    call: PlannedCall = field(init=False)
    text: Text = field(init=False)

    def __post_init__(self) -> None:
        self.call = self.record.call
        alone = Run(NOBODY_ELSE - self.ticket, self.call.prompt_tokens)
        self.text = self.call.text or (alone,)


class Place:
    """A machine and its state now.

    Attributes:
        up, slow: whether it runs, and whether it answers no probes though it does.
        attempts: those that its engine works on, or hang there.
        busy_s: the time that its slots spent on answered calls.
        changes: of what it reports, since its latest start.
    """

    def __init__(self, machine: Machine, agenda: Agenda) -> None:
        self.machine = machine
        self.up = True
        self.slow = False
        self.attempts: dict[Attempt, None] = {}
        self.busy_s = 0.0
        self._agenda = agenda
        self._cache = cache_of(machine)
        self._pace = Pace(agenda, machine.slowdown)
        self._loaded_at: float | None = 0.0 if machine.resident else None
        self._idle_since = 0.0
        self._starts = 1
        self.changes = 1

    @property
    def free(self) -> int:
        """Slots that nobody takes."""
        return self.machine.slots - len(self.attempts)

    def report(self, asker: Asker, ahead: int) -> NodeReport:
        """What it says to a proxy now, with so many slots kept for others."""
        ours = sum(1 for attempt in self.attempts if attempt.asker is asker)
        resident = self._in_memory() and (self._loaded_at or 0.0) <= self._agenda.now
        return self.machine.report(
            len(self.attempts) + ahead,
            ours,
            resident=resident,
            start=self._starts,
            number=self.changes,
        )

    def begin(self, attempt: Attempt) -> None:
        """Take a call in; the machine is up and has a free slot."""
        now = self._agenda.now
        self.changes += 1
        if not self._in_memory():
            self._cache.clear()
            self._loaded_at = now + self.machine.load_s
        self.attempts[attempt] = None
        wait_s = max(0.0, (self._loaded_at or 0.0) - now)
        attempt.record.load_s = wait_s
        if wait_s:
            self._agenda.at(now + wait_s, self._loaded, attempt)
        else:
            self._read(attempt)

    def end(self, attempt: Attempt) -> bool:
        """Whatever becomes of it, it is no longer there; whether it ever was."""
        attempt.over = True
        if attempt not in self.attempts:
            return False
        del self.attempts[attempt]
        self.changes += 1
        self._pace.drop(attempt)
        if attempt.seat is not None:
            self._cache.leave(attempt.seat, self._left_in_cache(attempt, attempt.seat))
        self._idle_since = self._agenda.now
        return True

    def start_anew(self) -> None:
        """The machine was off and is up; nobody is there."""
        self.up = True
        self._starts, self.changes = self._starts + 1, 1
        self.lose_memory()

    def lose_memory(self) -> None:
        """Its engine starts anew; nobody is there."""
        self._cache.clear()
        self._loaded_at = self._agenda.now if self.machine.resident else None

    def _in_memory(self) -> bool:
        if self._loaded_at is None:
            return False
        limit_s = self.machine.unload_after_s
        if limit_s is None or self.attempts:
            return True
        return self._agenda.now - self._idle_since < limit_s

    def _loaded(self, attempt: Attempt) -> None:
        self.changes += 1
        self._read(attempt)

    def _read(self, attempt: Attempt) -> None:
        if attempt.over or attempt.hangs:
            return
        if not self.machine.fits(attempt.call):
            self._agenda.at(self._agenda.now, self._too_long, attempt)
            return
        seat = attempt.seat = self._cache.seat(attempt.text)
        attempt.begun_at = self._agenda.now
        attempt.record.cached_tokens = seat.cached_tokens
        alone_s = self.machine.prefill_s(attempt.call, seat.cached_tokens)
        self._pace.work(attempt, alone_s, self._first_byte)

    def _first_byte(self, attempt: Attempt) -> None:
        if attempt.over or attempt.hangs or attempt.seat is None:
            return
        attempt.committed, attempt.read_at = True, self._agenda.now
        self._cache.read(attempt.seat, attempt.text)
        self._pace.work(attempt, self.machine.decode_s(attempt.call), self._answered)
        attempt.asker.first_byte(attempt)

    def _answered(self, attempt: Attempt) -> None:
        if attempt.over or attempt.hangs:
            return
        now, record = self._agenda.now, attempt.record
        attempt.done = True
        self.busy_s += now - attempt.begun_at
        usage = Usage(attempt.call.prompt_tokens, record.cached_tokens, attempt.call.output_tokens)
        if self.machine.tells_times:
            usage = Usage(
                usage.prompt_tokens,
                usage.cached_tokens,
                usage.output_tokens,
                prefill_s=attempt.read_at - attempt.begun_at,
                decode_s=now - attempt.read_at,
                load_s=record.load_s,
            )
        attempt.asker.answered(attempt, usage)

    def _too_long(self, attempt: Attempt) -> None:
        if not attempt.over:
            attempt.record.too_long = True
            attempt.asker.answered(attempt, Usage())

    def _left_in_cache(self, attempt: Attempt, seat: Seat) -> Text:
        """What of its text the engine has come to; by the clock where it was not done, as if it had
        no company.
        """
        call, text, now = attempt.call, attempt.text, self._agenda.now
        if not attempt.committed:
            alone_s = self.machine.prefill_s(call, seat.cached_tokens)
            share = 0.0 if attempt.hangs else _share(now - attempt.begun_at, alone_s)
            uncached = call.prompt_tokens - seat.cached_tokens
            return cut(text, seat.cached_tokens + int(share * uncached))
        alone_s = self.machine.decode_s(call)
        share = 1.0 if attempt.done else _share(now - attempt.read_at, alone_s)
        written = int(share * call.output_tokens)
        answer = NOBODY_ELSE - attempt.ticket if call.answer is None else call.answer
        return (*text, Run(answer, written)) if written else text


def _share(time_s: float, whole_s: float) -> float:
    return min(1.0, time_s / whole_s) if whole_s > 0 else 1.0
