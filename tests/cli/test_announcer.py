from __future__ import annotations

import asyncio
from itertools import pairwise

from pair.cli.announcer import Line, Words, announce, changes, engine_words, node_words
from pair.core.names import EngineName, ModelName, NodeId, Phase
from pair.core.reports import NodeReport, ReplicaReport, ReplicaState
from pair.core.snapshot import NodeView, ReplicaView, Snapshot


def replica_view(model: str, slots: int, state: str = "ready") -> ReplicaView:
    return ReplicaView(
        model=ModelName(model),
        aliases=(),
        engine="vllm:8000",
        engine_kind="vllm",
        state=state,
        state_s=0.0,
        resident=None,
        context_tokens=None,
        slots=slots,
        in_flight=0,
        draining=0,
        foreign=0,
        queue_depth=0,
        served=0,
        failed=0,
        set_aside_s=0.0,
        unproven=False,
        set_aside_reason="",
    )


def node_view(name: str, phase: Phase, *replicas: ReplicaView, reason: str = "") -> NodeView:
    return NodeView(
        id=NodeId(f"id-{name}"),
        name=name,
        phase=phase,
        phase_s=0.0,
        reason=reason,
        addresses=(),
        fixed=False,
        version="",
        warnings=(),
        answered_s=None,
        replicas=replicas,
    )


def snapshot(*nodes: NodeView) -> Snapshot:
    return Snapshot(
        uptime_s=0.0,
        strategy="queue-depth",
        draining=False,
        waiting=0,
        waiting_limit=0,
        in_flight=0,
        opened=0,
        closed={},
        nodes=nodes,
        models=(),
    )


def same(words: str) -> Line:
    return Line(words, mark=words)


def test_a_line_for_what_is_new_different_or_gone() -> None:
    before = {"a": same("node attic: ready, tiny"), "b": same("node cellar: ready, tiny")}
    now = {"a": same("node attic: lost, no answer"), "c": same("node kitchen: ready, tiny")}
    assert changes(before, now) == [
        "node attic: lost, no answer",
        "node kitchen: ready, tiny",
        "node cellar is gone",
    ]
    assert changes(now, now) == []


def test_a_node_that_stays_off_is_told_once() -> None:
    looks = [
        node_words(snapshot(node_view("attic", phase, reason=f"missed {misses} probes")))
        for misses, phase in enumerate([Phase.SUSPECT, Phase.LOST, Phase.LOST, Phase.LOST], start=1)
    ]
    told = [changes(before, now) for before, now in pairwise([{}, *looks])]
    assert told == [
        ["node attic: suspect, missed 1 probes"],
        ["node attic: lost, missed 2 probes"],
        [],
        [],
    ]


def test_nodes_are_told_with_what_they_can_do_or_why_they_cannot() -> None:
    words = node_words(
        snapshot(
            node_view(
                "attic",
                Phase.READY,
                replica_view("tiny", 2),
                replica_view("big", 1),
                replica_view("cold", 1, state="loading"),
            ),
            node_view("cellar", Phase.READY),
            node_view("\x1b[2J", Phase.LOST, reason="3 probes missed"),
            node_view("rumour", Phase.SIGHTED),
        )
    )
    assert [line.words for line in words.values()] == [
        "node attic: ready, tiny (2 slots), big (1 slot)",
        "node cellar: ready, no model yet",
        "node �[2J: lost, 3 probes missed",
    ]


def test_engines_are_told_with_their_models() -> None:
    def replica(engine: str, model: str, state: ReplicaState) -> ReplicaReport:
        return ReplicaReport(EngineName(engine), engine[:4], ModelName(model), state=state, slots=3)

    report = NodeReport(
        NodeId("id"),
        "attic",
        replicas=(
            replica("ollama:11434", "tiny", ReplicaState.READY),
            replica("ollama:11434", "big", ReplicaState.LOADING),
            replica("vllm:8000", "tiny", ReplicaState.DOWN),
        ),
    )
    assert {name: line.words for name, line in engine_words(report).items()} == {
        "ollama:11434": "engine ollama:11434: tiny (3 slots), big (3 slots, loading)",
        "vllm:8000": "engine vllm:8000: tiny (3 slots, down)",
    }


async def test_it_says_each_change_once_until_it_is_cancelled() -> None:
    looks: list[Words] = [{"a": same("one")}, {"a": same("one")}, {"a": same("two")}]
    said: list[str] = []
    done = asyncio.Event()

    def look() -> Words:
        if not looks:
            done.set()
        return looks.pop(0) if looks else {"a": same("two")}

    async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
        telling = tasks.create_task(announce(look, said.append))
        await done.wait()
        telling.cancel()
    assert said == ["one", "two"]
