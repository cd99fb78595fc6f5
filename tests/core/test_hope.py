"""Who waits in vain: a pin means an id before a name; a grace is set once and ended by hope."""

from __future__ import annotations

from pair.core.decisions import Dispatch
from pair.core.events import FailureKind, NodeReported, NodeSighted, Opened
from pair.core.names import EngineName, ModelName, NodeId, Phase, TicketId
from pair.core.queue_depth import QueueDepth
from pair.core.reports import NodeReport, ReplicaReport, ReplicaState
from pair.core.scheduler import Scheduler
from pair.settings import Settings
from tests.core.house import replica, report
from tests.core.story import Story, answered, call, comes, drains, failed, refused, says

KEYED = replica(state=ReplicaState.NEEDS_KEY)


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


def test_an_engine_whose_key_we_lack_serves_who_brings_one_and_the_others_are_told() -> None:
    story = Story("").sees(comes("a", says=report("a", KEYED))).at(4.0)
    story.sees(call(1, key=True), call(2), call(3, key=True))
    story.expects("1 to a", "2 refused: no_node").sees(refused(2))
    assert "a: its engine wants an API key; name one with key_env or key_file" in story.detail(2)
    story.sees(answered(1)).expects("3 to a").sees(answered(3))
    story.sees(call(4, light=True), call(5, light=True, key=True))
    story.expects("4 refused: no_node", "5 to a").sees(refused(4), answered(5))
    story.sees(call(6, pin="a", key=True), call(7, pin="a"))
    story.expects("6 to a", "7 refused: no_node").sees(answered(6), refused(7)).ends()


def test_a_key_draws_nothing_away_from_who_needs_none_be_that_one_busy_or_lost() -> None:
    story = Story("b").sees(comes("a", says=report("a", KEYED))).at(4.0)
    story.sees(call(1, key=True), call(2, key=True)).expects("1 to b").at(9.0).expects()
    story.sees(answered(1)).expects("2 to b").sees(answered(2))
    story.house.words.pop(NodeId("b"))
    story.at(60.0).finds("b", Phase.LOST).sees(call(3, key=True)).at(61.0).expects()
    story.sees(comes("b")).at(70.0).expects("3 to b").sees(answered(3)).ends()


def test_once_nobody_serves_without_a_key_those_who_brought_one_go_on() -> None:
    story = Story("ab").at(4.0).sees(call(1), call(2), call(3), call(4, key=True))
    story.expects("1 to a", "2 to b").sees(says("a", report("a", KEYED))).expects()
    story.sees(answered(1)).at(5.0).expects()
    story.sees(says("b", report("b", replica("other"))))
    story.expects("3 refused: no_node", "4 to a").sees(answered(2), refused(3), answered(4)).ends()


def test_a_call_that_failed_while_its_model_was_locked_away_is_told() -> None:
    story = Story("a").at(4.0).sees(call(1)).expects("1 to a")
    story.sees(says("a", report("a", KEYED))).expects()
    story.sees(failed(1, FailureKind.BUSY)).expects("1 refused: no_node").sees(refused(1)).ends()


def test_just_after_the_start_somebody_may_yet_be_found_who_needs_no_key() -> None:
    story = Story("", start_grace_s=3.0).sees(comes("a", says=report("a", KEYED))).at(0.5)
    story.sees(call(1, key=True), call(2)).at(1.0).expects().sees(comes("b")).at(1.1)
    story.expects("1 to b").sees(answered(1)).expects("2 to b").sees(answered(2)).ends()
    story = Story("", start_grace_s=3.0).sees(comes("a", says=report("a", KEYED))).at(0.5)
    story.sees(call(1), call(2, key=True)).at(2.9).expects()
    story.at(3.1).expects("1 refused: no_node", "2 to a").sees(refused(1), answered(2)).ends()
