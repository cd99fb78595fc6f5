"""What follows a failed attempt: the retry table. Policy as rows, so that it can be read at a
glance and tested row by row.

The shell says what happened (`FailureKind`); this table says whether another node may try, whether
the try counts, and whom the failure hurts. Client errors (400, 401, 403, 413, 422) never get here:
they are answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from pair.core.events import FailureKind


class Hurts(Enum):
    """Whose standing a failure lowers."""

    NOBODY = auto()
    REPLICA = auto()
    """Set aside for a growing pause."""
    NODE = auto()
    """Suspect until it answers a probe."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One row.

    Attributes:
        again: the ticket may have another attempt.
        counts: the attempt counts against the attempts limit.
        avoid: the ticket goes to another node if any other could serve it.
        left: it was us who ended the attempt, so the engine may still compute.
        once_elsewhere: a second failure of this kind ends the ticket, and so does having no other
            node.
    """

    again: bool
    counts: bool
    avoid: bool
    hurts: Hurts
    once_elsewhere: bool = False
    left: bool = False


_ELSEWHERE = Rule(again=True, counts=True, avoid=True, hurts=Hurts.REPLICA)

RULES: dict[FailureKind, Rule] = {
    FailureKind.UNREACHABLE: Rule(again=True, counts=True, avoid=True, hurts=Hurts.NODE),
    FailureKind.RESET: _ELSEWHERE,
    # A full node has lost nothing and started nothing, so the ticket may come back to it and the
    # try is free.
    FailureKind.BUSY: Rule(again=True, counts=False, avoid=False, hurts=Hurts.REPLICA),
    FailureKind.LOADING: Rule(again=True, counts=False, avoid=False, hurts=Hurts.REPLICA),
    # It, too, has started nothing; it says when to come back.
    FailureKind.RATE_LIMITED: Rule(again=True, counts=False, avoid=False, hurts=Hurts.REPLICA),
    FailureKind.BAD_GATEWAY: _ELSEWHERE,
    FailureKind.NO_SUCH_MODEL: _ELSEWHERE,
    # An honest answer, which costs nothing: everybody is asked, each once.
    FailureKind.NOT_THERE: Rule(again=True, counts=False, avoid=True, hurts=Hurts.NOBODY),
    # A 500 is often the request's own doing: one other opinion, then the client gets the engine's
    # words.
    FailureKind.ENGINE_ERROR: Rule(
        again=True, counts=True, avoid=True, hurts=Hurts.NOBODY, once_elsewhere=True
    ),
    FailureKind.GARBLED: _ELSEWHERE,
    # The client has a part of the answer already; nothing may follow it.
    FailureKind.CUT: Rule(again=False, counts=True, avoid=False, hurts=Hurts.REPLICA),
    FailureKind.STALLED: Rule(
        again=False, counts=True, avoid=False, hurts=Hurts.REPLICA, left=True
    ),
}
