"""What a failed attempt does to a replica's standing, across tickets, and how it comes back.

A ticket's own retries are the retry table's matter; this is about everybody else: a replica that
keeps failing is set aside for pauses that double, so that it does not eat one attempt of every
ticket, and returns by itself.
"""

from __future__ import annotations

from pair.core.events import Failure, FailureKind
from pair.core.limits import Limits
from pair.core.membership import Node
from pair.core.names import Phase
from pair.core.replica import Replica
from pair.core.retrying import RULES, Hurts

DOUBLINGS_LIMIT = 16
"""Most doublings of a pause (a factor of 65,536): a replica that has failed for days must not
overflow a float, and `pause_limit_s` has cut the pause long before.
"""


def set_aside(
    replica: Replica, node: Node, failure: Failure, limits: Limits, now: float
) -> float | None:
    """Lower the standing as the failure deserves; returns when the replica may have tickets again,
    None if it may now.
    """
    hurts = RULES[failure.kind].hurts
    if hurts is Hurts.NODE:
        if node.phase is not Phase.LOST:
            node.enter(Phase.SUSPECT, failure.detail, now)
        return None
    if hurts is Hurts.NOBODY:
        return None
    if failure.kind is FailureKind.BUSY:
        # Full is not broken. It will say so itself when it has room; the pause only keeps us from
        # asking in a circle, also where it says "after 0 s".
        pause_s = min(max(failure.retry_after_s or 0.0, limits.busy_pause_s), limits.pause_s)
    elif failure.kind is FailureKind.LOADING:
        pause_s = limits.pause_s
    elif failure.retry_after_s is not None:
        pause_s = min(max(failure.retry_after_s, limits.pause_s), limits.pause_limit_s)
    else:
        replica.failures += 1
        doublings = min(replica.failures - 1, DOUBLINGS_LIMIT)
        pause_s = min(limits.pause_s * 2.0**doublings, limits.pause_limit_s)
    replica.set_aside_until = max(replica.set_aside_until, now + pause_s)
    replica.set_aside_reason = failure.detail
    return replica.set_aside_until


def restore(replica: Replica) -> None:
    """It has answered: whatever it did before is forgiven."""
    replica.failures = 0
    replica.set_aside_until = 0.0
    replica.set_aside_reason = ""
