"""The scheduler's state at one moment, as values that nobody can change: what people and tools
look at.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pair.core.estimates import Estimates, LearnedReplica
from pair.core.membership import Node
from pair.core.names import ModelName, NodeId, Outcome, Phase
from pair.core.replica import Replica
from pair.core.scheduler import Scheduler

TWINS_S = 3600.0
"""For so long (s) two machines with one id are told of after they last took turns, which they do
when one is slow to answer or its record pushes the other's out.
"""

TWINS = (
    "two machines answer as this node and take turns, as after a copy of PAIR_HOME: delete the file"
    " node-id there on one of them and start it again"
)


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """One replica.

    Attributes:
        state_s: for how long it has been in its state.
        draining: slots on which it may still compute for clients that have left.
        set_aside_s: how long it still gets nothing, 0 if it may have tickets.
        unproven: it has failed and not answered since, so it gets one call at a time.
        set_aside_reason: why either, "" if neither.
        prefill_tokens_per_s, tpot_s, load_s: learned; None what is not. The TPOT is that with the
            fewest calls at once that were seen.
        prompt_tokens, cached_tokens, output_tokens: of its answers so far; cached ones are a part
            of the prompt's, None where its engine does not say.
    """

    model: ModelName
    aliases: tuple[ModelName, ...]
    engine: str
    engine_kind: str
    state: str
    state_s: float
    resident: bool | None
    context_tokens: int | None
    slots: int
    in_flight: int
    draining: int
    foreign: int
    queue_depth: int
    served: int
    failed: int
    set_aside_s: float
    unproven: bool
    set_aside_reason: str
    prefill_tokens_per_s: float | None = None
    tpot_s: float | None = None
    load_s: float | None = None
    prompt_tokens: int = 0
    cached_tokens: int | None = None
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node.

    Attributes:
        answered_s: the time since its last answer, None if it never gave one.
        missed_probes: in a row, up to now. One that is ready all the same works for us, and is
            chosen last.
    """

    id: NodeId
    name: str
    phase: Phase
    phase_s: float
    reason: str
    addresses: tuple[str, ...]
    fixed: bool
    version: str
    warnings: tuple[str, ...]
    answered_s: float | None
    replicas: tuple[ReplicaView, ...]
    missed_probes: int = 0


@dataclass(frozen=True, slots=True)
class ModelView:
    """One model over the house: the sums of its ready replicas, who waits for it under any of its
    names, and how its replicas are chosen for calls by its own name.
    """

    model: ModelName
    nodes: int
    slots: int
    in_flight: int
    waiting: int
    oldest_wait_s: float
    strategy: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything; durations in seconds.

    Attributes:
        strategies: of the models that have one of their own; all others have `strategy`.
    """

    uptime_s: float
    strategy: str
    draining: bool
    waiting: int
    waiting_limit: int
    in_flight: int
    opened: int
    closed: dict[Outcome, int]
    nodes: tuple[NodeView, ...]
    models: tuple[ModelView, ...]
    strategies: dict[ModelName, str] = field(default_factory=dict)


def take_snapshot(scheduler: Scheduler, now: float) -> Snapshot:
    """Copy the state; O(nodes * models)."""
    desk, matching = scheduler.desk, scheduler.matching
    estimates = matching.outlook.estimates
    return Snapshot(
        uptime_s=now - scheduler.started_at,
        strategy=matching.strategy.name,
        draining=desk.draining,
        waiting=len(desk.room),
        waiting_limit=scheduler.limits.waiting_limit,
        in_flight=desk.ledger.in_flight,
        opened=desk.opened_count,
        closed=dict(desk.closed_count),
        nodes=tuple(
            _node_view(node, estimates, now) for node in scheduler.membership.nodes.values()
        ),
        models=_model_views(scheduler, now),
        strategies={model: one.name for model, one in matching.strategies.items()},
    )


def _node_view(node: Node, estimates: Estimates, now: float) -> NodeView:
    twins = node.twins_at is not None and now - node.twins_at < TWINS_S
    return NodeView(
        id=node.id,
        name=node.name,
        phase=node.phase,
        phase_s=now - node.phase_since,
        reason=node.reason,
        addresses=node.addresses,
        fixed=node.fixed,
        version=node.version,
        warnings=(*node.warnings, TWINS) if twins else node.warnings,
        answered_s=None if node.answered_at is None else now - node.answered_at,
        replicas=tuple(
            _replica_view(replica, estimates.learned_of(replica.id), now)
            for replica in node.replicas.values()
        ),
        missed_probes=node.misses,
    )


def _replica_view(replica: Replica, learned: LearnedReplica | None, now: float) -> ReplicaView:
    aside_s = max(0.0, replica.set_aside_until - now)
    prefill = load = tpot = None
    if learned is not None:
        prefill, load = learned.prefill_tokens_per_s, learned.load_s
        tpot = learned.tpots_s[0][1] if learned.tpots_s else None
    return ReplicaView(
        model=replica.id.model,
        aliases=tuple(sorted(replica.report.aliases)),
        engine=replica.id.engine,
        engine_kind=replica.report.engine_kind,
        state=replica.report.state if replica.listed else "gone",
        state_s=now - replica.state_since,
        resident=replica.report.resident,
        context_tokens=replica.report.context_tokens,
        slots=replica.slots,
        in_flight=replica.in_flight,
        draining=len(replica.draining),
        foreign=replica.foreign,
        queue_depth=replica.queue_depth,
        served=replica.served,
        failed=replica.failed,
        set_aside_s=aside_s,
        unproven=replica.unproven,
        set_aside_reason=replica.set_aside_reason if aside_s > 0 or replica.unproven else "",
        prefill_tokens_per_s=None if prefill is None else prefill.value,
        tpot_s=None if tpot is None else tpot.value,
        load_s=None if load is None else load.value,
        prompt_tokens=replica.tokens.prompt,
        cached_tokens=replica.tokens.cached,
        output_tokens=replica.tokens.output,
    )


def _model_views(scheduler: Scheduler, now: float) -> tuple[ModelView, ...]:
    fleet, room = scheduler.fleet, scheduler.desk.room
    replicas: dict[ModelName, list[Replica]] = {}
    names: dict[ModelName, set[ModelName]] = {}
    for replica in fleet.everyone():
        replicas.setdefault(replica.id.model, []).append(replica)
        names.setdefault(replica.id.model, set()).update(fleet.names_of(replica))
    for name in room.names():
        if not fleet.holders(name):
            names.setdefault(name, {name})
    views = []
    for model in sorted(names):
        ready = [replica for replica in replicas.get(model, ()) if fleet.ready(replica)]
        lines = [line for name in names[model] if (line := room.line(name)) is not None]
        since = [head.opened_at for line in lines if (head := line.oldest()) is not None]
        views.append(
            ModelView(
                model=model,
                nodes=len({replica.id.node for replica in ready}),
                slots=sum(replica.slots for replica in ready),
                in_flight=sum(replica.in_flight for replica in ready),
                waiting=sum(len(line) for line in lines),
                oldest_wait_s=now - min(since) if since else 0.0,
                strategy=scheduler.matching.strategy_of(model).name,
            )
        )
    return tuple(views)
