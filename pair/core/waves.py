"""The theory of waves: how fast a burst of independent whole calls could at best become on several
nodes.

Whole calls are not split, so N calls on S slots run in ceil(N / S) waves and the last wave may
leave slots idle: 5 calls on 3 equal one-slot nodes need 2 waves, so the limit is 5 / 2 = 2.5 and
not 3. Pure arithmetic; what was achieved is in `job_reports.py`.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lane:
    """One node as the theory sees it.

    Attributes:
        slots: calls at a time, at least 1.
        call_s: time of one call there when it runs alone (s), above 0.
    """

    slots: int
    call_s: float


def wave_count(calls: int, slots: int) -> int:
    """Waves that `calls` equal calls need on `slots` equal slots: ceil(calls / slots)."""
    return -(-calls // slots)


def alone_s(calls: int, lane: Lane) -> float:
    """Makespan (s) of equal calls on one node: ceil(calls / slots) waves of one call's time
    each.
    """
    return wave_count(calls, lane.slots) * lane.call_s


def makespan_bound_s(calls: int, lanes: Sequence[Lane]) -> float:
    """T_LB (s): the smallest T with sum over nodes of slots * floor(T / call_s) >= calls.

    No schedule of whole equal calls can end sooner. Found by letting the nodes finish call after
    call in order of time, which is exact where rounding T / call_s would not be; O(calls log
    nodes).
    """
    done = 0
    ends = [(lane.call_s, index, 1) for index, lane in enumerate(lanes)]
    heapq.heapify(ends)
    at = 0.0
    while done < calls:
        at, index, count = ends[0]
        done += lanes[index].slots
        heapq.heapreplace(ends, ((count + 1) * lanes[index].call_s, index, count + 1))
    return at


def graham_ceiling_s(total_s: float, longest_s: float, slots: int) -> float:
    """The longest makespan (s) that work-conserving dispatch can take: total / m + longest * (1 - 1
    / m).

    R. L. Graham, Bounds on multiprocessing timing anomalies, 1969: whoever never leaves a slot idle
    while work waits stays under this.
    """
    return total_s / slots + longest_s * (1.0 - 1.0 / slots)


def makespan_floor_s(total_s: float, longest_s: float, slots: int) -> float:
    """No schedule ends sooner than its longest call, nor than all slots busy all the time."""
    return max(longest_s, total_s / slots)
