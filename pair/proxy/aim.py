"""Whom a request means, beyond its model: the one node that made what it names, the one that it is
to change, or nobody in particular.

Apart from the door because it only judges, by the scheduler's books and the ids remembered; the
core gets the result as a pin like any other.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from pair.core.decisions import RefusalKind, Refuse
from pair.core.names import NodeId
from pair.core.refusals import listed
from pair.core.replica import Replica
from pair.core.scheduler import Scheduler
from pair.errors import RequestFault
from pair.proxy.stickiness import Learner, Stickiness
from pair.wire.dialects import kinds_for, only_asks
from pair.wire.errors import OwnAnswer, own_answer, refusal_answer
from pair.wire.kept_ids import makes_ids
from pair.wire.request_peek import Peek

_GONE = frozenset((RefusalKind.UNKNOWN_NODE, RefusalKind.UNKNOWN_MODEL, RefusalKind.NO_NODE))

_ASK_ON = frozenset((404, 405, 501))
"""What engines answer about a path or an id that they do not know."""


@dataclass(frozen=True, slots=True)
class Aim:
    """What is known of one request's target.

    Attributes:
        peek: with the model by which a node is chosen; None where what it names is new.
        pin: id or name of the only node that may answer, None for any.
        kept: the id for which it is pinned; only that node knows it.
        walks: an engine that does not know it says nothing about the others, so they are asked.
        makes: the answer carries a new id.
        once: it makes or changes something, so that it must not be done twice.
    """

    peek: Peek
    pin: str | None = None
    kept: str | None = None
    walks: bool = False
    makes: bool = False
    once: bool = False

    def asks_on(self, status: int) -> bool:
        """Whether an answer with this status leaves the question to the next engine."""
        return self.walks and status in _ASK_ON

    def learner(self, stickiness: Stickiness, node: NodeId) -> Learner | None:
        """Who learns from this node's answer; None where there is nothing to learn."""
        if not (self.makes or self.peek.ids):
            return None
        return Learner(stickiness, node, self.peek.ids, makes=self.makes)

    def refusal(self, refuse: Refuse) -> OwnAnswer:
        """A refusal in words that fit: whoever is pinned by an id has named no node."""
        dialect = self.peek.dialect
        if self.kept is None or refuse.kind not in _GONE:
            return refusal_answer(dialect, refuse)
        words = (
            f"Only the machine that made {self.kept!r} knows it, and it cannot answer now: "
            f"{refuse.detail} Start it again, or send the request without that id."
        )
        return own_answer(dialect, 503, "node_gone", words, retry_after_s=refuse.retry_after_s)


def aim(
    scheduler: Scheduler, stickiness: Stickiness, peek: Peek, method: bytes, node: str | None
) -> Aim:
    """The aim of a request; `node` is what its client says, which always counts.

    Raises:
        RequestFault: it changes one node, several can be meant, and it names none (400).
    """
    made = makes_ids(method, peek.path)
    once = peek.light and not only_asks(method, peek.path)
    if peek.act is not None:
        return replace(_aim_at_one(scheduler, peek, node), makes=made, once=True)
    if node is None and peek.ids and (known := stickiness.node_of(peek.ids)) is not None:
        return Aim(peek, known[1], kept=known[0], makes=made, once=once)
    walks = node is None and peek.light and peek.model is None
    return Aim(peek, node, walks=walks, makes=made, once=once)


def _aim_at_one(scheduler: Scheduler, peek: Peek, node: str | None) -> Aim:
    fleet = scheduler.fleet
    holders: Collection[Replica] = ()
    if peek.act is not None and peek.act.holds and peek.model is not None:
        holders = fleet.holders(peek.model)
    if not holders:
        peek = replace(peek, model=None)
    if node is not None:
        return Aim(peek, node)
    nodes = {replica.id.node for replica in _could_act(scheduler, holders, kinds_for(peek.path))}
    if len(nodes) > 1:
        raise _which_node(scheduler, nodes)
    return Aim(peek, next(iter(nodes), None))


def _could_act(
    scheduler: Scheduler, holders: Collection[Replica], kinds: frozenset[str]
) -> list[Replica]:
    """Of those that hold it, or of all, those whose engines know such a request; without any such
    engine, an unknown one may.
    """
    fleet = scheduler.fleet
    there = [replica for replica in holders or fleet.holders(None) if fleet.hopeful(replica)]
    knowing = [replica for replica in there if replica.report.engine_kind in kinds]
    if holders:
        return knowing or there
    # An engine without any model is of a kind that nobody has told.
    return [*(knowing or there), *fleet.without_models()]


def _which_node(scheduler: Scheduler, nodes: Collection[NodeId]) -> RequestFault:
    known = scheduler.membership.nodes
    names = [known[node].name if node in known else node for node in nodes]
    shown = listed(names if len(set(names)) == len(names) else nodes)
    return RequestFault(
        400,
        "node_required",
        "This changes one machine, and several could be meant; name one with the header "
        f"x-pair-node: {shown}.",
        param="x-pair-node",
    )
