"""The house's models from memory, for `/v1/models` and `/api/tags`: no node is asked, so no node
can delay the answer.
"""

from __future__ import annotations

from pair.core.names import ModelName, Phase
from pair.core.scheduler import Scheduler
from pair.wire.model_lists import ListedModel

_SHOWN_PHASES = frozenset({Phase.READY, Phase.LOADING, Phase.SUSPECT})
"""A model of a lost or leaving node is not offered; one that is coming, or in doubt for a moment,
is.
"""


def listed_models(scheduler: Scheduler) -> list[ListedModel]:
    """Every name that a client may use now, in order."""
    nodes = scheduler.membership.nodes
    listed = []
    for name in sorted(scheduler.fleet.names()):
        shown = [
            r for r in scheduler.fleet.holders(name) if nodes[r.id.node].phase in _SHOWN_PHASES
        ]
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
    """`name` itself if any node calls the model so; else what the first node calls it."""
    return name if name in models else min(models)
