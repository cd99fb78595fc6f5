"""The names by which the core knows things. Identities only: no address, no URL, no wall-clock
time.

A node is known by a lasting id, never by its address, because addresses change with the router's
mood; what carries an address (a sighting) lives in the events.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

NodeId = NewType("NodeId", str)
EngineName = NewType("EngineName", str)
"""One inference engine on one node, unique there and lasting, e.g. `ollama:11434`."""
ModelName = NewType("ModelName", str)
"""A model as a client writes it; compared exactly."""
NO_NAME = ModelName("")
"""What a generation asks for whose client names no model; nobody holds it, see `Fleet.meant`."""
TicketId = NewType("TicketId", int)
LeaseId = NewType("LeaseId", int)
JobId = NewType("JobId", str)
SessionId = NewType("SessionId", str)
"""One conversation, by the finest mark that its client sends."""
FlowId = NewType("FlowId", str)
"""Calls that share one place in line: a job, else a client. Fairness is between flows."""


@dataclass(frozen=True, slots=True, order=True)
class ReplicaId:
    """One model on one engine on one node: what dispatch chooses."""

    node: NodeId
    engine: EngineName
    model: ModelName

    def __str__(self) -> str:
        return f"{self.node}/{self.engine}/{self.model}"


class Priority(StrEnum):
    """How urgent a ticket is, as the client says in `x-pair-priority`."""

    INTERACTIVE = "interactive"
    DEFAULT = "default"
    BULK = "bulk"


class Phase(StrEnum):
    """Where a node stands. Only `READY` takes new tickets."""

    SIGHTED = "sighted"
    """Something says that it exists; it has not answered yet."""
    READY = "ready"
    LOADING = "loading"
    """It answers, but every engine on it is still loading its model."""
    DRAINING = "draining"
    """It answers, finishes what it has and takes nothing new."""
    SUSPECT = "suspect"
    """It missed a probe or failed a connection; nothing new goes there until it answers."""
    LOST = "lost"
    """It missed too many; its leases are gone. An answer to a probe makes it ready again."""


class Outcome(StrEnum):
    """The one fate of a ticket (invariant I1)."""

    ANSWERED = "answered"
    REFUSED = "refused"
    CLIENT_LEFT = "client_left"
    FAILED = "failed"
