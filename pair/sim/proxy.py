"""A proxy of the simulated house: the shipped scheduler, and around it what the real shell does.

It performs decisions at once and in order, keeps one attempt a ticket, and sends one `Closed` for
each `Opened`. Several of these may share one house, as in a household with several agents' hosts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from pair.core.decisions import Abort, Decision, Dispatch, Probe, RefusalKind, Refuse, WakeAt
from pair.core.events import (
    AttemptFailed,
    Closed,
    Event,
    Failure,
    FailureKind,
    FirstByte,
    Opened,
    Ticked,
    Usage,
)
from pair.core.names import Outcome, TicketId
from pair.core.scheduler import Scheduler
from pair.sim.agenda import Agenda
from pair.sim.house import House
from pair.sim.machines import MODEL
from pair.sim.place import Attempt, CallRecord
from pair.sim.text import prompt_of

_NO_USAGE = Usage()


class Proxy:
    """One scheduler, its open calls and their attempts.

    Args:
        closed: told of each ticket that has got its fate.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        agenda: Agenda,
        house: House,
        closed: Callable[[TicketId], None],
    ) -> None:
        self.scheduler = scheduler
        self._agenda = agenda
        self._house = house
        self._tell_closed = closed
        self._wake_at: float | None = None
        self._records: dict[TicketId, CallRecord] = {}
        self._attempts: dict[TicketId, Attempt] = {}

    def feed(self, event: Event) -> None:
        """Let the scheduler know, and do what it wants; never from inside a decision."""
        for decision in self.scheduler.handle(event, self._agenda.now):
            self._perform(decision)

    def _perform(self, decision: Decision) -> None:
        match decision:
            case Dispatch():
                self._start(decision)
            case Refuse():
                # Not now: an event is fed only after all decisions of the one before.
                self._agenda.at(self._agenda.now, self._refused, decision)
            case Abort():
                self._aborted(decision)
            case Probe():
                self._house.ask(self, decision)
            case WakeAt():
                self._wake_at = decision.at
                self._agenda.at(decision.at, self._wake, decision.at)
            case _:
                assert_never(decision)

    def _wake(self, at: float) -> None:
        if at == self._wake_at:
            self._wake_at = None
            self.feed(Ticked())

    # Clients

    def open(self, ticket: TicketId, record: CallRecord) -> None:
        """A client's call comes."""
        call = record.call
        record.opened_s = self._agenda.since_origin_s
        self._records[ticket] = record
        if call.leaves_after_s is not None:
            self._agenda.at(self._agenda.now + call.leaves_after_s, self._leave, ticket)
        prompt = prompt_of(call.text, call.prompt_tokens, call.output_limit_tokens)
        self.feed(
            Opened(
                ticket,
                MODEL,
                job=call.job,
                streamed=True,
                prompt=prompt,
                priority=call.priority,
                session=call.session,
                flow=call.flow,
            )
        )

    def _leave(self, ticket: TicketId) -> None:
        if ticket in self._records:
            self._close(ticket, Outcome.CLIENT_LEFT)

    def _refused(self, refuse: Refuse) -> None:
        if refuse.ticket in self._records:
            spent = refuse.kind is RefusalKind.ATTEMPTS_SPENT
            self._records[refuse.ticket].reason = refuse.detail
            self._close(refuse.ticket, Outcome.FAILED if spent else Outcome.REFUSED)

    def _broken(self, ticket: TicketId) -> None:
        if ticket in self._records:
            self._close(ticket, Outcome.FAILED)

    def _close(self, ticket: TicketId, outcome: Outcome, usage: Usage = _NO_USAGE) -> None:
        record = self._records.pop(ticket)
        record.outcome, record.closed_s = outcome, self._agenda.since_origin_s
        attempt = self._attempts.get(ticket)
        if attempt is not None:
            self._end(attempt)
        self._tell_closed(ticket)
        self.feed(Closed(ticket, outcome, usage))

    # Attempts

    def _start(self, dispatch: Dispatch) -> None:
        place, record = self._house.places[dispatch.replica.node], self._records[dispatch.ticket]
        record.node, record.attempts = dispatch.replica.node, dispatch.attempt
        record.granted_s, record.reason = self._agenda.since_origin_s, dispatch.reason
        attempt = Attempt(self, dispatch.ticket, dispatch.lease, place, record)
        self._attempts[dispatch.ticket] = attempt
        self._house.start(attempt)

    def first_byte(self, attempt: Attempt) -> None:
        """Its answer has begun."""
        attempt.record.first_byte_s = self._agenda.since_origin_s
        self.feed(FirstByte(attempt.ticket, attempt.lease))

    def answered(self, attempt: Attempt, usage: Usage) -> None:
        """Its answer is whole."""
        self._close(attempt.ticket, Outcome.ANSWERED, usage)

    def failed(self, attempt: Attempt, kind: FailureKind, detail: str) -> None:
        """It has ended otherwise; nothing if the scheduler has taken its lease back just now."""
        if self._attempts.get(attempt.ticket) is not attempt:
            return
        self._end(attempt)
        failure = Failure(FailureKind.CUT if attempt.committed else kind, detail)
        if attempt.committed:
            self._agenda.at(self._agenda.now, self._broken, attempt.ticket)
        self.feed(AttemptFailed(attempt.ticket, attempt.lease, failure))

    def _aborted(self, abort: Abort) -> None:
        attempt = self._attempts[abort.ticket]
        self._end(attempt)
        if attempt.committed:
            self._agenda.at(self._agenda.now, self._broken, abort.ticket)

    def _end(self, attempt: Attempt) -> None:
        del self._attempts[attempt.ticket]
        self._house.end(attempt)
