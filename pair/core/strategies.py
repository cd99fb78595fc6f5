"""How one replica is chosen among those with a free slot. Each strategy ranks by one quantity with
a unit.

A strategy sees only free, eligible replicas and never changes a count, so none can break the
invariants; the worst it can do is choose badly. Every choice carries its reason in words.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from pair.core.replica import Replica
from pair.core.ticket import Ticket
from pair.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Choice:
    """The replica to lease, and why, for the `x-pair-reason` header and the job log."""

    replica: Replica
    reason: str


class Strategy(Protocol):
    """One way to choose."""

    @property
    def name(self) -> str: ...

    def choose(self, ticket: Ticket, free: Collection[Replica], now: float) -> Choice | None:
        """Pick one of `free` (never empty); None leaves this ticket waiting until the next event
        (I4 says when that is allowed) and offers the slot to those behind it.
        """
        ...


class QueueDepth:
    """The least load per slot; ties go to the replica that was picked longest ago, so that equals
    take turns.
    """

    name = "queue-depth"

    def choose(self, ticket: Ticket, free: Collection[Replica], now: float) -> Choice | None:
        best = min(free, key=_load_then_turn)
        used = f"{best.load} of {best.slots} slots used"
        return Choice(best, f"shortest queue: {used}, {len(free)} free to choose from")


class RoundRobin:
    """Whoever was picked longest ago, whatever the load."""

    name = "round-robin"

    def choose(self, ticket: Ticket, free: Collection[Replica], now: float) -> Choice | None:
        best = min(free, key=_turn)
        return Choice(best, f"its turn among {len(free)} with a free slot")


def _load_then_turn(replica: Replica) -> tuple[float, int]:
    return replica.load / replica.slots, replica.picked


def _turn(replica: Replica) -> int:
    return replica.picked


STRATEGIES: dict[str, Callable[[], Strategy]] = {
    QueueDepth.name: QueueDepth,
    RoundRobin.name: RoundRobin,
}


def strategy_named(name: str) -> Strategy:
    """Make the strategy of this name.

    Raises:
        SettingsError: there is none; the text lists those that exist.
    """
    make = STRATEGIES.get(name)
    if make is None:
        raise SettingsError(
            f"strategy {name!r} does not exist; choose one of {', '.join(STRATEGIES)}"
        )
    return make()
