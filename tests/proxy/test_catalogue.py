"""What is offered to clients: every name for which a ticket would wait, and no other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pair.core.events import DrainRequested, NodeReported, NodeSighted, ProbeMissed
from pair.core.names import NodeId
from pair.core.queue_depth import QueueDepth
from pair.core.reports import ReplicaReport, ReplicaState
from pair.core.scheduler import Scheduler
from pair.proxy.catalogue import listed_models
from pair.settings import Settings
from tests.core.house import replica, report


def scheduler(**nodes: tuple[ReplicaReport, ...]) -> Scheduler:
    """One with these nodes, all of which have answered."""
    built = Scheduler(Settings().limits(), QueueDepth(), 0.0)
    for name, replicas in nodes.items():
        built.handle(NodeSighted(NodeId(name), name, (f"http://{name}:1",)), 1.0)
        built.handle(NodeReported(NodeId(name), report(name, *replicas)), 1.0)
    return built


def offered(built: Scheduler) -> list[str]:
    return [listed.name for listed in listed_models(built)]


def behind(built: Scheduler, name: str) -> str:
    """The model that stands behind a name."""
    (model,) = [each.model for each in listed_models(built) if each.name == name]
    return model


def test_an_empty_house_offers_nothing() -> None:
    assert offered(scheduler()) == []


def test_names_and_aliases_are_offered_in_order_with_who_holds_them() -> None:
    small = replace(replica("qwen", aliases=("gpt-4o",)), context_tokens=4096)
    large = replace(replica("qwen"), context_tokens=8192)
    built = scheduler(a=(small, replica("llama")), b=(large,))
    listed = {str(each.name): each for each in listed_models(built)}
    assert list(listed) == ["gpt-4o", "llama", "qwen"]
    assert (listed["qwen"].nodes, listed["qwen"].context_tokens) == (2, 8192)
    assert (listed["gpt-4o"].nodes, listed["gpt-4o"].context_tokens) == (1, 4096)
    assert listed["llama"].context_tokens is None


def test_two_engines_of_one_node_are_one_node() -> None:
    built = scheduler(a=(replica("m", engine="ollama:1"), replica("m", engine="vllm:2")))
    assert [each.nodes for each in listed_models(built)] == [1]


def test_an_alias_says_what_stands_behind_it_unless_a_node_calls_its_model_so() -> None:
    built = scheduler(
        a=(replica("qwen-b", aliases=("x",)),), b=(replica("qwen-a", aliases=("x",)),)
    )
    assert behind(built, "x") == "qwen-a"
    built = scheduler(a=(replica("qwen", aliases=("x",)),), b=(replica("x"),))
    assert behind(built, "x") == "x"


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        (ReplicaState.READY, ["m"]),
        (ReplicaState.LOADING, ["m"]),
        (ReplicaState.DOWN, []),
        (ReplicaState.NEEDS_KEY, ["m"]),
    ],
)
def test_of_an_engine_only_what_can_answer_or_soon_can(
    state: ReplicaState, shown: list[str]
) -> None:
    assert offered(scheduler(a=(replica("m", state=state),))) == shown


def test_a_model_stays_while_its_node_is_in_doubt_and_goes_when_it_is_lost() -> None:
    built = scheduler(a=(replica("m"),))
    shown = []
    for _ in range(built.limits.misses_until_lost):
        shown.append(offered(built))
        built.handle(ProbeMissed(NodeId("a"), False, None, "no connection"), built.clock + 1.0)
    assert shown == [["m"]] * built.limits.misses_until_lost
    assert offered(built) == []


def test_a_node_that_is_being_drained_offers_nothing() -> None:
    built = scheduler(a=(replica("m"),), b=(replica("n"),))
    built.handle(DrainRequested(NodeId("a")), 2.0)
    assert offered(built) == ["n"]
