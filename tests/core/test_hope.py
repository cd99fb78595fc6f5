"""Who waits in vain: a pin means an id before a name; a grace is set once and ended by hope."""

from __future__ import annotations

from pair.core.decisions import Dispatch
from pair.core.events import NodeReported, NodeSighted, Opened
from pair.core.names import EngineName, ModelName, NodeId, TicketId
from pair.core.reports import NodeReport, ReplicaReport
from pair.core.scheduler import Scheduler
from pair.core.strategies import QueueDepth
from pair.settings import Settings
from tests.core.house import replica, report
from tests.core.story import Story, answered, call, comes, drains, refused, says


def test_a_node_of_that_id_goes_before_one_of_that_name() -> None:
    scheduler = Scheduler(Settings().limits(), QueueDepth(), 0.0)
    scheduler.handle(NodeSighted(NodeId("b"), "a", ("http://b",)), 0.0)
    scheduler.handle(Opened(TicketId(1), ModelName("m"), pin="a"), 0.1)
    scheduler.handle(NodeSighted(NodeId("a"), "attic", ("http://a",)), 0.2)
    holds = ReplicaReport(EngineName("e"), "llamacpp", ModelName("m"))
    report = NodeReport(NodeId("a"), "attic", "0.1.0", replicas=(holds,))
    decisions = scheduler.handle(NodeReported(NodeId("a"), report), 0.3)
    (dispatch,) = [each for each in decisions if isinstance(each, Dispatch)]
    assert dispatch.replica.node == "a"


def test_a_grace_runs_from_the_first_who_waits_and_ends_when_hope_comes() -> None:
    story = Story("a", hopeless_grace_s=5.0).at(1.0).sees(drains("a"), call(1)).at(4.0)
    story.sees(call(2)).at(5.9).expects().at(6.1)
    story.expects("1 refused: no_node", "2 refused: no_node").sees(refused(1), refused(2))
    story.sees(call(3)).at(8.0).sees(comes("b")).at(8.1).expects("3 to b").at(20.0).expects()
    story.sees(answered(3)).ends()


def test_a_model_that_nobody_ever_held_is_hoped_for_only_after_the_start() -> None:
    story = Story("a", start_grace_s=3.0).at(1.0).sees(call(1, "n")).at(2.9).expects()
    story.at(3.1).expects("1 refused: unknown_model").sees(refused(1))
    story.sees(call(2, "n")).expects("2 refused: unknown_model").sees(refused(2))
    story.sees(says("a", report("a", replica("n"))), call(3, "n")).expects("3 to a")
    story.sees(answered(3)).ends()


def test_who_came_before_any_node_had_answered_may_have_meant_the_only_model() -> None:
    story = Story("", start_grace_s=3.0).sees(call(1, "gpt-9"), call(2, ""), call(3))
    only = report("a", replica(slots=3, any_name=True))
    story.sees(comes("a", says=only)).at(0.1).expects("1 to a", "2 to a", "3 to a")
    story.sees(answered(1), answered(2), answered(3)).ends()


def test_without_a_name_two_models_are_one_too_many() -> None:
    story = Story("", start_grace_s=3.0).sees(call(1, ""))
    two = report("a", replica(any_name=True), replica("n", any_name=True))
    story.sees(comes("a", says=two)).at(3.1).expects("1 refused: no_model_named")
    assert story.detail(1) == "The request names no model; the models in this house are: m, n."
    story.sees(refused(1)).ends()


def test_without_a_name_nobody_at_all_is_no_node() -> None:
    story = Story("", start_grace_s=3.0).sees(call(1, "")).at(3.1).expects("1 refused: no_node")
    assert story.detail(1) == "No node has been found."
    story.sees(refused(1)).ends()
