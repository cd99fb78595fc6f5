"""A client request inside the core, from accept to close."""

from __future__ import annotations

from dataclasses import dataclass, field

from pair.core.events import Failure, Opened
from pair.core.ledger import Lease
from pair.core.names import EngineName, ModelName, NodeId, TicketId
from pair.errors import BookkeepingError


@dataclass(slots=True, eq=False)
class Ticket:
    """What the core remembers of one request.

    Attributes:
        arrival: its place in the order of all tickets; never changes.
        model: what the client wrote, until a model is known that it means (`Fleet.meant`).
        pin: the node that it insists on; what the client wrote, until a node is known by that.
        waiting_since: when it last began to wait; None while it holds a lease or has been ended.
        queued_s: waiting done before the present wait.
        attempts: leases given, without those that a busy node sent back.
        avoided: nodes that have failed it, tried again only when nothing else could serve it.
        lacking: engines that do not know what it asks for; only a light one is asked on.
        committed: its first content byte has come.
        over: the core has refused it or given it up; only `Closed` is still to come.
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
    last_failure: Failure | None = None
    committed: bool = False
    over: bool = False

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
        return self.pin is None and not self.avoided
