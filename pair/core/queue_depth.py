"""The strategies that count calls and know nothing of time."""

from __future__ import annotations

from collections.abc import Collection

from pair.core.outlook import Outlook
from pair.core.replica import Replica
from pair.core.strategy import Choice
from pair.core.ticket import Ticket


class QueueDepth:
    """The least load per slot; ties go to the replica that was picked longest ago, so that equals
    take turns.
    """

    name = "queue-depth"

    def choose(
        self, ticket: Ticket, free: Collection[Replica], outlook: Outlook, now: float
    ) -> Choice:
        best = min(free, key=_load_then_turn)
        used = f"{best.load} of {best.slots} slots used"
        return Choice(best, f"shortest queue: {used}, {len(free)} free to choose from")


class RoundRobin:
    """Whoever was picked longest ago, whatever the load."""

    name = "round-robin"

    def choose(
        self, ticket: Ticket, free: Collection[Replica], outlook: Outlook, now: float
    ) -> Choice:
        best = min(free, key=_turn)
        return Choice(best, f"its turn among {len(free)} with a free slot")


def _load_then_turn(replica: Replica) -> tuple[float, int]:
    return replica.load / replica.slots, replica.picked


def _turn(replica: Replica) -> int:
    return replica.picked
