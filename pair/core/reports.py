"""What a node says of itself, as values.

A report is the node's word at one moment; the core decides how far to believe it (`load.py`). The
JSON form is in `pair/wire/node_report.py`; an engine without `pair` beside it gets its report from
`pair/engines`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from pair.core.names import EngineName, ModelName, NodeId


class ReplicaState(StrEnum):
    """Whether a replica can take a request now."""

    READY = "ready"
    LOADING = "loading"
    DOWN = "down"
    """The engine does not answer, though the node does."""
    NEEDS_KEY = "needs_key"
    """The engine answers 401 to a probe: it is up; the user must give its key, or the client."""


@dataclass(frozen=True, slots=True)
class ReplicaReport:
    """One model on one engine.

    Attributes:
        engine: unique on its node.
        engine_kind: `ollama`, `lmstudio`, `llamacpp`, `vllm`, `sglang` or `generic`.
        aliases: other names under which the engine takes the same model; never contains `model`.
        slots: requests the engine works on at a time, at least 1.
        running: requests the engine (or the node in front of it) works on now, from anybody; None
            where unknown.
        waiting: requests queued inside the engine; None where unknown.
        yours: those among them that came from the proxy that this is told to, and that it has not
            left; None where nobody tells proxies apart.
        resident: whether the model is in memory; None where the engine does not tell.
        context_tokens: the largest prompt plus answer for one request; None where unknown.
        cache_tokens: prompts that the engine keeps beyond those in its slots (llama.cpp's
            `cache_ram`), or in all where its slots share them (vLLM), in tokens; None where
            unknown.
        any_name: the engine takes any name, and none, for this model, the only one that it has.
    """

    engine: EngineName
    engine_kind: str
    model: ModelName
    aliases: frozenset[ModelName] = frozenset()
    state: ReplicaState = ReplicaState.READY
    slots: int = 1
    running: int | None = None
    waiting: int | None = None
    yours: int | None = None
    resident: bool | None = None
    context_tokens: int | None = None
    cache_tokens: int | None = None
    any_name: bool = False

    @property
    def counts(self) -> bool:
        """Whether it tells how many requests it works on."""
        return self.running is not None or self.waiting is not None

    @property
    def load(self) -> int:
        """What runs and waits there, from anybody; 0 where it does not tell."""
        return (self.running or 0) + (self.waiting or 0)


@dataclass(frozen=True, slots=True)
class NodeReport:
    """Everything one node says of itself at one moment.

    Attributes:
        node: the lasting id; the proxy drops a report whose id is not the one that it asked for.
        name: for people; not unique.
        version: of the `pair` that speaks, or "" for an engine without `pair`.
        draining: the node finishes what it has and wants nothing new.
        process: a mark that no other start of a node has, "" for an engine without `pair`.
        number: what had changed there by then, counted since the start of this process; of two
            reports of one process the one with the smaller number is the older. 0: not counted.
        warnings: sentences for `pair nodes`, such as a model list that could not be read.
    """

    node: NodeId
    name: str
    version: str = ""
    draining: bool = False
    replicas: tuple[ReplicaReport, ...] = ()
    warnings: tuple[str, ...] = field(default=())
    process: str = ""
    number: int = 0
