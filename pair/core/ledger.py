"""Who holds which slot: leases granted and settled. The only code that changes `in_flight`.

Kept apart so that the two rules it enforces cannot be got round: never more leases than slots (I2),
and each lease settled exactly once (I3). Both raise instead of correcting, because a silent
correction hides the leak that made it needed.
"""

from __future__ import annotations

from dataclasses import dataclass

from pair.core.names import LeaseId, NodeId, TicketId
from pair.core.replica import Replica
from pair.errors import BookkeepingError


@dataclass(slots=True, eq=False)
class Lease:
    """A ticket's hold on one slot for one attempt; a light one is counted but takes no slot.

    `busy` is the load there when it was granted, itself included.
    """

    id: LeaseId
    ticket: TicketId
    replica: Replica
    granted_at: float
    light: bool
    busy: int = 1


class Ledger:
    """All live leases. Bounded by the slots of the house plus the light requests under way."""

    def __init__(self) -> None:
        self._leases: dict[LeaseId, Lease] = {}
        self._by_node: dict[NodeId, dict[LeaseId, Lease]] = {}
        self._granted = 0
        self.in_flight = 0

    def grant(self, ticket: TicketId, replica: Replica, now: float, *, light: bool) -> Lease:
        """Reserve a slot now, before anything connects, so that a burst in one tick spreads.

        Raises:
            BookkeepingError: no slot is free (I2), or it has its one call on trial already (I12).
        """
        if not light:
            if not replica.has_free_slot():
                raise BookkeepingError(f"I2: no free slot on {replica.id} for ticket {ticket}")
            if replica.on_trial:
                raise BookkeepingError(f"I12: {replica.id} is on trial; ticket {ticket} must wait")
            replica.in_flight += 1
            replica.peak_ours = max(replica.peak_ours, replica.ours)
            self.in_flight += 1
            replica.picked = self._granted + 1
        self._granted += 1
        lease = Lease(LeaseId(self._granted), ticket, replica, now, light, replica.load)
        if replica.unproven and not light:
            replica.trial = lease.id
        self._leases[lease.id] = lease
        self._by_node.setdefault(replica.id.node, {})[lease.id] = lease
        return lease

    def settle(self, lease_id: LeaseId, *, left_at: float | None = None) -> Lease:
        """Free the slot; or, where the call was left at `left_at` and its engine may still compute,
        let it drain.

        Raises:
            BookkeepingError: this lease is not live: settled before, or never granted (I3).
        """
        lease = self._leases.pop(lease_id, None)
        if lease is None:
            raise BookkeepingError(f"I3: lease {lease_id} is not live")
        node = lease.replica.id.node
        there = self._by_node[node]
        del there[lease_id]
        if not there:
            del self._by_node[node]
        if not lease.light:
            lease.replica.in_flight -= 1
            self.in_flight -= 1
            if left_at is not None:
                lease.replica.draining.add(left_at)
            if lease.replica.trial == lease_id:
                lease.replica.trial = None
        return lease

    def on_node(self, node: NodeId) -> tuple[Lease, ...]:
        """The live leases on a node, oldest first."""
        return tuple(self._by_node.get(node, {}).values())

    def node_in_use(self, node: NodeId) -> bool:
        return node in self._by_node

    def __len__(self) -> int:
        return len(self._leases)
