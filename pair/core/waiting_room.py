"""Tickets without a lease, in the order in which their turns come.

One bounded room, one line a model name. Whose turn it is (`DESIGN.md`, I5): the most urgent class
first; within it the flow that has attained least service; within that whoever arrived first
(`turns.py`). A ticket whose attempt failed keeps its arrival number, which is smaller than that of
all who came later, and so stands at the head of its flow again without any special place.

Most tickets may go to any replica and a few may not (a pin, a node that has failed them). Those
who may go to the same ones share a lane: if its first finds no slot, nobody else in it does. So
only one ticket a lane is looked at. Who is offered a slot and does better to wait steps aside, so
that the next one is the head, and takes the same place again when everybody has been asked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter

from pair.core.fairness import Account, Attained, Charge
from pair.core.names import ModelName, TicketId
from pair.core.rank_heap import RankHeap
from pair.core.ticket import Reach, Ticket
from pair.core.turns import Lane, Rank, Turns, Visit
from pair.errors import BookkeepingError


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a ticket stands; its pin may be found out meanwhile, this stays."""

    account: Account
    reach: Reach
    lane: Lane
    turns: Turns


class _Shares:
    """What each flow has attained, and where it waits: a charge moves it everywhere at once."""

    def __init__(self, attained: Attained) -> None:
        self.attained = attained
        self._visits: dict[Account, Visit] = {}

    def joins(self, account: Account, turns: Turns, ticket: Ticket) -> None:
        """A ticket of a flow comes into a class."""
        turns.add(account, ticket, self._visits.setdefault(account, Visit()))

    def leaves(self, account: Account, turns: Turns, ticket: Ticket) -> None:
        """A ticket of a flow goes."""
        turns.remove(account, ticket)
        if not self._visits[account].waits_in:
            del self._visits[account]

    def moved(self, account: Account) -> None:
        """The account was charged or paid back."""
        visit = self._visits.get(account)
        for turns in () if visit is None else visit.waits_in:
            turns.moved(account)


class Line:
    """The waiting tickets of one model name.

    Attributes:
        model: under which those who hold it have it; flows compete for its slots, also under other
            names.
    """

    def __init__(self, model: ModelName, shares: _Shares, bound_s: float) -> None:
        self.model = model
        self._shares = shares
        self._bound_s = bound_s
        self._lanes: dict[Reach, Lane] = {}
        self._places: dict[TicketId, _Place] = {}
        self._arrivals: RankHeap[Ticket] = RankHeap()
        self._few: dict[TicketId, Ticket] = {}
        self._aside: list[Ticket] = []

    def __len__(self) -> int:
        return len(self._places)

    @property
    def few(self) -> Sequence[Ticket]:
        """Those that may not go to every replica, by arrival."""
        return sorted(self._few.values(), key=_arrival)

    def heads(self, now: float) -> Iterator[Ticket]:
        """The tickets that may be next, the soonest first: one of each lane."""
        found = [head for lane in self._lanes.values() if (head := lane.head(now)) is not None]
        for _, ticket in sorted(found, key=itemgetter(0)):
            yield ticket

    def rank(self, head: Ticket, now: float) -> Rank:
        """The place of one of the heads, to be compared with those of other lines."""
        found = self._places[head.id].lane.head(now)
        if found is None or found[1] is not head:
            raise BookkeepingError(f"ticket {head.id} is not the next of its lane")
        return found[0]

    def oldest(self) -> Ticket | None:
        """Whoever came first."""
        return self._arrivals.first()

    def all(self) -> Collection[Ticket]:
        """Everybody, in no order."""
        return self._arrivals.members()

    def add(self, ticket: Ticket) -> None:
        """Queue by class, flow and arrival number."""
        account, reach = Account(self.model, ticket.opened.flow), ticket.reach
        lane = self._lanes.get(reach)
        if lane is None:
            lane = self._lanes[reach] = Lane(self._shares.attained, self._bound_s)
        turns = lane.turns_for(ticket)
        self._shares.joins(account, turns, ticket)
        lane.tickets += 1
        self._places[ticket.id] = _Place(account, reach, lane, turns)
        self._arrivals.put(ticket, ticket.arrival)
        if not ticket.anywhere:
            self._few[ticket.id] = ticket

    def remove(self, ticket: Ticket) -> None:
        """Take out a ticket that is in here and has not stepped aside."""
        place = self._places.pop(ticket.id)
        self._shares.leaves(place.account, place.turns, ticket)
        place.lane.tickets -= 1
        if not place.lane.tickets:
            del self._lanes[place.reach]
        self._arrivals.drop(ticket)
        self._few.pop(ticket.id, None)

    def turn(self, ticket: Ticket, cost: float, now: float) -> None:
        """A ticket that is in here is about to leave for a slot; its flow is charged."""
        place, attained = self._places[ticket.id], self._shares.attained
        place.lane.turn(ticket.opened.priority)
        place.turns.turn(place.account, attained.level(place.account), now)
        attained.turn(place.account)
        attained.charge(place.account, cost, now)
        ticket.charge = Charge(place.account, cost, now)
        self._shares.moved(place.account)

    def step_aside(self, ticket: Ticket) -> None:
        """Leave a head out until `all_back`."""
        place = self._places[ticket.id]
        place.turns.step_aside(place.account, ticket)
        self._aside.append(ticket)

    def all_back(self) -> None:
        """Give everybody who stepped aside the old place."""
        for ticket in self._aside:
            place = self._places[ticket.id]
            place.turns.back(place.account, ticket)
        self._aside.clear()


