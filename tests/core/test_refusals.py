"""The words of a refusal; those that stories tell already are asserted there."""

from __future__ import annotations

import pytest

from pair.core import refusals
from pair.core.events import NodeSighted
from pair.core.fleet import Fleet
from pair.core.membership import Membership
from pair.core.names import ModelName, NodeId, Phase
from pair.core.reports import NodeReport, ReplicaState
from tests.core.house import replica, report
from tests.core.limits import limits


def a_table(*names: str) -> Membership:
    table = Membership(limits())
    for index, name in enumerate(names):
        node = table.sight(NodeSighted(NodeId(f"id{index}"), name, ("http://x",)), 0.0)
        table.report(node, report(f"id{index}", replica(f"model-{index}"), name=name), 0.0)
    return table


def test_a_list_of_names_stays_readable() -> None:
    table = a_table(*(f"node-{index:02}" for index in range(23)))
    text = refusals.unknown_node(table, "nobody", ModelName("m"))
    assert text.startswith("There is no node 'nobody'; the nodes are: node-00, node-01,")
    assert text.endswith("node-19 and 3 more.")


def test_a_name_that_two_nodes_have_is_explained() -> None:
    text = refusals.unknown_node(a_table("box", "box"), "box", ModelName("m"))
    assert text == "2 nodes are called 'box'."


def test_a_pinned_node_says_what_it_is_doing() -> None:
    table = a_table("box")
    node = table.nodes[NodeId("id0")]
    assert refusals.unknown_node(table, "box", None) == (
        "Node box cannot answer now; it holds: model-0."
    )
    node.enter(Phase.DRAINING, "finishes what it has", 1.0)
    assert refusals.unknown_node(table, "id0", ModelName("m")) == (
        "Node box is draining (finishes what it has)."
    )


def test_nobody_there_says_who_is_concerned() -> None:
    table = a_table("box", "pi")
    fleet = Fleet(table.nodes)
    for node in table.nodes.values():
        for one in node.replicas.values():
            fleet.index(one)
        node.enter(Phase.LOST, "missed 3 probes: no route", 1.0)
    assert refusals.no_node(table, fleet, ModelName("model-1")) == (
        "No node could serve the model 'model-1' now: pi is lost (missed 3 probes: no route)."
    )
    assert refusals.unknown_model(fleet, ModelName("m")).endswith("are: none."), "all are lost"
    everyone = refusals.no_node(table, fleet, None)
    assert everyone.startswith("No node could answer now: box is lost")
    assert "pi is lost" in everyone


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (ReplicaState.NEEDS_KEY, "its engine wants an API key; name one with key_env or key_file"),
        (ReplicaState.LOADING, "its engine is still loading the model"),
        (ReplicaState.DOWN, "its engine does not answer"),
    ],
)
def test_of_a_node_that_answers_the_engine_s_trouble_is_said(
    state: ReplicaState, words: str
) -> None:
    table = a_table("attic", "pi")
    fleet = Fleet(table.nodes)
    attic, pi = table.nodes.values()
    said = report("id0", replica("m", state=state), replica("other"), name="attic")
    for one in table.report(attic, said, 1.0):
        fleet.index(one)
    for one in table.report(pi, report("id1", replica("m"), name="pi"), 1.0):
        fleet.index(one)
    pi.enter(Phase.LOST, "missed 3 probes: no route", 1.0)
    assert refusals.no_node(table, fleet, ModelName("m")) == (
        f"No node could serve the model 'm' now: attic: {words};"
        " pi is lost (missed 3 probes: no route)."
    )


def test_an_engine_that_never_told_its_models_has_its_complaint_said() -> None:
    table = Membership(limits())
    node = table.sight(NodeSighted(NodeId("id0"), "attic", ("http://x",)), 0.0)
    said = NodeReport(NodeId("id0"), "attic", warnings=("vllm:8000: wants an API key",))
    table.report(node, said, 0.0)
    assert refusals.no_node(table, Fleet(table.nodes), None) == (
        "No node could answer now: attic: vllm:8000: wants an API key."
    )


def test_no_model_in_the_house() -> None:
    assert refusals.unknown_model(Fleet({}), ModelName("m")) == (
        "No node holds the model 'm'; the models in this house are: none."
    )
