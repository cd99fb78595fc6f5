"""The particulars of a refusal: one whole sentence that says what is wrong. One function a kind.

What to do about it is said once, in the answer (`wire/errors.py`), since it depends on how the
client got here and not on the state of the house.
"""

from __future__ import annotations

from collections.abc import Iterable

from pair.core.events import Failure, FailureKind
from pair.core.fleet import Fleet
from pair.core.membership import Membership, Node
from pair.core.names import ModelName, Phase
from pair.core.reports import ReplicaState
from pair.core.ticket import Ticket

NAMES_SHOWN = 20
"""Most model or node names listed in one sentence; a house has fewer, an error text must stay
readable.
"""


_ENGINE_TROUBLES = {
    ReplicaState.READY: None,
    ReplicaState.LOADING: "its engine is still loading the model",
    ReplicaState.NEEDS_KEY: "its engine wants an API key; name one with key_env or key_file",
    ReplicaState.DOWN: "its engine does not answer",
}
"""Why a node that answers cannot serve, None where that is not its engine's doing; of several
engines, the one that is nearest to serving first.
"""


def listed(names: Iterable[str], *, between: str = ", ") -> str:
    """Names in a sentence, sorted; "none" without any."""
    every = sorted(names)
    if not every:
        return "none"
    shown = between.join(every[:NAMES_SHOWN])
    more = len(every) - NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def shutting_down() -> str:
    """The proxy drains."""
    return "This proxy is being stopped and takes nothing new."


def unknown_model(fleet: Fleet, model: ModelName) -> str:
    """Nobody ever heard of it: says which models could be asked for now."""
    names = listed(name for name in fleet.names() if fleet.any_hope(name))
    return f"No node holds the model {model!r}; the models in this house are: {names}."


def no_model_named(fleet: Fleet) -> str:
    """A generation without a model's name, and there are several: says which."""
    names = listed(name for name in fleet.names() if fleet.any_hope(name))
    return f"The request names no model; the models in this house are: {names}."


def no_node(membership: Membership, fleet: Fleet, model: ModelName | None) -> str:
    """Nobody is there who could answer: says of each node concerned what keeps it from that."""
    nodes = membership.nodes
    if not nodes:
        return "No node has been found."
    holders = {replica.id.node for replica in fleet.concerned(model)}
    concerned = [node for node in nodes.values() if not holders or node.id in holders]
    obstacles = listed((_obstacle(node, model) for node in concerned), between="; ")
    what = f"serve the model {model!r}" if model else "answer"
    return f"No node could {what} now: {obstacles}."


def _obstacle(node: Node, model: ModelName | None) -> str:
    """A clause on what keeps a node from serving the model, None for any: the node's phase, or its
    engines where the node itself is ready.
    """
    if node.phase is not Phase.READY:
        return f"{node.name} is {node.phase} ({node.reason})"
    held = [replica for replica in node.replicas.values() if replica.listed]
    states = {replica.report.state for replica in held if model is None or model in replica.names}
    trouble = next((words for state, words in _ENGINE_TROUBLES.items() if state in states), None)
    failing = next((one for one in held if one.given_up), None)
    if trouble is None and failing is not None:
        trouble = f"calls fail there ({failing.set_aside_reason})"
    if trouble is None and not held and node.warnings:
        # An engine that never told its models has nothing but a complaint.
        trouble = node.warnings[0].removesuffix(".")
    return f"{node.name} is ready ({node.reason})" if trouble is None else f"{node.name}: {trouble}"


def unknown_node(membership: Membership, pin: str, model: ModelName | None) -> str:
    """The node that the client insists on is not there, is not one, or can't serve the model."""
    node = membership.named(pin)
    if node is None:
        names = [node.name for node in membership.nodes.values()]
        same = names.count(pin)
        if same > 1:
            return f"{same} nodes are called {pin!r}."
        return f"There is no node {pin!r}; the nodes are: {listed(names)}."
    if node.phase in (Phase.LOST, Phase.DRAINING):
        return f"Node {node.name} is {node.phase} ({node.reason})."
    held = listed({replica.id.model for replica in node.replicas.values() if replica.listed})
    what = "answer" if model is None else f"serve the model {model!r}"
    return f"Node {node.name} cannot {what} now; it holds: {held}."


def too_long(chars: int, largest_tokens: int, model: ModelName) -> str:
    """The prompt fits nowhere, however its tokens are counted."""
    return (
        f"The prompt has {chars} characters, more than fit into the largest context window for"
        f" {model!r} in this house, {largest_tokens} tokens."
    )


def queue_full(limit: int) -> str:
    """The waiting room has no place left."""
    return f"{limit} requests wait already, which is the limit (setting queue.limit)."


def waited_too_long(limit_s: float) -> str:
    """The wait limit of one ticket has passed."""
    return f"No slot became free within {limit_s:g} s (setting queue.wait_limit_s)."


def attempts_spent(ticket: Ticket, failure: Failure) -> str:
    """No further attempt follows: says how many there were and how the last one failed."""
    how = failure.detail.removesuffix(".")
    if ticket.attempts == 1:
        return f"The only attempt failed: {how}."
    return f"{ticket.attempts} attempts failed, the last one so: {how}."


def node_lost(node: Node) -> Failure:
    """The failure of an attempt whose node went away under it."""
    return Failure(FailureKind.UNREACHABLE, f"node {node.name} was lost")
