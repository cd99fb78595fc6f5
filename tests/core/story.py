"""A small language for stories: `at(time).sees(what happened).expects(what is decided)`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Self

from pair.core.decisions import Abort, Decision, Dispatch, Refuse
from pair.core.events import (
    AttemptFailed,
    Closed,
    DrainRequested,
    Event,
    Failure,
    FailureKind,
    FirstByte,
    NodeReported,
    NodeSighted,
    NodeWithdrawn,
    Opened,
)
from pair.core.names import FlowId, JobId, ModelName, NodeId, Outcome, Phase, Priority, TicketId
from pair.core.reports import NodeReport
from pair.core.strategies import strategy_named
from tests.core.house import House, report
from tests.core.limits import limits

Happening = Event | Callable[["Story"], Event]


class Story:
    """A house with these nodes (letters, or names), each with one slot for the model `m`.

    Each call of `expects` accounts for everything decided since the last one; probes and wake-ups
    are not told.
    """

    def __init__(
        self, nodes: Iterable[str] = "", strategy: str = "queue-depth", **changes: float
    ) -> None:
        self.house = House(limits(**changes), strategy_named(strategy))
        for node in nodes:
            self.sees(comes(node))
        self.at(0.01).expects()

    def at(self, now: float) -> Self:
        """Let time pass until then."""
        self.house.run_until(now)
        return self

    def sees(self, *happenings: Happening) -> Self:
        """These happen now, one after the other."""
        for happening in happenings:
            self.house.feed(happening(self) if callable(happening) else happening)
        return self

    def expects(self, *told: str) -> Self:
        """Exactly these were decided since the last look."""
        said, self.house.said = [self._tell(d) for d in self.house.said], []
        assert said == list(told), f"at {self.house.now}: {said}"
        return self

    def finds(self, node: str, phase: Phase) -> Self:
        """The node is in this phase."""
        found = self.house.scheduler.membership.nodes.get(NodeId(node))
        assert found is not None, f"{node} is not known"
        assert found.phase is phase, f"at {self.house.now}: {node} is {found.phase}"
        return self

    def ends(self) -> None:
        """Every ticket is closed: nothing is left anywhere, and it would all happen again (I8)."""
        audit = self.house.scheduler.audit
        assert not audit.tickets, f"{audit.tickets} are still open"
        assert not audit.leases, f"{audit.leases} are still live"
        self.house.scheduler.replay()

    def detail(self, ticket: int) -> str:
        """The words of the latest refusal of a ticket."""
        for _, _, decisions in reversed(self.house.scheduler.log):
            for decision in decisions:
                if isinstance(decision, Refuse) and decision.ticket == ticket:
                    return decision.detail
        raise AssertionError(f"{ticket} was never refused")

    def _tell(self, decision: Decision) -> str:
        match decision:
            case Dispatch():
                again = f", try {decision.attempt}" if decision.attempt > 1 else ""
                return f"{decision.ticket} to {decision.replica.node}{again}"
            case Refuse():
                return f"{decision.ticket} refused: {decision.kind}"
            case Abort():
                return f"{decision.ticket} taken from {self.house.nodes_of[decision.lease]}"
        return str(decision)


def comes(node: str, *, says: NodeReport | None = None, fixed: bool = False) -> Happening:
    """A node starts and is sighted; it answers probes from now on."""

    def happen(story: Story) -> Event:
        story.house.words[NodeId(node)] = report(node) if says is None else says
        return NodeSighted(NodeId(node), node, (f"http://{node}:7248",), fixed)

    return happen


def says(node: str, says: NodeReport) -> Happening:
    """A living node has something new to say, and says it now."""

    def happen(story: Story) -> Event:
        story.house.words[NodeId(node)] = says
        return NodeReported(NodeId(node), says)

    return happen


def pushes(node: str, says: NodeReport) -> Happening:
    """The node says something that nobody asked for."""
    return NodeReported(NodeId(node), says, pushed=True)


def withdrawn(node: str) -> Happening:
    """The node's record says goodbye."""
    return NodeWithdrawn(NodeId(node))


def calls(*tickets: int) -> list[Happening]:
    return [call(ticket) for ticket in tickets]


def call(
    ticket: int,
    model: str | None = "m",
    *,
    pin: str | None = None,
    light: bool = False,
    job: str | None = None,
    key: bool = False,
    flow: str = "",
    priority: Priority = Priority.DEFAULT,
) -> Happening:
    """A client's request comes."""
    return Opened(
        TicketId(ticket),
        None if model is None else ModelName(model),
        light=light,
        job=None if job is None else JobId(job),
        pin=pin,
        brings_key=key,
        priority=priority,
        flow=FlowId(flow),
    )


def first_byte(ticket: int) -> Happening:
    return lambda story: FirstByte(TicketId(ticket), story.house.leases[TicketId(ticket)].lease)


def failed(
    ticket: int, kind: FailureKind, detail: str = "it failed", retry_after_s: float | None = None
) -> Happening:
    """The attempt under the ticket's present lease ends without an answer."""

    def happen(story: Story) -> Event:
        lease = story.house.leases[TicketId(ticket)].lease
        return AttemptFailed(TicketId(ticket), lease, Failure(kind, detail, retry_after_s))

    return happen


def answered(ticket: int) -> Happening:
    return Closed(TicketId(ticket), Outcome.ANSWERED)


def refused(ticket: int) -> Happening:
    return Closed(TicketId(ticket), Outcome.REFUSED)


def ends_failed(ticket: int) -> Happening:
    return Closed(TicketId(ticket), Outcome.FAILED)


def hangs_up(ticket: int) -> Happening:
    return Closed(TicketId(ticket), Outcome.CLIENT_LEFT)


def drains(node: str | None = None) -> Happening:
    return DrainRequested(None if node is None else NodeId(node))
