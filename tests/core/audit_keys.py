"""Who may go to an engine whose key `pair` does not have, by the words of DESIGN.md."""

from __future__ import annotations

from collections.abc import Iterable

from pair.core.events import Opened
from pair.core.reports import NodeReport, ReplicaReport, ReplicaState


def takes(opened: Opened, said: ReplicaReport, reports: Iterable[NodeReport | None]) -> bool:
    """Whether a replica that says this of itself may have the ticket, and be it for its key."""
    if said.state is not ReplicaState.NEEDS_KEY:
        return said.state is ReplicaState.READY
    held_openly = any(
        other.state is not ReplicaState.NEEDS_KEY
        and opened.model in (None, other.model, *other.aliases)
        for report in reports
        for other in (() if report is None else report.replicas)
    )
    return opened.brings_key and not held_openly
