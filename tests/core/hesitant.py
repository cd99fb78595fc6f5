"""A strategy that leaves tickets waiting beside a free slot, as one that predicts finish times may.

Not one of ours: it shows that the seam carries such a strategy, whatever it declines.
"""

from __future__ import annotations

from collections.abc import Collection

from pair.core.outlook import Outlook
from pair.core.queue_depth import QueueDepth
from pair.core.replica import Replica
from pair.core.strategies import strategy_named
from pair.core.strategy import Choice, Strategy, Wait
from pair.core.ticket import Ticket


class Hesitant(QueueDepth):
    """Declines a third of all questions, by ticket and time alone (I8)."""

    name = "hesitant"

    def declines(self, ticket: Ticket, now: float) -> bool:
        return (ticket.id + int(4 * now)) % 3 == 0

    def choose(  # type: ignore[override]  # the others never wait
        self, ticket: Ticket, free: Collection[Replica], outlook: Outlook, now: float
    ) -> Choice | Wait:
        if self.declines(ticket, now):
            return Wait("not now")
        return super().choose(ticket, free, outlook, now)


def any_strategy(name: str) -> Strategy:
    """Ours, or the hesitant one."""
    return Hesitant() if name == Hesitant.name else strategy_named(name)