class WaitingRoom:
    """All lines together, bounded by `limit` tickets (I7)."""

    def __init__(self, limit: int, priority_bound_s: float, attained: Attained) -> None:
        self.limit = limit
        self._bound_s = priority_bound_s
        self._shares = _Shares(attained)
        self._lines: dict[ModelName, Line] = {}
        self._waiting = 0

    def __len__(self) -> int:
        return self._waiting

    @property
    def overfull(self) -> bool:
        """Whether the latest newcomer is one too many."""
        return self._waiting > self.limit

    @property
    def attained(self) -> Attained:
        """What each flow has had; to be changed through the room only."""
        return self._shares.attained

    def names(self) -> tuple[ModelName, ...]:
        """Model names for which somebody waits."""
        return tuple(self._lines)

    def line(self, name: ModelName) -> Line | None:
        return self._lines.get(name)

    def all(self, name: ModelName) -> tuple[Ticket, ...]:
        """Everybody waiting for a name, by arrival."""
        line = self._lines.get(name)
        return () if line is None else tuple(sorted(line.all(), key=_arrival))

    def add(self, ticket: Ticket, model: ModelName | None = None) -> None:
        """Queue a ticket; one that comes back is let in even when the room is full.

        Args:
            model: the name under which those who hold it have it, None where it is not known.
        """
        line = self._lines.get(ticket.name)
        if line is None:
            line = Line(model or ticket.name, self._shares, self._bound_s)
            self._lines[ticket.name] = line
        line.add(ticket)
        self._waiting += 1

    def rename(self, name: ModelName, meant: ModelName) -> None:
        """Move everybody who waits for one name into the line of another."""
        for ticket in self.all(name):
            self.remove(ticket)
            ticket.model = meant
            self.add(ticket)

    def replace(self, ticket: Ticket) -> None:
        """Where a ticket may go has changed while it waits."""
        model = self._lines[ticket.name].model
        self.remove(ticket)
        self.add(ticket, model)

    def remove(self, ticket: Ticket) -> None:
        """Take a ticket out that is in here."""
        line = self._lines[ticket.name]
        line.remove(ticket)
        if not len(line):
            del self._lines[ticket.name]
        self._waiting -= 1

    def refund(self, ticket: Ticket) -> None:
        """Its attempt came to nothing before it had any service."""
        if ticket.charge is not None:
            charge, ticket.charge = ticket.charge, None
            self.attained.charge(charge.account, -charge.cost, charge.at)
            self._shares.moved(charge.account)

    def correct(self, ticket: Ticket, cost: float, now: float) -> None:
        """What its lease was charged with is known better now."""
        if ticket.charge is not None:
            charge, ticket.charge = ticket.charge, None
            self.attained.correct(charge, cost, now)
            self._shares.moved(charge.account)


def _arrival(ticket: Ticket) -> int:
    return ticket.arrival
