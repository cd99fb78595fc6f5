"""Telling on stdout what a running proxy or node has found and lost: a line a change.

For people and journals alike: what was found is the first question after a start, and what went
away the first one after trouble. It looks instead of being called, so that the parts which find
nodes and engines know nothing of a terminal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pair.core.reports import NodeReport, ReplicaState
from pair.core.snapshot import NodeView, Snapshot
from pair.terminal.figures import plain, several

LOOK_S: Final = 0.5
"""Between two looks; a person waits for the first line after a start."""


@dataclass(frozen=True, slots=True)
class Line:
    """What there is to say of one thing.

    Attributes:
        words: the line as printed.
        mark: what must differ for a new line; the words themselves may hold a count that grows.
    """

    words: str = field(compare=False)
    mark: str


Words = Mapping[str, Line]
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
    told = [line.words for key, line in now.items() if before.get(key) != line]
    lost = (line.words for key, line in before.items() if key not in now)
    gone = [f"{words.partition(':')[0]} is gone" for words in lost]
    return [*told, *gone]


def node_words(snapshot: Snapshot) -> Words:
    """What a proxy says of its nodes; one that has only been sighted is not worth a line yet."""
    return {node.id: _of_node(node) for node in snapshot.nodes if node.phase != "sighted"}


def _of_node(node: NodeView) -> Line:
    subject = f"node {plain(node.name)}: {node.phase}"
    if node.phase != "ready":
        # Each probe that a lost node misses changes the reason, for as long as it is off.
        return Line(f"{subject}, {plain(node.reason)}", mark=subject)
    models = [
        f"{plain(replica.model)} ({several(replica.slots, 'slot')})"
        for replica in node.replicas
        if replica.state == "ready"
    ]
    words = f"{subject}, {', '.join(models) or 'no model yet'}"
    return Line(words, mark=words)


def engine_words(report: NodeReport) -> Words:
    """What a node says of its engines."""
    engines: dict[str, list[str]] = {}
    for replica in report.replicas:
        state = "" if replica.state is ReplicaState.READY else f", {replica.state}"
        words = f"{plain(replica.model)} ({several(replica.slots, 'slot')}{state})"
        engines.setdefault(replica.engine, []).append(words)
    lines = {name: f"engine {plain(name)}: {', '.join(each)}" for name, each in engines.items()}
    return {name: Line(words, mark=words) for name, words in lines.items()}
