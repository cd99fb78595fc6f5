"""Whose turn it is among tickets that may all go to the same replicas: a lane of a line.

Separate from the lines (`waiting_room.py`) because the order is all here: between classes of
priority, between the flows of a class, and within a flow.

Three exceptions to "most urgent first, then least attained service". A class in which somebody has
waited for the bound without a turn gets the next one, so that none starves; the turn after keeps to
the order again, so that none is pushed aside by that either. A flow that joins begins at the least
of those that wait, before its equals, so that a single call does not stand behind somebody else's
two hundred; but after one who joined at a level has had its turn, others who join there go behind,
so that no stream of newcomers keeps out those who wait there. And who waits at a higher level,
since it had a call before, would be kept out by them for ever: so the first rule holds of flows,
too.
"""

from __future__ import annotations

from pair.core.fairness import NOTHING, Account, Attained
from pair.core.names import Priority
from pair.core.rank_heap import RankHeap
from pair.core.ticket import Ticket

PASSES_LIMIT = 8
"""A flow that was passed over by fewer turns since its own is not late, however long those took:
among calls of minutes a single one would else wait for two of somebody else's."""

TurnRank = tuple[float, bool, int]
"""Level of the flow; whether it goes after its equals; arrival. Smaller is sooner."""

Rank = tuple[bool, int, TurnRank]
"""Whether its class keeps to the order; place of the class; place in it. Smaller is sooner."""

_PLACES = {priority: place for place, priority in enumerate(Priority)}


class Visit:
    """One flow in the waiting room, from its joining until none of its tickets waits.

    Attributes:
        waits_in: every class of every lane where it has a ticket.
        served: it has had a turn since it joined.
        first: it goes before its equals, until it has had a turn.
    """

    __slots__ = ("first", "served", "waits_in")

    def __init__(self) -> None:
        self.waits_in: dict[Turns, None] = {}
        self.served = self.first = False


class _Flow:
    """The tickets of one flow in one class of a lane, by arrival.

    Attributes:
        aside: how many stepped aside, and are not among the tickets for the moment.
        since: since when (s) it has waited in here without a turn; `turns` had been given by then.
    """

    __slots__ = ("aside", "since", "tickets", "turns", "visit")

    def __init__(self, visit: Visit, since: float, turns: int) -> None:
        self.since = since
        self.turns = turns
        self.tickets: RankHeap[Ticket] = RankHeap()
        self.aside = 0
        self.visit = visit


