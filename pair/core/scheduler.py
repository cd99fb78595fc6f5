"""The whole core: events in, decisions out. See DESIGN.md for the theory and the invariants.

Nothing here waits, logs or looks at a clock. The owner feeds one event at a time and performs the
decisions at once and in order; the simulator drives this same object with a heap of virtual times.
"""

from __future__ import annotations

from typing import assert_never

from pair.core.alarms import Alarms
from pair.core.decisions import Decision, WakeAt
from pair.core.desk import Desk
from pair.core.events import (
    AttemptFailed,
    Closed,
    DrainRequested,
    Event,
    FirstByte,
    NodeIdentified,
    NodeReported,
    NodeSighted,
    NodeWithdrawn,
    Opened,
    ProbeMissed,
    StrategyChosen,
    Ticked,
)
from pair.core.fleet import Fleet
from pair.core.hope import Hope
from pair.core.limits import Limits
from pair.core.matching import Matching
from pair.core.membership import LATE_S, Membership
from pair.core.names import ModelName, NodeId, TicketId
from pair.core.replica import Replica
from pair.core.strategies import strategy_named
from pair.core.strategy import Strategy
from pair.core.ticket import Ticket
from pair.core.watch import Watch
from pair.errors import BookkeepingError


class Scheduler:
    """One queue, late binding: a ticket is bound to a replica only when a slot there is free.

    Attributes:
        membership, fleet, matching, desk: for reading (snapshots, tests); only `handle` changes
            them.
        clock: the `now` of the latest event.
    """

    def __init__(self, limits: Limits, strategy: Strategy, now: float) -> None:
        self.limits = limits
        self.started_at = now
        self.clock = now
        self._alarms = Alarms()
        self._promised: float | None = None
        self.membership = Membership(limits)
        self.fleet = Fleet(self.membership.nodes)
        hope = Hope(limits, self.membership, self.fleet, self._alarms, now=now)
        self.matching = Matching(limits, strategy, self.fleet, self._alarms, hope)
        self.desk = Desk(limits, self.membership, self.fleet, hope, self.matching)
        self._watch = Watch(limits, self.membership, self.fleet, self.desk, self._alarms)

    def handle(self, event: Event, now: float) -> list[Decision]:
        """Take in one event and say what is to be done.

        Args:
            now: seconds, monotonic, never smaller than at the call before.

        Raises:
            BookkeepingError: the event contradicts the books (a ticket opened twice, a lease
                settled twice, time run back).
        """
        if now < self.clock:
            raise BookkeepingError(f"time ran back from {self.clock} to {now}")
        self.clock = now
        if self._promised is not None and now - self._promised > LATE_S:
            # Seen at any event: after a sleep a probe's limit may pass before the tick is fed.
            self._watch.woke_late(now)
        decisions: list[Decision] = []
        self.matching.begin(decisions)
        self._watch.out = decisions
        self._take(event, now)
        self.matching.match(now)
        wake_at = self._alarms.next_at()
        if wake_at is not None and (self._promised is None or wake_at < self._promised):
            self._promised = wake_at
            decisions.append(WakeAt(wake_at))
        return decisions

    def _take(self, event: Event, now: float) -> None:
        match event:
            case Opened():
                self.desk.open(event, now)
            case FirstByte():
                self.desk.first_byte(event, now)
            case AttemptFailed():
                node = self.desk.attempt_failed(event, now)
                if node is not None:
                    self._watch.doubted(node, now)
            case Closed():
                node = self.desk.close(event, now)
                if node is not None:
                    self._watch.left(node, now)
            case NodeSighted():
                self._watch.sighted(event, now)
            case NodeWithdrawn():
                self._watch.withdrawn(event, now)
            case NodeIdentified():
                self._watch.identified(event, now)
            case NodeReported():
                self._watch.reported(event, now)
            case ProbeMissed():
                self._watch.missed(event, now)
            case DrainRequested():
                if event.node is None:
                    self.desk.draining = True
                else:
                    self._watch.drained(event.node, now)
            case StrategyChosen():
                self.matching.use_strategy(strategy_named(event.strategy), event.model)
            case Ticked():
                self._ticked(now)
            case _:
                assert_never(event)

    def _ticked(self, now: float) -> None:
        self._promised = None
        for key in self._alarms.due(now):
            match key:
                case Ticket() as ticket:
                    self.desk.wait_due(ticket, now)
                case Replica() as replica:
                    self.matching.refresh(replica, now)
                case ("probe", str(node_id)):
                    self._watch.probe_due(NodeId(node_id), now)
                case ("patience", int(ticket_id)):
                    self.desk.patience_due(TicketId(ticket_id))
                case ("hope", str(name)):
                    self.desk.hope_due(ModelName(name), now)
                case ("start",):
                    self.desk.start_due(now)
                case _:
                    raise BookkeepingError(f"an alarm that nobody set: {key!r}")
