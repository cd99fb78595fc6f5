"""Who gets which slot: the waiting room on one side, the fleet's free replicas on the other.

Late binding happens here and only here: a lease is granted when a ticket and a free slot meet, and
the slot that a settled lease leaves is offered at once. What a ticket's fate is, and why it waits
at all, is the desk's matter.
"""

from __future__ import annotations

from collections.abc import Collection

from pair.core.alarms import Alarms
from pair.core.decisions import Decision, Dispatch
from pair.core.eligibility import allowed, surest
from pair.core.fairness import Attained, weighted_tokens
from pair.core.fleet import Fleet
from pair.core.hope import Hope
from pair.core.jobs import JobLog
from pair.core.ledger import Lease, Ledger
from pair.core.limits import Limits
from pair.core.names import ModelName, TicketId
from pair.core.outlook import Outlook
from pair.core.replica import Replica
from pair.core.standing import opens_at
from pair.core.strategies import strategy_named
from pair.core.strategy import Strategy, Wait
from pair.core.ticket import Ticket
from pair.core.waiting_room import Line, WaitingRoom
from pair.core.windows import measure

STRATEGIES_LIMIT = 256
"""Most models with a strategy of their own; the oldest is forgotten."""


class Matching:
    """Leases from grant to settlement, and the line before them. What it decides goes into `out`,
    which `begin` replaces at each event.

    Attributes:
        strategy: for every model that has none of its own in `strategies`.
        left_waiting: whom a strategy has left waiting beside a free slot, at the latest event.
    """

    def __init__(
        self, limits: Limits, strategy: Strategy, fleet: Fleet, alarms: Alarms, hope: Hope
    ) -> None:
        self.strategy = strategy
        self.strategies = {name: strategy_named(chosen) for name, chosen in limits.strategies}
        self.left_waiting: set[TicketId] = set()
        self.ledger = Ledger()
        attained = Attained(limits.fairness_half_life_s, limits.flows_limit)
        self.room = WaitingRoom(limits.waiting_limit, limits.priority_bound_s, attained)
        self.outlook = Outlook(limits, fleet, self.room)
        self.jobs = JobLog(limits)
        self.out: list[Decision] = []
        self._limits = limits
        self._fleet = fleet
        self._alarms = alarms
        self._hope = hope
        self._stirred: dict[ModelName, None] = {}
        # Names for which a strategy has left somebody waiting: asked at the next event, not twice.
        self._asked_again: dict[ModelName, None] = {}
        # The windows by which those who wait for a name were measured; no name without a line.
        self._measured: dict[ModelName, tuple[tuple[int, ...], bool]] = {}

    def begin(self, out: list[Decision]) -> None:
        """An event has come; what follows from it goes into `out`."""
        self.out = out
        self.left_waiting.clear()
        self._stirred.update(self._asked_again)
        self._asked_again.clear()

    def wait(self, ticket: Ticket, now: float) -> None:
        """Put a ticket into its line, at its place."""
        ticket.waiting_since = now
        measure(ticket, self._fleet, self.outlook.estimates)
        self.room.add(ticket, self._fleet.model_of(ticket.name))
        self._stirred[ticket.name] = None
        if self._limits.wait_limit_s > 0:
            # Waiting done before an attempt that failed counts, too.
            self._alarms.set(ticket, now + max(0.0, self._limits.wait_limit_s - ticket.queued_s))

    def measure_again(self, name: ModelName) -> bool:
        """Whether the windows of those who hold a model have changed; whoever waits for it and has
        become choosy, or is so no longer, changes lanes then.
        """
        windows = self._fleet.windows(name)
        if self._measured.get(name) == windows:
            return False  # reports come with every call's end, and thousands may wait
        self._measured[name] = windows
        for ticket in self.room.all(name):
            before = ticket.reach
            measure(ticket, self._fleet, self.outlook.estimates)
            if ticket.reach != before:
                self.room.replace(ticket)
                self._stirred[name] = None
        return True

    def leave_room(self, ticket: Ticket, now: float) -> None:
        """Take a ticket out of its line, if it is in one."""
        if ticket.waiting_since is not None:
            self.room.remove(ticket)
            ticket.queued_s += now - ticket.waiting_since
            ticket.waiting_since = ticket.patience_until = None
            ticket.wait_reason = ""
            self._alarms.cancel(ticket)
            self._alarms.cancel(("patience", ticket.id))
            if self.room.line(ticket.name) is None:
                self._hope.forget(ticket.name)
                self._measured.pop(ticket.name, None)

    def stir(self, name: ModelName) -> None:
        """Something changed for those who wait for this name: they are matched anew."""
        self._stirred[name] = None

    def strategy_of(self, name: ModelName) -> Strategy:
        """How replicas of this model are chosen."""
        return self.strategies.get(name, self.strategy)

    def use_strategy(self, strategy: Strategy, name: ModelName | None) -> None:
        """Choose so from now on: for one model, or (None) for every one that has none of its own.
        Whoever waits is asked again.
        """
        if name is None:
            self.strategy = strategy
        else:
            self.strategies.pop(name, None)
            if len(self.strategies) >= STRATEGIES_LIMIT:
                del self.strategies[next(iter(self.strategies))]
            self.strategies[name] = strategy
        self._stirred.update(dict.fromkeys(self.room.names()))

    def match(self, now: float) -> None:
        """Give free slots to those who wait, first come first, until neither is left among the
        names that were stirred.

        Whom the strategy leaves waiting, that one alone waits; it is asked again at the next event.
        """
        names, self._stirred = self._stirred, {}
        self.outlook.begin()
        asides: dict[ModelName, Line] = {}
        while served := [found for name in names if (found := self._next_served(name, now))]:
            line, ticket, candidates = min(served, key=lambda found: found[0].rank(found[1], now))
            choice = self.strategy_of(ticket.name).choose(ticket, candidates, self.outlook, now)
            if isinstance(choice, Wait):
                self._leave_waiting(ticket, choice, now)
                line.step_aside(ticket)
                asides[ticket.name] = line
            else:
                line.turn(ticket, weighted_tokens(*self.outlook.tokens(ticket)), now)
                self.leave_room(ticket, now)
                self.grant(ticket, choice.replica, choice.reason, now)
        for line in asides.values():
            line.all_back()
        # A grant stirs nothing new: it only takes a slot away.
        self._asked_again.update(dict.fromkeys(asides))

    def _leave_waiting(self, ticket: Ticket, wait: Wait, now: float) -> None:
        """Beside a free slot, with a bound: what the first slot that it let pass would have
        needed.
        """
        self.left_waiting.add(ticket.id)
        ticket.wait_reason = wait.reason
        if ticket.patience_until is None and wait.until is not None:
            ticket.patience_until = wait.until
            self._alarms.set(("patience", ticket.id), max(now, wait.until))

    def refresh(self, replica: Replica, now: float) -> None:
        """A count, a state or a phase of this replica changed: those who wait for it may be
        served.
        """
        at = opens_at(replica, self._limits, now)
        if at is not None:
            self._alarms.set(replica, at)
        if self._fleet.refresh(replica, now):
            self._stirred.update(dict.fromkeys(self._fleet.names_of(replica)))

    def _next_served(
        self, name: ModelName, now: float
    ) -> tuple[Line, Ticket, Collection[Replica]] | None:
        free = self._fleet.free(name)
        line = self.room.line(name)
        if not free or line is None:
            return None
        if self._fleet.locked(name) and not self._hope.all_known(now):
            return None  # somebody may yet be found who serves it without a key
        for ticket in line.heads(now):
            candidates = allowed(ticket, free, self._fleet)
            if candidates:
                return line, ticket, surest(candidates, self._fleet)
        return None

    def grant(self, ticket: Ticket, replica: Replica, reason: str, now: float) -> None:
        """Lease a slot there to the ticket; a light one takes none."""
        ticket.lease = self.ledger.grant(ticket.id, replica, now, light=ticket.opened.light)
        ticket.attempts += 1
        if not ticket.opened.light:
            self.outlook.granted(ticket, ticket.lease, now)
        self._fleet.refresh(replica, now)
        if ticket.model != ticket.opened.model:
            reason = f"{reason}; the only model, whose engine takes any name"
        if ticket.pin is not None:
            reason = f"pinned; {reason}"
        if ticket.last_failure is not None:
            reason = f"{reason}; attempt {ticket.attempts} after: {ticket.last_failure.detail}"
        self.jobs.granted(ticket, replica, reason, now)
        job = self.jobs.of_ticket(ticket.id)
        self.note_fleet(ticket)
        job_id = None if job is None else job.id
        self.out.append(
            Dispatch(
                ticket.id,
                ticket.lease.id,
                replica.id,
                ticket.attempts,
                reason,
                ticket.queued_s,
                job_id,
            )
        )

    def settle(self, ticket: Ticket, lease: Lease, now: float, *, left: bool = False) -> bool:
        """Free the slot, or let it drain if we have `left` the call and the engine may still
        compute; whether that is so. One that cannot tell stops at its next token, so only a call
        that had none yet drains there.
        """
        counts = lease.replica.draining.counts
        drains = left and not lease.light and (counts or not ticket.committed)
        self.ledger.settle(lease.id, left_at=now if drains else None)
        self.outlook.settled(ticket, lease, now)
        ticket.lease = None
        self.refresh(lease.replica, now)
        return drains

    def note_fleet(self, ticket: Ticket) -> None:
        """Tell the ticket's job who could serve it: for a pinned call that is one node."""
        job = self.jobs.of_ticket(ticket.id)
        if job is None or job.fleet_version == self._fleet.version:
            return
        ready = filter(self._fleet.ready, self._fleet.holders(ticket.name))
        if ticket.pin is None:
            job.note_fleet(ready)
            job.fleet_version = self._fleet.version
        else:
            job.note_fleet(replica for replica in ready if replica.id.node == ticket.pin)
