"""A pin means a node by its id before its name, however the house fills up meanwhile."""

from __future__ import annotations

from pair.core.decisions import Dispatch
from pair.core.events import NodeReported, NodeSighted, Opened
from pair.core.names import EngineName, ModelName, NodeId, TicketId
from pair.core.reports import NodeReport, ReplicaReport
from pair.core.scheduler import Scheduler
from pair.core.strategies import QueueDepth
from pair.settings import Settings


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
