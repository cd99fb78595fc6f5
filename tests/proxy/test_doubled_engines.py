from __future__ import annotations

import pytest

from pair.core.events import NodeReported, NodeSighted
from pair.core.names import NodeId
from pair.core.queue_depth import QueueDepth
from pair.core.scheduler import Scheduler
from pair.core.snapshot import take_snapshot
from pair.proxy.doubled_engines import with_doubles
from pair.settings import Settings
from tests.core.house import replica, report


def warnings(node_url: str, engine: str, named: str) -> dict[str, tuple[str, ...]]:
    """By id, of a house with a node `n` and an engine that the user named by its URL."""
    scheduler = Scheduler(Settings().limits(), QueueDepth(), 0.0)
    node, bare = NodeId("n"), NodeId(named)
    scheduler.handle(NodeSighted(node, "attic", (node_url,)), 0.0)
    scheduler.handle(NodeSighted(bare, "mine", (named,), fixed=True), 0.0)
    scheduler.handle(NodeReported(node, report("n", replica(engine=engine), name="attic")), 0.0)
    said = report(named, replica(engine=engine), version="", name="")
    scheduler.handle(NodeReported(bare, said), 0.0)
    return {one.id: one.warnings for one in with_doubles(take_snapshot(scheduler, 0.0)).nodes}


@pytest.mark.parametrize(
    ("node_url", "engine", "named"),
    [
        ("http://10.0.0.5:7248", "ollama:11434", "http://10.0.0.5:11434"),
        ("http://10.0.0.5:7248", "ollama:11434", "http://10.0.0.5:11434/"),
        ("http://127.0.0.1:7248", "llamacpp:8080/x", "http://localhost:8080/x"),
        ("http://10.0.0.5:7248", "vllm:10.0.0.9:8000", "http://10.0.0.9:8000"),
        ("http://10.0.0.5:7248", "vllm:fe80::9:8000", "http://[fe80::9]:8000"),
        ("http://10.0.0.5:7248", "generic:80", "http://10.0.0.5"),
    ],
)
def test_an_engine_that_stands_in_the_house_twice_is_told(
    node_url: str, engine: str, named: str
) -> None:
    found = warnings(node_url, engine, named)
    assert found["n"] == ()
    (words,) = found[named]
    assert words.startswith("node attic has this engine, too")


@pytest.mark.parametrize(
    ("node_url", "engine", "named"),
    [
        ("http://10.0.0.5:7248", "ollama:11434", "http://10.0.0.6:11434"),
        ("http://10.0.0.5:7248", "ollama:11434", "http://10.0.0.5:11435"),
        ("http://10.0.0.5:7248", "llamacpp:8080/x", "http://10.0.0.5:8080"),
        ("http://10.0.0.5:7248", "vllm:10.0.0.9:8000", "http://10.0.0.5:8000"),
        ("http://10.0.0.5:7248", "embedded", "http://10.0.0.5:7248"),
    ],
)
def test_different_engines_are_not(node_url: str, engine: str, named: str) -> None:
    assert set(warnings(node_url, engine, named).values()) == {()}
