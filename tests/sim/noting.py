"""An audited scheduler whose events can be looked at, for tests of the simulated house."""

from __future__ import annotations

from typing import TypeVar

from pair.core.events import Event
from tests.core.audit import AuditedScheduler

Kind = TypeVar("Kind", bound=Event)


def seen(scheduler: AuditedScheduler, kind: type[Kind]) -> list[tuple[float, Kind]]:
    """The events of one kind that it was fed, with their times."""
    return [(now, event) for event, now, _ in scheduler.log if isinstance(event, kind)]
