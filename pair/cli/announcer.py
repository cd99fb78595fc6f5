"""Telling on stdout what a running proxy or node has found and lost: a line a change.

For people and journals alike: what was found is the first question after a start, and what went
away the first one after trouble. It looks instead of being called, so that the parts which find
nodes and engines know nothing of a terminal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from pair.core.reports import NodeReport, ReplicaState
from pair.core.snapshot import NodeView, Snapshot
from pair.terminal.figures import plain, several

LOOK_S: Final = 0.5
"""Between two looks; a person waits for the first line after a start."""

Words = Mapping[str, str]
"""What there is to say of each thing, by its lasting key."""


async def announce(look: Callable[[], Words], say: Callable[[str], None]) -> None:
    """Say what changed since the last look, until cancelled."""
    before: Words = {}
    while True:
        now = look()
        for line in changes(before, now):
            say(line)
        before = now
        await asyncio.sleep(LOOK_S)


def changes(before: Words, now: Words) -> list[str]:
    """The lines for everything that is new, different or gone."""
    told = [words for key, words in now.items() if before.get(key) != words]
    gone = [f"{words.partition(':')[0]} is gone" for key, words in before.items() if key not in now]
    return [*told, *gone]


def node_words(snapshot: Snapshot) -> Words:
    """What a proxy says of its nodes; one that has only been sighted is not worth a line yet."""
    return {node.id: _of_node(node) for node in snapshot.nodes if node.phase != "sighted"}


def _of_node(node: NodeView) -> str:
    subject = f"node {plain(node.name)}: {node.phase}"
    if node.phase != "ready":
        return f"{subject}, {plain(node.reason)}"
    models = [
        f"{plain(replica.model)} ({several(replica.slots, 'slot')})"
        for replica in node.replicas
        if replica.state == "ready"
    ]
    return f"{subject}, {', '.join(models) or 'no model yet'}"


def engine_words(report: NodeReport) -> Words:
    """What a node says of its engines."""
    engines: dict[str, list[str]] = {}
    for replica in report.replicas:
        state = "" if replica.state is ReplicaState.READY else f", {replica.state}"
        words = f"{plain(replica.model)} ({several(replica.slots, 'slot')}{state})"
        engines.setdefault(replica.engine, []).append(words)
    return {name: f"engine {plain(name)}: {', '.join(models)}" for name, models in engines.items()}
