"""Which replicas a ticket may go to: its pin, and the nodes that have failed it.

Apart from the desk because these are questions only: nothing here changes anything.
"""

from __future__ import annotations

from collections.abc import Collection

from pair.core.fleet import Fleet
from pair.core.membership import Node
from pair.core.names import ModelName, Phase
from pair.core.replica import Replica
from pair.core.ticket import Ticket
from pair.core.windows import fits


def allowed(ticket: Ticket, replicas: Collection[Replica], fleet: Fleet) -> Collection[Replica]:
    """Those of `replicas` that a ticket may go to: its pin; else those with room for its prompt;
    and no node that has failed it unless nothing else could serve it.
    """
    if ticket.anywhere:
        return replicas
    pinned = [replica for replica in replicas if _suits(ticket, replica)]
    fresh = [replica for replica in pinned if replica.id.node not in ticket.avoided]
    return pinned if not fresh and not has_fresh(ticket, fleet) else fresh


def surest(replicas: Collection[Replica], fleet: Fleet) -> Collection[Replica]:
    """Those whose node answers its probes, if there are any. A bare engine that works for us may
    be silent, and is then the last choice: what is silent may be frozen as well as busy.
    """
    return [replica for replica in replicas if not fleet.in_doubt(replica)] or replicas


def has_fresh(ticket: Ticket, fleet: Fleet) -> bool:
    """Whether a node that has not failed this ticket and has room for it is up, or may be up again
    in a moment. One that still loads does not count: it may take minutes, and those who have failed
    may be well by then.
    """
    return any(
        fleet.at_hand(replica) and replica.id.node not in ticket.avoided and _suits(ticket, replica)
        for replica in fleet.holders(ticket.model)
    )


def _suits(ticket: Ticket, replica: Replica) -> bool:
    """Whether it is the pinned one, or, where there is no pin, has room for the prompt."""
    return fits(ticket, replica) if ticket.pin is None else ticket.pin == replica.id.node


def ready_for_light(ticket: Ticket, fleet: Fleet) -> list[Replica]:
    """Those that could answer a light request now: no free slot is needed, no engine is asked
    twice, and none on a node that has failed it. Where no model is there and none is asked for, any
    engine may know the answer.
    """
    ready = [
        replica
        for replica in fleet.holders(ticket.model)
        if fleet.ready(replica) and (ticket.opened.brings_key or not replica.keyed)
    ]
    if ticket.model is None and not any(ticket.pin in (None, one.id.node) for one in ready):
        ready = fleet.without_models()
    return [
        replica
        for replica in ready
        if ticket.pin in (None, replica.id.node)
        and replica.id.node not in ticket.avoided
        and (replica.id.node, replica.id.engine) not in ticket.lacking
    ]


def pin_holds(node: Node, model: ModelName | None, fleet: Fleet) -> bool:
    """Whether waiting for this node makes sense to a ticket that insists on it."""
    if model is None:
        return node.phase is Phase.READY
    return any(
        replica.id.node == node.id and fleet.hopeful(replica) for replica in fleet.holders(model)
    )
