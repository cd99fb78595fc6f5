"""A client request inside the core, from accept to close."""

from __future__ import annotations

from dataclasses import dataclass, field

from pair.core.events import Failure, Opened
from pair.core.fairness import Charge
from pair.core.ledger import Lease
from pair.core.names import EngineName, ModelName, NodeId, TicketId
from pair.core.offer import Offer
from pair.errors import BookkeepingError

_NOWHERE: frozenset[NodeId] = frozenset()

Reach = tuple[NodeId | None, frozenset[NodeId], int]
"""Where a ticket may go: its pin, the nodes that it avoids, the window (tokens) that it wants."""


@dataclass(slots=True, eq=False)
class Ticket:
    """What the core remembers of one request.

    Attributes:
        arrival: its place in the order of all tickets; never changes.
        model: what the client wrote, until a model is known that it means (`Fleet.meant`).
        pin: the node that it insists on; what the client wrote, until a node is known by that.
        too_small_tokens: context windows up to this have no room for its prompt; 0 if all have.
        patience_until: from when on it waits no more beside a free slot for a busy one; None before
            it was left waiting so, `wait_reason` says for what.
        expected: what was predicted for the present attempt, None where nothing could be.
        first_byte_at: of the present attempt.
        answer_chars: about how long its answer was, 0 before it has one.
        waiting_since: when it last began to wait; None while it holds a lease or has been ended.
        queued_s: waiting done before the present wait.
        attempts: leases given, without those that a busy node sent back.
        avoided: nodes that have failed it, tried again only when nothing else could serve it.
        lacking: engines that do not know what it asks for; only a light one is asked on.
        committed: its first content byte has come.
        over: the core has refused it or given it up; only `Closed` is still to come.
        charge: what its flow was charged for its present lease, None before one and after a refund.
    """

    opened: Opened
    arrival: int
    opened_at: float
    model: ModelName | None = field(init=False)
    pin: NodeId | None = None
    lease: Lease | None = None
    waiting_since: float | None = None
    queued_s: float = 0.0
    attempts: int = 0
    engine_errors: int = 0
    avoided: set[NodeId] = field(default_factory=set)
    lacking: set[tuple[NodeId, EngineName]] = field(default_factory=set)
    too_small_tokens: int = 0
    patience_until: float | None = None
    wait_reason: str = ""
    expected: Offer | None = None
    first_byte_at: float | None = None
    answer_chars: int = 0
    last_failure: Failure | None = None
    committed: bool = False
    over: bool = False
    charge: Charge | None = None

    def __post_init__(self) -> None:
        self.model = self.opened.model

    @property
    def id(self) -> TicketId:
        return self.opened.ticket

    @property
    def name(self) -> ModelName:
        """The model name that it waits under.

        Raises:
            BookkeepingError: it has none; only a light request may, and those never wait.
        """
        if self.model is None:
            raise BookkeepingError(f"ticket {self.id} names no model and is not light")
        return self.model

    @property
    def anywhere(self) -> bool:
        """Whether any replica of its model will do."""
        return self.pin is None and not self.avoided and not self.too_small_tokens

    @property
    def reach(self) -> Reach:
        """Tickets of one model and equal reach may go to the same replicas, so of those that wait
        only the first needs to be asked.
        """
        avoided = frozenset(self.avoided) if self.avoided else _NOWHERE
        return self.pin, avoided, self.too_small_tokens