class Turns:
    """The flows that wait, by what each has attained.

    Attributes:
        since: since when (s) somebody in here has waited without any of them getting a turn.
        flows: those with a ticket in here, aside or not.
    """

    def __init__(self, attained: Attained, since: float) -> None:
        self.since = since
        self._attained = attained
        self.flows: dict[Account, _Flow] = {}
        self._order: RankHeap[Account] = RankHeap()
        self._served: RankHeap[Account] = RankHeap()  # those who have had a turn, by level
        self._longest: RankHeap[Account] = RankHeap()  # the same as in the order, by `since`
        self._jumped = False  # the latest turn did not keep to the order of flows
        self._turns = 0
        self._let_in = NOTHING  # up to here someone who joined was served before those who waited

    def __bool__(self) -> bool:
        """Whether anybody is in here who has not stepped aside."""
        return bool(self._order)

    def head(self, since: float) -> tuple[TurnRank, Ticket] | None:
        """Whose turn it is, and at which place: before all others the flow that has waited for
        longest, if that was without a turn since before `since` (s).
        """
        account, longest = self._order.first(), self._longest.first()
        late = longest is not None and self._late(self.flows[longest], since)
        account = longest if late else account
        if account is None:
            return None
        ticket = self.flows[account].tickets.first()
        if ticket is None:
            return None
        rank = (NOTHING, False, ticket.arrival) if late else self._rank(account, ticket)
        return rank, ticket

    def _late(self, flow: _Flow, since: float) -> bool:
        passes = self._turns - flow.turns
        return flow.since < since and passes >= PASSES_LIMIT and not self._jumped

    def add(self, account: Account, ticket: Ticket, visit: Visit) -> None:
        """Queue within its flow by arrival; with a new visit the flow joins."""
        if not visit.waits_in:
            level = self._beginning(account)
            visit.first = level > self._let_in
            self._attained.lift(account, level)
        flow = self.flows.get(account)
        if flow is None:
            flow = self.flows[account] = _Flow(visit, waits_since(ticket), self._turns)
            visit.waits_in[self] = None
        flow.tickets.put(ticket, ticket.arrival)
        self.moved(account)

    def remove(self, account: Account, ticket: Ticket) -> None:
        """Let a ticket go."""
        flow = self.flows[account]
        flow.tickets.drop(ticket)
        if not (flow.tickets or flow.aside):
            del self.flows[account]
            del flow.visit.waits_in[self]
        self.moved(account)

    def step_aside(self, account: Account, ticket: Ticket) -> None:
        """Leave a ticket out until it is `back`."""
        flow = self.flows[account]
        flow.tickets.drop(ticket)
        flow.aside += 1
        self.moved(account)

    def back(self, account: Account, ticket: Ticket) -> None:
        """Give it its old place again."""
        flow = self.flows[account]
        flow.aside -= 1
        flow.tickets.put(ticket, ticket.arrival)
        self.moved(account)

    def turn(self, account: Account, level: float, now: float) -> None:
        """A flow in here has its turn, at this level, for which it is charged after this."""
        flow = self.flows[account]
        self._turns += 1
        visit, flow.since, flow.turns = flow.visit, now, self._turns
        self._jumped = account != self._order.first()
        if visit.first and len(self.flows) > 1:
            self._let_in = max(self._let_in, level)
        visit.first, visit.served = False, True
        self.since = now

    def moved(self, account: Account) -> None:
        """The level or the first ticket of a flow has changed."""
        flow = self.flows.get(account)
        first = None if flow is None else flow.tickets.first()
        self._served.drop(account)
        if flow is None or first is None:
            self._order.drop(account)
            self._longest.drop(account)
            return
        self._order.put(account, self._rank(account, first))
        self._longest.put(account, flow.since)
        if flow.visit.served:
            self._served.put(account, self._attained.level(account))

    def _rank(self, account: Account, ticket: Ticket) -> TurnRank:
        return self._attained.level(account), not self.flows[account].visit.first, ticket.arrival

    def _beginning(self, account: Account) -> float:
        """The level at which a flow that was away joins: the least of those that wait."""
        # Not the least of those who only joined: a stream of them would never rise above it, and
        # whoever waits there and has had a turn would get no other.
        least = self._served.first() or self._order.first()
        if least is None:
            return self._attained.turn_level(account.model)
        return self._attained.level(least)


class Lane:
    """All classes together.

    Attributes:
        tickets: how many are in here, those that stepped aside included; counted by the line.
    """

    def __init__(self, attained: Attained, bound_s: float) -> None:
        self.tickets = 0
        self._attained = attained
        self._bound_s = bound_s
        self._classes: dict[Priority, Turns] = {}
        self._jumped = False  # the latest turn did not keep to the order

    def turns_for(self, ticket: Ticket) -> Turns:
        """The class that a ticket comes into."""
        priority = ticket.opened.priority
        turns = self._classes.get(priority)
        if turns is None or not turns.flows:
            turns = self._classes[priority] = Turns(self._attained, waits_since(ticket))
        return turns

    def head(self, now: float) -> tuple[Rank, Ticket] | None:
        """Whose turn it is, None while all have stepped aside."""
        waiting = self._waiting()
        if not waiting:
            return None
        chosen, ordered = waiting[0], True
        if len(waiting) > 1 and not self._jumped:
            longest = min(waiting[1:], key=lambda priority: self._classes[priority].since)
            if now - self._classes[longest].since > self._bound_s:
                chosen, ordered = longest, False
        head = self._classes[chosen].head(now - self._bound_s)
        return None if head is None else ((ordered, _PLACES[chosen], head[0]), head[1])

    def turn(self, priority: Priority) -> None:
        """Somebody of this class, who is still in here, has the turn."""
        self._jumped = priority is not self._waiting()[0]

    def _waiting(self) -> list[Priority]:
        return [priority for priority in Priority if self._classes.get(priority)]


def waits_since(ticket: Ticket) -> float:
    """As if it had waited without a break (s): what it waited before an attempt counts."""
    if ticket.waiting_since is None:
        return ticket.opened_at
    return ticket.waiting_since - ticket.queued_s
