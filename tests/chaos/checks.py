"""Judges a run: the clients' records beside what the engines saw and what was done to the house.

A call is *lost* if its client saw an error that is not its own doing, though no byte of the
answer's body had come. There is always a second replica (see `plan`), so the only excuse is that
the call met as many real failures as it may have attempts (or two scripted 500s, which the rules
give the client): failures that its engines saw, and at most one for each node that was out of
order during its life. Such a call is counted as *spent*.

A generation is *double* if one call's answer was computed again after its client had some of it,
or after an engine had finished it, or at two engines at once; it is no double where the first was
cancelled (its engine saw a hang-up or failed by script) or its node was out of order.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tests.chaos.house import Outage
from tests.chaos.plan import NODES, Act
from tests.chaos.record import Record, Seen
from tests.chaos.witness import Visit

ATTEMPTS_LIMIT = 3
"""The default of `retry.attempts_limit`, with which the proxy runs."""
STARTING_S = 4.0
"""A started process listens after at most this, on a loaded machine."""
CANCEL_S = 2.0
"""An engine has seen our hang-up after this, on a loaded machine."""


@dataclass
class Verdict:
    """Calls by what is wrong about them, each as one line."""

    lost: list[str] = field(default_factory=list)
    spent: list[str] = field(default_factory=list)
    hung: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    doubles: list[str] = field(default_factory=list)
    again: int = 0
    """Generations begun again for good reason: the first was cancelled or went with its node."""

    def violations(self) -> list[str]:
        """What must be empty."""
        return [*self.lost, *self.hung, *self.wrong, *self.doubles]


def judge(records: Sequence[Record], visits: Iterable[Visit], outages: Sequence[Outage]) -> Verdict:
    """Judge every call of a run."""
    by_mark: Mapping[str, list[Visit]] = defaultdict(list)
    for visit in visits:
        by_mark[visit.mark].append(_with_end(visit, outages))
    verdict = Verdict()
    for record in records:
        seen_by = sorted(by_mark.get(record.plan.mark, []), key=lambda visit: visit.arrival_s)
        _judge_fate(record, seen_by, outages, verdict)
        _judge_answer(record, seen_by, outages, verdict)
        _judge_starts(record, [visit for visit in seen_by if visit.start_s], outages, verdict)
    return verdict


def _with_end(visit: Visit, outages: Sequence[Outage]) -> Visit:
    """A visit whose engine was killed ended with it."""
    if math.isinf(visit.end_s):
        kills = [
            outage.from_s
            for outage in outages
            if outage.node == visit.node and outage.act is Act.KILL and not outage.front
        ]
        visit.end_s = min((at_s for at_s in kills if at_s >= visit.arrival_s), default=math.inf)
    return visit


def _judge_fate(
    record: Record, seen_by: list[Visit], outages: Sequence[Outage], verdict: Verdict
) -> None:
    line = _line(record, seen_by)
    if record.seen is Seen.HUNG or not record.ended_s:
        verdict.hung.append(f"hung: {line}")
    elif record.seen is Seen.ERROR:
        failed = sum(visit.fate != "done" for visit in seen_by)
        errors = sum(visit.fault == "status" and visit.status == 500 for visit in seen_by)
        nearby = len(
            {each.node for each in outages if _during(each, record.began_s, record.ended_s)}
        )
        if errors >= 2 or failed + nearby >= ATTEMPTS_LIMIT:
            verdict.spent.append(f"spent: {line}")
        else:
            verdict.lost.append(f"lost: {line}; outages nearby: {nearby}")


def _judge_answer(
    record: Record, seen_by: list[Visit], outages: Sequence[Outage], verdict: Verdict
) -> None:
    line = _line(record, seen_by)
    if record.wrong:
        verdict.wrong.append(f"wrong answer: {record.wrong}: {line}")
    if record.seen is Seen.ANSWERED and record.body_sha256:
        hashes = {visit.body_sha256 for visit in seen_by if visit.fate == "done"}
        if record.body_sha256 not in hashes:
            verdict.wrong.append(f"not the bytes that an engine sent: {line}")
    if record.seen is Seen.BROKEN:
        faulty = any(visit.fate != "done" for visit in seen_by)
        out = any(_during(outage, record.began_s, record.ended_s) for outage in outages)
        if not faulty and not out:
            verdict.wrong.append(f"broken off though nothing had happened: {line}")


def _judge_starts(
    record: Record, starts: list[Visit], outages: Sequence[Outage], verdict: Verdict
) -> None:
    starts.sort(key=lambda visit: visit.start_s or 0.0)
    for first, second in pairwise(starts):
        at_s = second.start_s or 0.0
        if record.content_s is not None and at_s > record.content_s:
            verdict.doubles.append(f"begun again after content: {_line(record, starts)}")
            continue
        out = any(
            outage.node == first.node and _during(outage, first.arrival_s, at_s)
            for outage in outages
        )
        computed = first.fate == "done" or first.end_s > at_s + CANCEL_S
        if computed and not out and first.fault not in _UNSTOPPABLE:
            verdict.doubles.append(f"two generations of one call: {_line(record, starts)}")
        else:
            verdict.again += 1


_UNSTOPPABLE = ("keeps_computing_after_hangup",)


def _during(outage: Outage, from_s: float, until_s: float) -> bool:
    return outage.from_s <= until_s and from_s <= outage.until_s + STARTING_S


def _line(record: Record, seen_by: list[Visit]) -> str:
    plan = record.plan
    path = " ".join(
        f"[{NODES[visit.node].name} +{visit.arrival_s - record.began_s:.3f}"
        f"{'' if visit.start_s is None else f' start +{visit.start_s - record.began_s:.3f}'}"
        f" end +{visit.end_s - record.began_s:.3f} {visit.fate}"
        f"{f' {visit.fault}' if visit.fault else ''}]"
        for visit in seen_by
    )
    return (
        f"{plan.mark} {plan.api} {'stream' if plan.streamed else 'whole'} {plan.manner} "
        f"at {record.began_s:.2f} for {record.ended_s - record.began_s:.2f} s: {record.seen} "
        f"status={record.status} attempts={record.attempts} node={record.node} "
        f"detail={record.detail!r} engines: {path or 'none'}"
    )
