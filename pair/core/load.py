"""How much of a reported load is ours and how much is foreign.

Kept apart because it is the one place where two clocks meet: the node counted at some moment
between our asking and its answer, and our own count moved meanwhile. Load must be counted once: a
report's running count includes our own calls.
"""

from __future__ import annotations

from pair.core.replica import Replica
from pair.core.reports import ReplicaReport


def take_report(replica: Replica, report: ReplicaReport, *, asked_at: float, now: float) -> None:
    """Let the replica believe its node's latest word, which was asked for at `asked_at`.

    foreign = max(0, running + waiting - ours), with ours = the most that we had there since the
    report before. The peak and not the present count, because a call of ours that ended a moment
    ago may still be in the node's number: taking it for foreign would leave a free slot unused for
    a whole probe interval, while the opposite mistake costs one refusal. An engine that does not
    count says nothing about foreign work: 0.
    """
    if report.state is not replica.report.state:
        replica.state_since = now
    replica.report = report
    replica.listed = True
    replica.foreign = max(0, report.load - replica.peak_ours)
    if report.counts:
        replica.draining.seen(report.load - replica.in_flight, asked_at)
    replica.peak_ours = replica.ours


def discount_refused(replica: Replica) -> None:
    """A call of ours was turned away because the node is full: the node never counted it, so it
    must not hide a foreign one in the next report. To be called after its lease is settled.
    """
    replica.peak_ours = max(replica.ours, replica.peak_ours - 1)


def forget_calls(replica: Replica) -> None:
    """Its node is lost, and all of ours with it: should something of it run on when the node comes
    back, then the node's own count shows it, as foreign work. To be called after its leases are
    settled.
    """
    replica.draining.clear()
    replica.peak_ours = replica.ours


def forget_report(replica: Replica) -> None:
    """The node has not answered: what it said of foreign work is out of date, and unknown counts
    as none.
    """
    replica.foreign = 0
