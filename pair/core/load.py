"""How much of a reported load is ours and how much is foreign.

Kept apart because it is the one place where two clocks meet: the node counted at some moment
before we read it, and our own count moved meanwhile. Load must be counted once: a report's running
count includes our own calls. A node that knows whose call is whose says how many of them it has
counted, and then the two clocks do not matter: the difference of two counts of one moment is what
is foreign, whether our newest call had got there by then, or our latest had ended.
"""

from __future__ import annotations

from pair.core.replica import Replica
from pair.core.reports import ReplicaReport


def take_report(replica: Replica, report: ReplicaReport, *, asked_at: float, now: float) -> None:
    """Let the replica believe its node's latest word, which was asked for at `asked_at`.

    foreign = max(0, running + waiting - yours), less the calls that we have left: those the node no
    longer takes for ours, and we count them. They are in doubt until it is asked (`Draining`), so
    they hide foreign work for that long, which costs one refusal at the most.

    Of a node that does not say what is ours, ours = the most that we had there since the report
    before. The peak and not the present count, because a call of ours that ended a moment ago may
    still be in the node's number: taking it for foreign would leave a free slot unused for a whole
    probe interval, while the opposite mistake costs one refusal. An engine that does not count says
    nothing about foreign work: 0.
    """
    if report.state is not replica.report.state:
        replica.state_since = now
    replica.report = report
    replica.listed = True
    ours = replica.in_flight if report.yours is None else report.yours
    if report.yours is None:
        replica.foreign = max(0, report.load - replica.peak_ours)
    if report.counts:
        replica.draining.seen(report.load - ours, asked_at)
    if report.yours is not None:
        replica.foreign = max(0, report.load - report.yours - len(replica.draining))
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
