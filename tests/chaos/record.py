"""What one call came to, as its client saw it: a value that the checks judge."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tests.chaos.plan import CallPlan


class Seen(StrEnum):
    """The one thing that a client saw of its call."""

    ANSWERED = "answered"
    """A whole answer with status 200; the checks say whether it was the right one."""
    BROKEN = "broken"
    """It broke off after some of the answer's body, and the client could tell."""
    ERROR = "error"
    """An error, or the connection's end, before any byte of the answer's body."""
    LEFT = "left"
    """The client itself left."""
    HUNG = "hung"
    """Nothing for `clients.PATIENCE_S`."""


@dataclass(slots=True)
class Record:
    """One call.

    Attributes:
        sent: the whole request went out.
        content_s: when the first byte of a 200's body came, None if none did.
        node, attempts: as the answer's headers say.
        body_sha256: of a whole body, transfer coding aside; empty where the client cannot tell.
        wrong: what is not right about the answer, in words.
    """

    plan: CallPlan
    began_s: float
    ended_s: float = 0.0
    sent: bool = False
    seen: Seen = Seen.ERROR
    status: int = 0
    content_s: float | None = None
    node: str = ""
    attempts: str = ""
    body_sha256: str = ""
    detail: str = ""
    wrong: str = ""
