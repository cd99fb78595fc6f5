"""Tickets without a lease, in the order in which they came.

One bounded room, one line a model name. Order is by arrival number alone: a ticket whose attempt
failed keeps its number, which is smaller than that of all who came later, and so stands at the head
again (I5) without any special place.

Each line has two lanes, because most tickets may go to any replica and a few may not (a pin, a node
that has failed them): when a slot frees, the head of the free lane is found at once and only the
few are searched. Those who come back to an earlier place stand with the few, since the free lane
only grows at its end. Who is offered a slot and does better to wait steps aside, so that the next
one is the head, and takes the same place again when everybody has been asked.
"""

from __future__ import annotations

import bisect
from collections import OrderedDict
from collections.abc import Iterator

from pair.core.names import ModelName, TicketId
from pair.core.ticket import Ticket


class Line:
    """The waiting tickets of one model name; both lanes are in order of arrival."""

    def __init__(self) -> None:
        # Not a plain dict: finding its first key steps over every key deleted before it.
        self.free: OrderedDict[TicketId, Ticket] = OrderedDict()
        self.few: list[Ticket] = []
        self.aside: list[Ticket] = []

    def __len__(self) -> int:
        return len(self.free) + len(self.few) + len(self.aside)

    def heads(self) -> Iterator[Ticket]:
        """The tickets that may be next, by arrival: each of the few, and the head of the free
        lane.
        """
        head = next(iter(self.free.values()), None)
        for ticket in self.few:
            if head is not None and head.arrival < ticket.arrival:
                yield head
                head = None
            yield ticket
        if head is not None:
            yield head

    def oldest(self) -> Ticket | None:
        return next(self.heads(), None)

    def add(self, ticket: Ticket) -> None:
        """Queue by arrival number."""
        last = next(reversed(self.free.values()), None)
        if ticket.anywhere and (last is None or last.arrival < ticket.arrival):
            self.free[ticket.id] = ticket
        else:
            bisect.insort(self.few, ticket, key=_arrival)

    def step_aside(self, ticket: Ticket) -> None:
        """Leave a head out until `all_back`."""
        self.remove(ticket)
        self.aside.append(ticket)

    def all_back(self) -> None:
        """Give everybody who stepped aside the old place."""
        # Backwards, since of the free lane only heads can have stepped aside.
        for ticket in reversed(self.aside):
            if ticket.anywhere:
                self.free[ticket.id] = ticket
                self.free.move_to_end(ticket.id, last=False)
            else:
                bisect.insort(self.few, ticket, key=_arrival)
        self.aside.clear()

    def remove(self, ticket: Ticket) -> None:
        """Take out a ticket that is in here and has not stepped aside."""
        if self.free.pop(ticket.id, None) is None:
            del self.few[bisect.bisect_left(self.few, ticket.arrival, key=_arrival)]


class WaitingRoom:
    """All lines together, bounded by `limit` tickets (I7)."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lines: dict[ModelName, Line] = {}
        self._waiting = 0

    def __len__(self) -> int:
        return self._waiting

    @property
    def overfull(self) -> bool:
        """Whether the latest newcomer is one too many."""
        return self._waiting > self.limit

    def names(self) -> tuple[ModelName, ...]:
        """Model names for which somebody waits."""
        return tuple(self._lines)

    def line(self, name: ModelName) -> Line | None:
        return self._lines.get(name)

    def all(self, name: ModelName) -> tuple[Ticket, ...]:
        """Everybody waiting for a name, by arrival."""
        line = self._lines.get(name)
        if line is None:
            return ()
        return tuple(sorted((*line.free.values(), *line.few), key=_arrival))

    def add(self, ticket: Ticket) -> None:
        """Queue a ticket by its arrival number; one that comes back is let in even when the room
        is full.
        """
        line = self._lines.get(ticket.name)
        if line is None:
            line = self._lines[ticket.name] = Line()
        line.add(ticket)
        self._waiting += 1

    def rename(self, name: ModelName, meant: ModelName) -> None:
        """Move everybody who waits for one name into the line of another, by arrival."""
        for ticket in self.all(name):
            self.remove(ticket)
            ticket.model = meant
            self.add(ticket)

    def remove(self, ticket: Ticket) -> None:
        """Take a ticket out that is in here."""
        line = self._lines[ticket.name]
        line.remove(ticket)
        if not len(line):
            del self._lines[ticket.name]
        self._waiting -= 1


def _arrival(ticket: Ticket) -> int:
    return ticket.arrival
