"""What has happened: the first of the core's two alphabets. Past tense, frozen, no behaviour.

The shell (`pair/proxy/dispatcher.py`, or the simulator) feeds these to `Scheduler.handle(event,
now)`; what the core wants done comes back as decisions. Times are never inside an event: `now` is
an argument.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pair.core.names import (
    FlowId,
    JobId,
    LeaseId,
    ModelName,
    NodeId,
    Outcome,
    Priority,
    SessionId,
    TicketId,
)
from pair.core.prompt import NO_PROMPT, Prompt
from pair.core.reports import NodeReport


@dataclass(frozen=True, slots=True)
class Opened:
    """A client's request was read whole and wants a replica.

    Attributes:
        model: as the client wrote it; None only for a light request that any ready node can answer.
        light: costs no generation (a list, a count); takes no slot and never waits behind one.
        prefers: kinds of engines that know what a light request asks for; empty where any may.
        job: the job that the client names, None to have it found by time.
        pin: the node id or name that the client insists on (`x-pair-node`).
        brings_key: it carries a key of its client's own, which an engine may take.
        client: who asks, for people; never an address book key.
        prompt: what is known of its prompt.
        session: the conversation that it continues, None where the client does not say.
        flow: whose turn it takes, see `FlowId`.
    """

    ticket: TicketId
    model: ModelName | None
    light: bool = False
    prefers: frozenset[str] = frozenset()
    job: JobId | None = None
    pin: str | None = None
    streamed: bool = False
    brings_key: bool = False
    client: str = ""
    prompt: Prompt = NO_PROMPT
    priority: Priority = Priority.DEFAULT
    session: SessionId | None = None
    flow: FlowId = FlowId("")


@dataclass(frozen=True, slots=True)
class FirstByte:
    """The first content byte of the answer came: from here on nothing is tried elsewhere.

    Attributes:
        error: the answer is one (status 400 or above), so it tells nothing of prompts and speeds.
    """

    ticket: TicketId
    lease: LeaseId
    error: bool = False


class FailureKind(StrEnum):
    """Why an attempt ended without an answer; `retrying.py` has the table of what follows."""

    UNREACHABLE = "unreachable"
    """No connection: refused, no route, connect limit."""
    RESET = "reset"
    """The connection ended before any byte of an answer."""
    BUSY = "busy"
    """The node or engine is full and has said so (503 `node_busy`, Ollama's "server busy")."""
    LOADING = "loading"
    """503 while the model loads."""
    RATE_LIMITED = "rate_limited"
    """429."""
    BAD_GATEWAY = "bad_gateway"
    """502, 503 or 504 without a more exact word."""
    NO_SUCH_MODEL = "no_such_model"
    """404 for a model that the last report still listed."""
    NOT_THERE = "not_there"
    """404 for a path or an id that another engine may know."""
    ENGINE_ERROR = "engine_error"
    """500: may be the request's own doing, so it is tried on one other node only."""
    GARBLED = "garbled"
    """What came back is not HTTP."""
    CUT = "cut"
    """The answer broke off after its first content byte."""
    STALLED = "stalled"
    """After its first content byte nothing came for so long that we ended it."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed attempt, in a form that the retry table and a person can read.

    Attributes:
        detail: one sentence for the job log and, if it is the last one, for the client.
        retry_after_s: the node's own word on when to come back, None without one.
    """

    kind: FailureKind
    detail: str
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class AttemptFailed:
    """The attempt under this lease ended without an answer; the lease is settled by this event."""

    ticket: TicketId
    lease: LeaseId
    failure: Failure


@dataclass(frozen=True, slots=True)
class Usage:
    """What one answer has cost, None where neither the engine said nor events could be counted.

    Attributes:
        prompt_tokens: all of them, those from the cache included.
        prefill_s, decode_s, load_s: the engine's own clock (s), without what it waited.
    """

    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    prefill_s: float | None = None
    decode_s: float | None = None
    load_s: float | None = None


@dataclass(frozen=True, slots=True)
class Closed:
    """The ticket is over. Exactly one per `Opened`, from one `finally`; the core frees whatever
    the ticket holds.
    """

    ticket: TicketId
    outcome: Outcome
    usage: Usage = Usage()
    detail: str = ""


@dataclass(frozen=True, slots=True)
class NodeSighted:
    """Something says that a node exists: an mDNS record, or the user's own list.

    Attributes:
        addresses: base URLs to try, best first, such as `http://192.168.1.20:7248`; opaque to the
            core.
        fixed: the user named it, so it is never forgotten, however long it is silent.
    """

    node: NodeId
    name: str
    addresses: tuple[str, ...]
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class NodeWithdrawn:
    """Its record said goodbye. Not a loss: only a missed probe decides that."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class NodeIdentified:
    """A node that was known by its URL only has told its lasting id: the two entries are one
    machine.
    """

    node: NodeId
    really: NodeId


@dataclass(frozen=True, slots=True)
class NodeReported:
    """It answered a probe.

    Attributes:
        pushed: nobody asked for it; the node says so because something changed there. It may have
            been written before our newest call got there, and it is no answer to a probe.
    """

    node: NodeId
    report: NodeReport
    pushed: bool = False


@dataclass(frozen=True, slots=True)
class ProbeMissed:
    """A probe got no answer.

    Attributes:
        connected: whether the connection came about; a machine whose engine computes still accepts,
            a dead one does not.
        last_byte_at: when an answer byte last came from this node (same clock as `now`), None if
            never.
        detail: one sentence for `pair nodes`.
        taken_address: the address of this node at which somebody else answered, None without one.
    """

    node: NodeId
    connected: bool
    last_byte_at: float | None
    detail: str
    taken_address: str | None = None


@dataclass(frozen=True, slots=True)
class DrainRequested:
    """Take nothing new: on one node, or (None) in the whole proxy because it is being stopped."""

    node: NodeId | None = None


@dataclass(frozen=True, slots=True)
class StrategyChosen:
    """The user wants replicas to be chosen in another way: of one model, or (None) of all that have
    no strategy of their own. The name is one of `STRATEGIES`; the shell has looked.
    """

    strategy: str
    model: ModelName | None = None


@dataclass(frozen=True, slots=True)
class Ticked:
    """The time that `WakeAt` asked for has come (or passed)."""


Event = (
    Opened
    | FirstByte
    | AttemptFailed
    | Closed
    | NodeSighted
    | NodeWithdrawn
    | NodeIdentified
    | NodeReported
    | ProbeMissed
    | DrainRequested
    | StrategyChosen
    | Ticked
)
