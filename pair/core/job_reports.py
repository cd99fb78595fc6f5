"""A job's achieved speed-up against what the waves allow.

Achieved = T_baseline / makespan. The baseline is one node alone: measured if the job `NAME/alone`
ran, else predicted from the service times seen in the job itself, and the report says which.
Sum-of-durations over wall time is not used: queueing inside a node stretches durations, so that
quotient over-reports.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, median

from pair.core.jobs import CLOCK_STEP_S, Call, Job
from pair.core.names import NodeId, Outcome
from pair.core.speeds import Speed
from pair.core.waves import Lane, alone_s, makespan_bound_s, makespan_floor_s, wave_count

NO_SPEEDS: Mapping[NodeId, Speed] = {}

EQUAL_CALLS = 1.25
"""Calls are equal if the longest exceeds the shortest by no more than this ratio: in output tokens
where all are known, else in time on each node. Tokens go first because a machine that is busy with
other things stretches times.
"""

NODE_NOISE = 0.15
"""Share of its median by which a node's call times are taken to scatter at least: two or three
calls a node may agree by chance, and machines do other things besides. So two nodes within about
30% of each other are always equal; between such nodes the number of waves rarely differs.
"""


@dataclass(frozen=True, slots=True)
class NodeShare:
    """One node's part in a job; `service_s` is the median of its answered calls, None without
    one.
    """

    node: NodeId
    name: str
    slots: int
    calls: int
    service_s: float | None


@dataclass(frozen=True, slots=True)
class JobReport:
    """What `pair jobs` shows; None where something is not known (yet).

    Attributes:
        makespan_s: first accept to last answer, less the time with no call open.
        limit: the most that waves of whole calls allow over the baseline node alone.
        baseline: "measured" or "predicted".
        fastest_alone: the same of `fastest_alone_s`, the smaller of the two: predicted from calls
            that had company, a node alone looks slower than it is.
        note: why a figure is missing or how it is to be read, "" if there is nothing to say.
    """

    makespan_s: float | None
    waves: int | None
    limit: float | None
    achieved: float | None
    efficiency: float | None
    baseline: str | None
    baseline_s: float | None
    baseline_node: NodeId | None
    fastest_alone: str | None
    fastest_alone_s: float | None
    fastest_alone_node: NodeId | None
    nodes: tuple[NodeShare, ...]
    note: str


def job_report(
    job: Job, baseline: Job | None, now: float, speeds: Mapping[NodeId, Speed] = NO_SPEEDS
) -> JobReport:
    """Reckon a job's figures.

    Args:
        baseline: its measured one, None without one.
        speeds: of nodes, as far as they have been learned: all that can be known of those that
            answered none of the calls.
    """
    answered = [
        c for c in job.calls.values() if c.outcome is Outcome.ANSWERED and c.service_s is not None
    ]
    shares = _shares(job, answered)
    end = now if job.running or job.last_closed_at is None else job.last_closed_at
    makespan_s = max(CLOCK_STEP_S, end - job.opened_at - job.idle_s)
    times = [c.service_s for c in answered if c.service_s is not None]
    slots = sum(share.slots for share in shares)
    if not times:
        note = "no call has been answered yet" if job.running else "no call was answered"
        return JobReport(
            makespan_s, None, None, None, None, None, None, None, None, None, None, shares, note
        )
    usable = min(slots, max(1, job.width))
    even = _equal_calls(answered)
    notes = _notes(job, len(answered), usable, slots, even=even)
    alike = _alike(answered, even=even)
    lanes = _lanes(shares, _expected_s(answered, speeds), median(times), usable, alike=alike)
    predicted = _fastest_alone(lanes, answered, even=even)
    measured = None if baseline is None else _measured(job, baseline)
    if isinstance(measured, str):
        notes.append(measured)
        measured = None
    base = measured or predicted
    fastest = min(base, predicted, key=lambda alone: alone.makespan_s)
    base_lane = lanes.get(base.node, lanes[predicted.node])
    limit = _alone_s(base_lane, answered, lanes, even=even) / _bound_s(lanes, answered, even=even)
    achieved = None if job.running else base.makespan_s / makespan_s
    return JobReport(
        makespan_s=makespan_s,
        waves=wave_count(len(answered), usable),
        limit=limit,
        achieved=achieved,
        efficiency=None if achieved is None else achieved / limit,
        baseline=base.kind,
        baseline_s=base.makespan_s,
        baseline_node=base.node,
        fastest_alone=fastest.kind,
        fastest_alone_s=fastest.makespan_s,
        fastest_alone_node=fastest.node,
        nodes=shares,
        note="; ".join(notes),
    )


def _notes(job: Job, answered: int, usable: int, slots: int, *, even: bool) -> list[str]:
    """How the figures are to be read."""
    notes = []
    if answered < job.calls_total:
        notes.append(
            f"figures are from the {answered} of {job.calls_total} calls that were answered"
        )
    if usable < slots:
        open_at_once = "1 call was" if job.width == 1 else f"{job.width} calls were"
        notes.append(
            f"at most {open_at_once} open at once, so only {usable} of {slots} slots could be used"
        )
    if not even:
        notes.append(
            "calls differ in length,"
            " so the limit is taken from their total work, not from equal waves"
        )
    return notes


@dataclass(frozen=True, slots=True)
class _Alone:
    """All calls on one node: "measured" or "predicted"."""

    kind: str
    node: NodeId
    makespan_s: float


def _shares(job: Job, answered: list[Call]) -> tuple[NodeShare, ...]:
    by_node: dict[NodeId, list[float]] = {node: [] for node in job.fleet}
    for call in answered:
        if call.node is not None and call.service_s is not None:
            by_node.setdefault(call.node, []).append(call.service_s)
    shares = []
    for node, times in by_node.items():
        name, slots = job.fleet.get(node, (str(node), 1))
        shares.append(NodeShare(node, name, slots, len(times), median(times) if times else None))
    return tuple(shares)


def _expected_s(answered: list[Call], speeds: Mapping[NodeId, Speed]) -> dict[NodeId, float]:
    """What a typical call of the job should take on each node whose speed is known (s)."""
    usages = [call.usage for call in answered]
    read = [u.prompt_tokens - (u.cached_tokens or 0) for u in usages if u.prompt_tokens is not None]
    written = [usage.output_tokens for usage in usages if usage.output_tokens is not None]
    if not read or not written:
        return {}
    return {
        node: max(CLOCK_STEP_S, speed.service_s(median(read), median(written)))
        for node, speed in speeds.items()
    }


def _lanes(
    shares: tuple[NodeShare, ...],
    expected_s: Mapping[NodeId, float],
    typical_s: float,
    usable: int,
    *,
    alike: bool,
) -> dict[NodeId, Lane]:
    """The nodes as the theory sees them, fastest first, with no more slots in all than the job
    could use.

    A node that answered nothing was there, and the limit must not be flattered by leaving it out:
    it counts by its learned speed (one that is slow may rightly have been left idle), without one
    as a typical node. With `alike` all that have answered count as equally fast.
    """
    busy_s = [share.service_s for share in shares if share.service_s is not None]
    mean_s = fmean(busy_s)

    def call_s(share: NodeShare) -> float:
        if share.service_s is None:
            return expected_s.get(share.node, mean_s if alike else typical_s)
        return mean_s if alike else share.service_s

    # Among equals one that has answered comes first: of it more is known.
    order = sorted(shares, key=lambda share: (call_s(share), not share.calls))
    given = [Lane(share.slots, call_s(share)) for share in order]
    lanes: dict[NodeId, Lane] = {}
    for share, lane in zip(order, given, strict=True):
        slots = min(lane.slots, usable)
        usable -= slots
        if slots:
            lanes[share.node] = Lane(slots, lane.call_s)
    return lanes


def _alike(answered: list[Call], *, even: bool) -> bool:
    """Whether the nodes cannot be told apart: the typical times of any two differ by no more than
    their calls scatter around them. A limit reckoned from such a difference would be noise.

    Scatter is the mean distance from the median, so that one call which something held up says
    little; the scatter of unequal calls says nothing of the node and is not counted.
    """
    nodes = []
    for times in _times_by_node(answered).values():
        typical_s = median(times)
        scatter_s = fmean(abs(time_s - typical_s) for time_s in times) if even else 0.0
        nodes.append((typical_s, max(scatter_s, NODE_NOISE * typical_s)))
    return all(
        abs(one_s - other_s) <= one_scatter_s + other_scatter_s
        for (one_s, one_scatter_s), (other_s, other_scatter_s) in combinations(nodes, 2)
    )


def _times_by_node(answered: list[Call]) -> dict[NodeId | None, list[float]]:
    by_node: dict[NodeId | None, list[float]] = {}
    for call in answered:
        by_node.setdefault(call.node, []).append(call.service_s or 0.0)
    return by_node


def _equal_calls(answered: list[Call]) -> bool:
    outputs = [call.usage.output_tokens for call in answered]
    known = [tokens for tokens in outputs if tokens]
    if len(known) == len(answered):
        return max(known) <= EQUAL_CALLS * min(known)
    by_node = _times_by_node(answered).values()
    return all(max(times) <= EQUAL_CALLS * min(times) for times in by_node)


def _work_s(answered: list[Call], lanes: dict[NodeId, Lane], lane: Lane) -> tuple[float, float]:
    """Total and longest of the calls' times (s) as they would be on `lane`, by the nodes' ratio of
    typical times.
    """
    times = []
    for call in answered:
        there = lanes.get(call.node, lane) if call.node is not None else lane
        times.append((call.service_s or 0.0) * lane.call_s / there.call_s)
    return sum(times), max(times)


def _alone_s(lane: Lane, answered: list[Call], lanes: dict[NodeId, Lane], *, even: bool) -> float:
    if even:
        return alone_s(len(answered), lane)
    total_s, longest_s = _work_s(answered, lanes, lane)
    return makespan_floor_s(total_s, longest_s, lane.slots)


def _fastest_alone(lanes: dict[NodeId, Lane], answered: list[Call], *, even: bool) -> _Alone:
    return min(
        (
            _Alone("predicted", node, _alone_s(lane, answered, lanes, even=even))
            for node, lane in lanes.items()
        ),
        key=lambda alone: alone.makespan_s,
    )


def _bound_s(lanes: dict[NodeId, Lane], answered: list[Call], *, even: bool) -> float:
    if even:
        return makespan_bound_s(len(answered), list(lanes.values()))
    fastest = min(lanes.values(), key=lambda lane: lane.call_s)
    total_s, longest_s = _work_s(answered, lanes, fastest)
    # Slots in units of the fastest: one that takes twice as long is worth half.
    worth = sum(lane.slots * fastest.call_s / lane.call_s for lane in lanes.values())
    return max(longest_s, total_s / worth)


def _measured(job: Job, baseline: Job) -> _Alone | str:
    """The baseline run, or why it can't be used."""
    nodes = {call.node for call in baseline.calls.values() if call.node is not None}
    answered = sum(call.outcome is Outcome.ANSWERED for call in baseline.calls.values())
    if baseline.calls_total != job.calls_total:
        flaw = f"has {baseline.calls_total} calls"
    elif len(nodes) > 1:
        flaw = f"ran on {len(nodes)} nodes"
    elif baseline.last_closed_at is None or answered != baseline.calls_total:
        flaw = "has calls without an answer"
    else:
        (node,) = nodes
        alone_s = baseline.last_closed_at - baseline.opened_at - baseline.idle_s
        alone_s = max(CLOCK_STEP_S, alone_s)
        return _Alone("measured", node, alone_s)
    return f"the baseline job {baseline.id} {flaw}, so the baseline is predicted"
