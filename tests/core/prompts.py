"""Prompts made of blocks, and replicas to keep them, for the tests of what is cached where."""

from __future__ import annotations

from pair.core.names import EngineName, ModelName, NodeId, ReplicaId
from pair.core.prompt import Prompt, block_end
from pair.core.replica import Replica
from pair.core.reports import ReplicaReport

BLOCK = block_end(1)
"""Characters of a block of a short prompt."""


def prompt(*blocks: object, more: int = 0) -> Prompt:
    """A prompt of these blocks, each chained to those before it, and some characters more."""
    chained = tuple(hash(blocks[: at + 1]) for at in range(len(blocks)))
    return Prompt(block_end(len(blocks)) + more, chained)


def talk(name: object, turns: int, *, size: int = 8) -> Prompt:
    """A conversation after so many turns, each of some blocks."""
    return prompt(*((name, at) for at in range(turns * size)))


def a_replica(
    name: str = "n",
    *,
    kind: str = "ollama",
    slots: int = 1,
    cache_chars: int | None = None,
    ours: int = 0,
) -> Replica:
    """One that says how much it keeps beside its slots, or (None) does not say."""
    report = ReplicaReport(
        EngineName("e"),
        kind,
        ModelName("m"),
        slots=slots,
        cache_tokens=None if cache_chars is None else cache_chars // 4,
    )
    replica = Replica(ReplicaId(NodeId(name), report.engine, report.model), name, report)
    replica.in_flight = ours
    return replica
