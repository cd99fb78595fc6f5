"""The words of a refusal: what is wrong, with the particulars, and what to do. One function a
kind.
"""

from __future__ import annotations

from pair.core.events import Failure, FailureKind
from pair.core.fleet import Fleet
from pair.core.membership import Membership, Node
from pair.core.names import ModelName, Phase
from pair.core.ticket import Ticket

NAMES_SHOWN = 20
"""Most model or node names listed in one sentence; a house has fewer, an error text must stay
readable.
"""


def shutting_down() -> str:
    """The proxy drains."""
    return "this proxy is being stopped and takes nothing new; try again when it is back"


def unknown_model(fleet: Fleet, model: ModelName) -> str:
    """Nobody ever heard of it: says which models could be asked for now."""
    names = _listed(sorted(name for name in fleet.names() if fleet.any_hope(name)))
    return f"no node holds the model {model!r}; the models in this house are: {names}"


def no_node(membership: Membership, fleet: Fleet, model: ModelName | None) -> str:
    """Nobody is there who could answer: says who was, and when each last answered."""
    nodes = membership.nodes
    if not nodes:
        return (
            "no node has been found; start one with `pair node` on a machine with an engine,"
            " or name one with `pair serve --node URL`"
        )
    holders = {replica.id.node for replica in fleet.holders(model)}
    concerned = [node for node in nodes.values() if not holders or node.id in holders]
    states = _listed([f"{node.name} is {node.phase} ({node.reason})" for node in concerned])
    what = "answer" if model is None else f"serve the model {model!r}"
    return f"no node could {what} now: {states}"


def unknown_node(membership: Membership, pin: str, model: ModelName | None) -> str:
    """The node that the client insists on is not there, is not one, or can't serve the model."""
    node = membership.named(pin)
    if node is None:
        known = _listed(sorted(node.name for node in membership.nodes.values()))
        same = sum(node.name == pin for node in membership.nodes.values())
        if same > 1:
            return f"{same} nodes are called {pin!r}; name one by its id (see `pair nodes`)"
        return f"there is no node {pin!r}; the nodes are: {known}"
    if node.phase in (Phase.LOST, Phase.DRAINING):
        return (
            f"node {node.name} is {node.phase} ({node.reason});"
            " leave out x-pair-node to let another answer"
        )
    held = _listed(
        sorted({replica.id.model for replica in node.replicas.values() if replica.listed})
    )
    what = "answer" if model is None else f"serve the model {model!r}"
    return f"node {node.name} cannot {what} now; it holds: {held}"


def queue_full(limit: int) -> str:
    """The waiting room has no place left."""
    return (
        f"{limit} requests wait already, which is the limit (setting queue.limit);"
        " try again later or add a node"
    )


def waited_too_long(limit_s: float) -> str:
    """The wait limit of one ticket has passed."""
    return (
        f"no slot became free within {limit_s:g} s (setting queue.wait_limit_s);"
        " try again later or add a node"
    )


def attempts_spent(ticket: Ticket, failure: Failure) -> str:
    """No further attempt follows: says how many there were and how the last one failed."""
    tries = "1 attempt" if ticket.attempts == 1 else f"{ticket.attempts} attempts"
    return f"{tries} failed, the last one so: {failure.detail}"


def node_lost(node: Node) -> Failure:
    """The failure of an attempt whose node went away under it."""
    return Failure(FailureKind.UNREACHABLE, f"node {node.name} was lost")


def _listed(names: list[str]) -> str:
    if not names:
        return "none"
    shown = ", ".join(names[:NAMES_SHOWN])
    more = len(names) - NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
