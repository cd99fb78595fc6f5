"""What is to be done: the second of the core's two alphabets. Imperative, frozen, no behaviour.

The owner of the scheduler performs each one at once and in order, without awaiting in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pair.core.names import JobId, LeaseId, NodeId, ReplicaId, TicketId


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Give the ticket this lease and start its attempt; the slot is already reserved.

    Attributes:
        attempt: 1 for the ticket's first.
        reason: why this replica, in words, for the `x-pair-reason` header and the job log.
        queued_s: how long the ticket has waited for leases in all, in seconds.
        job: the job that the ticket was put into, None for a light one.
    """

    ticket: TicketId
    lease: LeaseId
    replica: ReplicaId
    attempt: int
    reason: str
    queued_s: float
    job: JobId | None = None


class RefusalKind(StrEnum):
    """Why a ticket gets no answer from any node; `core/refusals.py` says what is wrong,
    `wire/errors.py` gives each its status and the advice.
    """

    UNKNOWN_MODEL = "unknown_model"
    NO_MODEL_NAMED = "no_model_named"
    TOO_LONG = "too_long"
    """The prompt fits into no context window of the house."""
    NO_NODE = "no_node"
    """Nobody who could answer is there."""
    UNKNOWN_NODE = "unknown_node"
    """The node that the client insists on is not there, or does not hold the model."""
    QUEUE_FULL = "queue_full"
    WAITED_TOO_LONG = "waited_too_long"
    SHUTTING_DOWN = "shutting_down"
    ATTEMPTS_SPENT = "attempts_spent"
    """Every attempt that the retry table allows has failed."""


HOPELESS = frozenset(
    (
        RefusalKind.UNKNOWN_MODEL,
        RefusalKind.UNKNOWN_NODE,
        RefusalKind.NO_MODEL_NAMED,
        RefusalKind.TOO_LONG,
    )
)
"""Refusals that coming back would not change: the request itself must."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """End the ticket with an error of our own.

    Attributes:
        detail: what is wrong, one whole sentence with the particulars: which models exist, how many
            wait, what the last failure was.
        retry_after_s: whole seconds to put into `Retry-After`, None where coming back would not
            help.
    """

    ticket: TicketId
    kind: RefusalKind
    detail: str
    retry_after_s: int | None = None


@dataclass(frozen=True, slots=True)
class Abort:
    """Stop the attempt under this lease; the core has settled the lease already.

    What becomes of the ticket depends on its commit point: before it a new `Dispatch` or a `Refuse`
    follows; after it the shell ends the stream with an error event and sends `Closed`.
    """

    ticket: TicketId
    lease: LeaseId
    detail: str


@dataclass(frozen=True, slots=True)
class Probe:
    """Ask the node for its report; answer with `NodeReported` or `ProbeMissed`.

    Attributes:
        fresh: open a new connection for it, because an old one says nothing about the link any
            more.
        limit_s: how long to wait for the answer.
        closely: have the engine count its requests, also where that is not asked every time.
    """

    node: NodeId
    fresh: bool
    limit_s: float
    closely: bool = False


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Send `Ticked` at this time; replaces every earlier `WakeAt`."""

    at: float


Decision = Dispatch | Refuse | Abort | Probe | WakeAt
