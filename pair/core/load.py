"""How much of a reported load is ours and how much is foreign.

Kept apart because it is the one place where two clocks meet: the node counted at some moment
between our asking and its answer, and our own count moved meanwhile. Load must be counted once: a
report's running count includes our own calls.
"""

from __future__ import annotations

from pair.core.replica import Replica
from pair.core.reports import ReplicaReport


def take_report(replica: Replica, report: ReplicaReport) -> None:
    """Let the replica believe its node's latest word.

    foreign = max(0, running + waiting - ours), with ours = the most that we had there since the
    report before. The peak and not the present count, because a call of ours that ended a moment
    ago may still be in the node's number: taking it for foreign would leave a free slot unused for
    a whole probe interval, while the opposite mistake costs one refusal. An engine that does not
    count says nothing about foreign work: 0.
    """
    replica.report = report
    replica.listed = True
    reported = (report.running or 0) + (report.waiting or 0)
    replica.foreign = max(0, reported - replica.peak_in_flight)
    replica.peak_in_flight = replica.in_flight


def discount_refused(replica: Replica) -> None:
    """A call of ours was turned away because the node is full: the node never counted it, so it
    must not hide a foreign one in the next report. To be called after its lease is settled.
    """
    replica.peak_in_flight = max(replica.in_flight, replica.peak_in_flight - 1)


def forget_report(replica: Replica) -> None:
    """The node has not answered: what it said of foreign work is out of date, and unknown counts
    as none.
    """
    replica.foreign = 0
