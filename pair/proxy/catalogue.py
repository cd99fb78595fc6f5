"""The house's models from memory, for every list of them that clients ask for: no node is asked, so
no node can delay the answer.
"""

from __future__ import annotations

from pair.core.names import ModelName
from pair.core.scheduler import Scheduler
from pair.wire.model_lists import ListedModel, LoadedModel


def listed_models(scheduler: Scheduler) -> list[ListedModel]:
    """Every name that a client may use now, in order: those for which a ticket would wait. A model
    that is coming, or whose node is in doubt for a moment, or that all engines serve only to who
    brings a key, is offered; one of a lost or leaving node, or of an engine that is down, is not.
    """
    fleet = scheduler.fleet
    listed = []
    for name in sorted(fleet.names()):
        shown = [replica for replica in fleet.holders(name) if fleet.hopeful(replica)]
        if shown:
            windows = [
                r.report.context_tokens for r in shown if r.report.context_tokens is not None
            ]
            listed.append(
                ListedModel(
                    name=name,
                    model=_own_name(name, [r.id.model for r in shown]),
                    nodes=len({r.id.node for r in shown}),
                    context_tokens=max(windows, default=None),
                    resident=any(r.report.resident for r in shown),
                )
            )
    return listed


def loaded_models(scheduler: Scheduler) -> list[LoadedModel]:
    """Every model that is in the memory of a node whose engine tells so, in order."""
    fleet, nodes = scheduler.fleet, scheduler.membership.nodes
    loaded = [
        LoadedModel(replica.id.model, nodes[replica.id.node].name, replica.report.context_tokens)
        for replica in fleet.everyone()
        if replica.report.resident and fleet.hopeful(replica)
    ]
    return sorted(loaded, key=lambda each: (each.model, each.node))


def any_of_kind(scheduler: Scheduler, kind: str) -> bool:
    """Whether an engine of this kind is in the house."""
    fleet = scheduler.fleet
    return any(r.report.engine_kind == kind and fleet.hopeful(r) for r in fleet.everyone())


def _own_name(name: ModelName, models: list[ModelName]) -> ModelName:
    """`name` itself if any node calls the model so; else the first of what nodes call it."""
    return name if name in models else min(models)
