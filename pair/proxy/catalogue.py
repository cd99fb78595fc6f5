"""The house's models from memory, for `/v1/models` and `/api/tags`: no node is asked, so no node
can delay the answer.
"""

from __future__ import annotations

from pair.core.names import ModelName
from pair.core.scheduler import Scheduler
from pair.wire.model_lists import ListedModel


def listed_models(scheduler: Scheduler) -> list[ListedModel]:
    """Every name that a client may use now, in order: those for which a ticket would wait. A model
    that is coming, or whose node is in doubt for a moment, is offered; one of a lost or leaving
    node, or of an engine that is down or wants a key, is not.
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
                )
            )
    return listed


def _own_name(name: ModelName, models: list[ModelName]) -> ModelName:
    """`name` itself if any node calls the model so; else the first of what nodes call it."""
    return name if name in models else min(models)
