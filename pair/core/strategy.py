"""What a strategy is: it picks one of the replicas with a free slot, or lets the ticket wait.

A strategy sees only free, eligible replicas and never changes a count, so none can break the
invariants; the worst it can do is choose badly. Each ranks by one quantity with a unit, and every
choice carries its reason in words.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from pair.core.outlook import Outlook
from pair.core.replica import Replica
from pair.core.ticket import Ticket


@dataclass(frozen=True, slots=True)
class Choice:
    """The replica to lease, and why, for the `x-pair-reason` header and the job log."""

    replica: Replica
    reason: str


@dataclass(frozen=True, slots=True)
class Wait:
    """The ticket does better to wait; it is asked again at the next event.

    Attributes:
        reason: what it waits for, in words.
        until: from when on (clock of `now`) it waits no longer, None for as long as the strategy
            says so.
    """

    reason: str
    until: float | None = None


class Strategy(Protocol):
    """One way to choose."""

    @property
    def name(self) -> str: ...

    def choose(
        self, ticket: Ticket, free: Collection[Replica], outlook: Outlook, now: float
    ) -> Choice | Wait:
        """Pick one of `free` (never empty), or leave this ticket waiting (I4 says when that is
        allowed); then the slot is offered to those behind it.
        """
        ...
