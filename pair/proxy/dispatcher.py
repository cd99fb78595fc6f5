"""The one owner of the scheduler: feeds it events, performs its decisions at once, never awaits in
between.

Everything that happens in the proxy passes through `feed`, on the event loop's thread, so the
scheduler needs no lock and two calls can never take the same slot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import assert_never

from pair.core.decisions import Abort, Decision, Dispatch, Probe, Refuse, WakeAt
from pair.core.events import (
    AttemptFailed,
    Closed,
    Event,
    Failure,
    FirstByte,
    Opened,
    Ticked,
    Usage,
)
from pair.core.names import Outcome, TicketId
from pair.core.scheduler import Scheduler
from pair.errors import BookkeepingError, PairError


class Refused(PairError):
    """The core gives the ticket no node (any more)."""

    def __init__(self, refuse: Refuse) -> None:
        super().__init__(refuse.detail)
        self.refuse = refuse


class Hold:
    """One ticket's line to the scheduler, in the hands of the one task that serves it.

    Attributes:
        aborted: the core took the present lease away; whatever comes of the attempt is no longer
            reported.
        on_abort: called at once when that happens, so that no further byte of the old attempt
            reaches the client.
    """

    def __init__(self, dispatcher: Dispatcher, ticket: TicketId) -> None:
        self.ticket = ticket
        self.aborted: Abort | None = None
        self.on_abort: Callable[[], None] | None = None
        self._dispatcher = dispatcher
        self._decision: Dispatch | Refuse | None = None
        self._decided = asyncio.Event()
        self._lease: Dispatch | None = None

    async def lease(self) -> Dispatch:
        """Wait for the next lease of this ticket.

        Raises:
            Refused: there will be none.
        """
        while (decision := self._decision) is None:
            await self._decided.wait()
        self._decision = None
        self._decided.clear()
        if isinstance(decision, Refuse):
            raise Refused(decision)
        self.aborted = None
        self._lease = decision
        return decision

    def first_byte(self, *, error: bool = False) -> None:
        """The first content byte, of an answer or of an `error`, is about to go to the client."""
        self._dispatcher.feed(FirstByte(self.ticket, self._held().lease, error))

    def failed(self, failure: Failure) -> None:
        """The attempt under the present lease ended without an answer; nothing to say if the core
        took it away.
        """
        if self.aborted is None:
            self._dispatcher.feed(AttemptFailed(self.ticket, self._held().lease, failure))

    def close(self, outcome: Outcome, usage: Usage, detail: str) -> None:
        """The ticket is over: called exactly once, from the serving task's `finally`."""
        self._dispatcher.close(self, Closed(self.ticket, outcome, usage, detail))

    def _held(self) -> Dispatch:
        if self._lease is None:
            raise BookkeepingError(f"ticket {self.ticket} holds no lease")
        return self._lease

    # From the dispatcher

    def decide(self, decision: Dispatch | Refuse) -> None:
        """A lease or a refusal has come; if the task is cancelled before it looks, `Closed` frees
        what it got.
        """
        if self._decision is not None:
            raise BookkeepingError(f"ticket {self.ticket} was decided twice")
        self._decision = decision
        self._decided.set()

    def abort(self, abort: Abort) -> None:
        """The core took the lease away, perhaps before the task has even seen it."""
        if isinstance(self._decision, Dispatch) and self._decision.lease == abort.lease:
            self._decision = None
            self._decided.clear()
            return
        self.aborted = abort
        if self.on_abort is not None:
            self.on_abort()


class Dispatcher:
    """Feeds the scheduler and performs what it decides."""

    def __init__(
        self, scheduler: Scheduler, loop: asyncio.AbstractEventLoop, probe: Callable[[Probe], None]
    ) -> None:
        self.scheduler = scheduler
        self.loop = loop
        self._probe = probe
        self._holds: dict[TicketId, Hold] = {}
        self._opened = 0
        self._timer: asyncio.TimerHandle | None = None
        self._feeding = False
        self._broken: asyncio.Future[None] = loop.create_future()

    def open(self, describe: Callable[[TicketId], Opened]) -> Hold:
        """Open a ticket; `describe` makes its event from the number that it gets here."""
        self._opened += 1
        ticket = TicketId(self._opened)
        hold = Hold(self, ticket)
        self._holds[ticket] = hold
        self.feed(describe(ticket))
        return hold

    def close(self, hold: Hold, closed: Closed) -> None:
        """Take a ticket off the table."""
        self._holds.pop(hold.ticket, None)  # a second time the core raises what is wrong
        self.feed(closed)

    def feed(self, event: Event) -> None:
        """Hand an event to the scheduler and perform its decisions, in order, now.

        Raises:
            BookkeepingError: our own fault; see `Scheduler.handle`.
        """
        if self._feeding:
            raise BookkeepingError(f"{event!r} was fed while an earlier event was being performed")
        self._feeding = True
        try:
            for decision in self.scheduler.handle(event, self.loop.time()):
                self._perform(decision)
        finally:
            self._feeding = False

    async def sound(self) -> None:
        """Never returns.

        Raises:
            BookkeepingError: the books were found wrong when an alarm rang. No alarm rings after
                that, so whoever runs the proxy must end it.
        """
        await asyncio.shield(self._broken)

    def stop(self) -> None:
        """Ring no more alarms."""
        if self._timer is not None:
            self._timer.cancel()

    def _perform(self, decision: Decision) -> None:
        match decision:
            case Dispatch() | Refuse():
                self._holds[decision.ticket].decide(decision)
            case Abort():
                self._holds[decision.ticket].abort(decision)
            case Probe():
                self._probe(decision)
            case WakeAt():
                if self._timer is not None:
                    self._timer.cancel()
                self._timer = self.loop.call_at(decision.at, self._ring, decision.at)
            case _:
                assert_never(decision)

    def _ring(self, at: float) -> None:
        # uvloop counts whole milliseconds and may ring a little early; an alarm is due when its
        # time has come, not before.
        if self.loop.time() < at:
            self._timer = self.loop.call_at(at, self._ring, at)
            return
        try:
            self.feed(Ticked())
        except BookkeepingError as fault:
            # A timer's callback has nobody above it: raised here, it would be a line in the log of
            # a proxy that no longer probes, retries or gives up.
            if not self._broken.done():
                self._broken.set_exception(fault)
