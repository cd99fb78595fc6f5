"""What a failed attempt does to a replica's standing, across tickets, and how it comes back.

A ticket's own retries are the retry table's matter; this is about everybody else: a replica that
keeps failing is set aside for pauses that double, so that it does not eat one attempt of every
ticket. When a pause is over it gets one call, and the others only when that has begun to answer.
"""

from __future__ import annotations

from pair.core.events import Failure, FailureKind
from pair.core.limits import Limits
from pair.core.membership import Node
from pair.core.names import Phase
from pair.core.replica import Replica
from pair.core.retrying import RULES, Hurts

NOT_BROKEN = (FailureKind.BUSY, FailureKind.LOADING)
"""After these a replica has nothing to prove; full and loading end by themselves."""

FULL_PAUSE_LEAST_S = 0.01
"""So long a full replica gets nothing (s), whatever its node says meanwhile. Long enough on a LAN
for the probe that follows a refusal, after which no older word counts; too short to be an idle slot
that anybody would notice.
"""

DOUBLINGS_LIMIT = 16
"""Most doublings of a pause (a factor of 65,536): a replica that has failed for days must not
overflow a float, and `pause_limit_s` has cut the pause long before.
"""


def set_aside(
    replica: Replica, node: Node, failure: Failure, limits: Limits, now: float, *, granted_at: float
) -> None:
    """Lower the standing as the failure of a call deserves that began at `granted_at`."""
    hurts = RULES[failure.kind].hurts
    if hurts is Hurts.NODE:
        if node.phase is not Phase.LOST:
            node.enter(Phase.SUSPECT, failure.detail, now)
        return
    if hurts is Hurts.NOBODY:
        return
    replica.unproven = replica.unproven or failure.kind not in NOT_BROKEN
    if failure.kind is not FailureKind.BUSY:
        replica.full_at = None
    elif replica.full_at is not None or now >= replica.set_aside_until:
        replica.full_at = now
    if failure.kind is FailureKind.BUSY:
        # Full is not broken. It will say so itself when it has room; the pause only keeps us from
        # asking in a circle, also where it says "after 0 s".
        pause_s = min(max(failure.retry_after_s or 0.0, limits.busy_pause_s), limits.pause_s)
    elif failure.kind is FailureKind.LOADING:
        pause_s = limits.pause_s
    elif failure.retry_after_s is not None:
        pause_s = min(max(failure.retry_after_s, limits.pause_s), limits.pause_limit_s)
    else:
        # Calls that fall together tell of one mishap: only one that began after it doubles.
        if not replica.failures or granted_at > replica.failed_at:
            replica.failures += 1
            replica.failed_at = now
        doublings = min(replica.failures - 1, DOUBLINGS_LIMIT)
        pause_s = min(limits.pause_s * 2.0**doublings, limits.pause_limit_s)
        replica.given_up = replica.failures > 1 and pause_s > limits.hopeless_grace_s
    replica.set_aside_until = max(replica.set_aside_until, now + pause_s)
    replica.set_aside_reason = failure.detail


def made_room(replica: Replica, asked_at: float) -> None:
    """Its node's latest word was counted after `asked_at`: if that is since it was full, and it has
    room now, then the pause for being full is over. Never another one.
    """
    if replica.full_at is None or asked_at < replica.full_at or not replica.report.counts:
        return
    if replica.report.load < replica.report.slots:
        ends_at = replica.full_at + FULL_PAUSE_LEAST_S
        replica.set_aside_until = min(replica.set_aside_until, ends_at)


def opens_at(replica: Replica, limits: Limits, now: float) -> float | None:
    """When time alone may open it to tickets, None if it will not; takes out what has drained by
    the clock.
    """
    times = [replica.set_aside_until] if replica.set_aside_until > now else []
    if replica.draining:
        replica.draining.expire(now, limits.left_grace_s)
        expires_at = replica.draining.expires_at(limits.left_grace_s)
        if expires_at is not None:
            times.append(expires_at)
    return min(times, default=None)


def prove(replica: Replica) -> None:
    """It has begun to answer: it may have more than one call again."""
    replica.unproven = replica.given_up = False
    replica.trial = None


def restore(replica: Replica) -> None:
    """It has answered: whatever it did before is forgiven."""
    prove(replica)
    replica.failures = 0
    replica.set_aside_until = 0.0
    replica.set_aside_reason = ""
    replica.full_at = None
