"""A strategy that leaves tickets waiting beside a free slot, as one that predicts finish times may.

Not one of ours: it shows that the seam carries such a strategy, whatever it declines.
"""

from __future__ import annotations

from collections.abc import Collection

from pair.core.names import TicketId
from pair.core.replica import Replica
from pair.core.strategies import Choice, QueueDepth, Strategy, strategy_named
from pair.core.ticket import Ticket


class Hesitant(QueueDepth):
    """Declines a third of all questions, by ticket and time alone (I8).

    Attributes:
        declined: whom it left waiting since the audit last cleared this.
    """

    name = "hesitant"

    def __init__(self) -> None:
        self.declined: set[TicketId] = set()

    def declines(self, ticket: Ticket, now: float) -> bool:
        return (ticket.id + int(4 * now)) % 3 == 0

    def choose(self, ticket: Ticket, free: Collection[Replica], now: float) -> Choice | None:
        if self.declines(ticket, now):
            self.declined.add(ticket.id)
            return None
        return super().choose(ticket, free, now)


def any_strategy(name: str) -> Strategy:
    """Ours, or the hesitant one."""
    return Hesitant() if name == Hesitant.name else strategy_named(name)
