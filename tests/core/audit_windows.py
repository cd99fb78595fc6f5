"""What an onlooker can tell of room in context windows, at four characters a token."""

from __future__ import annotations

from collections.abc import Iterable

from pair.core.events import Opened
from pair.core.reports import NodeReport, ReplicaReport, ReplicaState


def has_room(opened: Opened, said: ReplicaReport, reports: Iterable[NodeReport | None]) -> bool:
    """Whether the prompt fits there, or on no engine of these reports that is not down. A pin is
    the user's own word.
    """
    tokens = opened.prompt.chars / 4
    if said.context_tokens is None or opened.pin is not None or tokens <= said.context_tokens:
        return True
    others = [
        other.context_tokens
        for report in reports
        if report is not None
        for other in report.replicas
        if opened.model in (other.model, *other.aliases)
        and other.state is not ReplicaState.DOWN
        # One that wants a key counts only where nobody without that wish holds the model.
        and (other.state is said.state or other.state is not ReplicaState.NEEDS_KEY)
    ]
    return all(window is not None and window <= said.context_tokens for window in others)
