"""A simulated run in figures: how long it took against how long it had to, and who did what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pair.core.names import FlowId, NodeId, Outcome
from pair.core.waves import Lane, makespan_bound_s, wave_count
from pair.errors import SettingsError
from pair.sim.machine_cache import ideal_cached_tokens
from pair.sim.machines import Machine
from pair.sim.place import CallRecord
from pair.sim.regret import Regret, regret_of
from pair.sim.workload import PlannedCall
from pair.sim.world import World


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Of a duration over all calls that have it, in seconds; None without any."""

    p50: float | None
    p90: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class Share:
    """One machine's part; `utilization` is the share of its slots' time that they computed."""

    node: NodeId
    slots: int
    calls: int
    utilization: float


@dataclass(frozen=True, slots=True)
class SimulationReport:
    """What one strategy made of one workload.

    Attributes:
        makespan_s: first accept to last end of a call.
        bound_s: T_LB: no schedule of these calls on these machines, all healthy, ends sooner.
        over_bound: makespan_s / bound_s.
        waves: for a burst of equal calls, None else.
        alone_s: what the fastest machine needs alone, simulated with the same calls.
        limit: alone_s / bound_s. achieved: alone_s / makespan_s. efficiency: achieved / limit.
        ttft_s, queue_s: accept to first content byte, accept to the last lease.
        attempts: leases given, failed ones included.
        busy_refusals: attempts that a full machine turned away (with several proxies).
        prompt_tokens: of the answered calls; cached_tokens: of these, what machines had in a cache.
        cached_share: their quotient. ideal_cached_share: the same for one cache without end.
        fairness: see `fairness`. regret: see `regret_of`.
    """

    strategy: str
    calls: int
    outcomes: dict[str, int]
    attempts: int
    makespan_s: float
    bound_s: float
    over_bound: float
    waves: int | None
    alone_s: float
    alone_node: NodeId
    limit: float
    achieved: float
    efficiency: float
    ttft_s: Quantiles
    queue_s: Quantiles
    busy_refusals: int
    prompt_tokens: int
    cached_tokens: int
    cached_share: float | None
    ideal_cached_share: float | None
    fairness: float | None
    regret: Regret
    nodes: tuple[Share, ...]


def simulation_report(world: World, alone: World) -> SimulationReport:
    """Reckon a finished run; `alone` is the same workload, run on the fastest machine only."""
    records = world.records
    machines = [place.machine for place in world.places.values()]
    answered = [record for record in records if record.outcome is Outcome.ANSWERED]
    prompt_tokens = sum(record.call.prompt_tokens for record in answered)
    cached_tokens = sum(record.cached_tokens for record in answered)
    calls = [record.call for record in records]
    makespan_s, alone_s = _makespan_s(world), _makespan_s(alone)
    if not makespan_s:  # whatever is answered takes time
        raise SettingsError(f"no call was answered: {records[0].reason}")
    bound_s = lower_bound_s(calls, machines)
    (alone_node,) = alone.places
    fates = Counter(record.outcome for record in records)
    slots = sum(machine.slots for machine in machines)
    return SimulationReport(
        strategy=world.scheduler.matching.strategy.name,
        calls=len(records),
        outcomes={outcome.value: fates[outcome] for outcome in Outcome},
        attempts=sum(record.attempts for record in records),
        makespan_s=makespan_s,
        bound_s=bound_s,
        over_bound=makespan_s / bound_s,
        waves=wave_count(len(calls), slots) if is_equal_burst(calls) else None,
        alone_s=alone_s,
        alone_node=alone_node,
        limit=alone_s / bound_s,
        achieved=alone_s / makespan_s,
        efficiency=bound_s / makespan_s,
        ttft_s=quantiles(ttfts_s(records)),
        queue_s=quantiles(
            [
                record.granted_s - record.opened_s
                for record in records
                if record.granted_s is not None and record.opened_s is not None
            ]
        ),
        busy_refusals=sum(record.refusals for record in records),
        prompt_tokens=prompt_tokens,
        cached_tokens=cached_tokens,
        cached_share=cached_tokens / prompt_tokens if prompt_tokens else None,
        ideal_cached_share=_ideal_cached_share(calls),
        fairness=fairness(records, machines),
        regret=regret_of(records, machines),
        nodes=_shares(world, makespan_s),
    )


def behind_best_s(reports: Sequence[SimulationReport]) -> list[float]:
    """For each run how much later it ended than the earliest of them."""
    best_s = min(report.makespan_s for report in reports)
    return [report.makespan_s - best_s for report in reports]


def ttfts_s(records: Sequence[CallRecord]) -> list[float]:
    """Accept to first content byte of each call that got so far, in the order of the calls."""
    return [
        record.first_byte_s - record.opened_s
        for record in records
        if record.first_byte_s is not None and record.opened_s is not None
    ]


def fairness(records: Sequence[CallRecord], machines: Sequence[Machine]) -> float | None:
    """Jain's index (Jain, Chiu and Hawe 1984) of how long flows were held up.

    (sum x)^2 / (n * sum x^2) over the n flows, where x is the mean slowdown of a flow's answered
    calls, and a call's slowdown is the time from accept to end over what it needs on the fastest
    machine for it alone, with nothing cached. 1: all flows were held up alike; 1 / n: one of them
    bore it all. None with fewer than two flows.
    """
    kinds = list({_abilities(machine): machine for machine in machines}.values())
    slowdowns: dict[FlowId, list[float]] = {}
    for record in records:
        if record.outcome is not Outcome.ANSWERED or record.closed_s is None:
            continue
        alone_s = min(kind.service_s(record.call) for kind in kinds)
        if record.opened_s is not None and alone_s > 0:
            slowdown = (record.closed_s - record.opened_s) / alone_s
            slowdowns.setdefault(record.call.flow, []).append(slowdown)
    means = [sum(each) / len(each) for each in slowdowns.values()]
    if len(means) < 2:
        return None
    return sum(means) ** 2 / (len(means) * sum(mean**2 for mean in means))


def _ideal_cached_share(calls: Sequence[PlannedCall]) -> float | None:
    tokens = sum(call.prompt_tokens for call in calls)
    return sum(ideal_cached_tokens(calls)) / tokens if tokens else None


def _makespan_s(world: World) -> float:
    return max(r.closed_s for r in world.records if r.closed_s is not None)


def _shares(world: World, makespan_s: float) -> tuple[Share, ...]:
    calls, busy_s = dict.fromkeys(world.places, 0), dict.fromkeys(world.places, 0.0)
    for record in world.records:  # not what a machine counts itself: that knows the rehearsal, too
        if record.outcome is Outcome.ANSWERED and record.node is not None:
            calls[record.node] += 1
            if record.granted_s is not None and record.closed_s is not None:
                busy_s[record.node] += record.closed_s - record.granted_s
    return tuple(
        Share(
            node,
            place.machine.slots,
            calls[node],
            busy_s[node] / (place.machine.slots * makespan_s),
        )
        for node, place in world.places.items()
    )


def fastest(machines: Sequence[Machine], calls: Sequence[PlannedCall]) -> Machine:
    """The machine that would need the least alone, by its bound; the first among equals."""
    kinds = {_abilities(machine): machine for machine in machines}
    bounds_s = {kind: lower_bound_s(calls, [machine]) for kind, machine in kinds.items()}
    return min(machines, key=lambda machine: bounds_s[_abilities(machine)])


def _abilities(machine: Machine) -> tuple[int, float, float]:
    return machine.slots, machine.prefill_rate_tokens_per_s, machine.decode_rate_tokens_per_s


def is_equal_burst(calls: Sequence[PlannedCall]) -> bool:
    """Whether the theory of waves is about these calls."""
    return len(
        {(call.at_s, call.prompt_tokens, call.output_tokens) for call in calls}
    ) == 1 and all(call.follows is None and not call.text for call in calls)


def lower_bound_s(calls: Sequence[PlannedCall], machines: Sequence[Machine]) -> float:
    """A time (s, from the first accept) before which no schedule of these whole calls can end.

    A burst of equal calls: T_LB of `waves.py`. Else the larger of two bounds: the latest end of a
    call that starts as it comes, on the machine that is fastest for it; and all that work over the
    slots, where a slot counts 1 / s if its machine takes at least s times as long for every call.
    """
    if is_equal_burst(calls):
        lanes = [Lane(machine.slots, machine.service_s(calls[0])) for machine in machines]
        return makespan_bound_s(len(calls), lanes)
    # Each kind of machine is reckoned once: a fleet of 64 may be of one kind.
    slots: dict[Machine, int] = {}
    for machine in machines:
        kind = replace(machine, id=NodeId(""), slots=1)
        slots[kind] = slots.get(kind, 0) + machine.slots
    if any(call.text for call in calls):
        return _bound_with_caches_s(calls, slots)
    best_s = [min(kind.service_s(call) for kind in slots) for call in calls]
    worth = 0.0
    for kind, count in slots.items():
        ratios = (kind.service_s(call) / best for call, best in zip(calls, best_s, strict=True))
        worth += count / min(ratios)
    return max(_latest_end_s(calls, best_s), sum(best_s) / worth)


def _bound_with_caches_s(calls: Sequence[PlannedCall], slots: Mapping[Machine, int]) -> float:
    """The same two bounds where prompts begin alike. Work is what a cache without end leaves of
    all prompts; another order of the calls than the list's saves at most a token of each, since
    none is cached to its end. Of one call that may be all there is to read.
    """
    prefill = max(kind.prefill_rate_tokens_per_s for kind in slots)
    decode = max(kind.decode_rate_tokens_per_s for kind in slots)
    uncached_tokens = sum(call.prompt_tokens for call in calls) - sum(ideal_cached_tokens(calls))
    output_tokens = sum(call.output_tokens for call in calls)
    least_s = max(uncached_tokens - len(calls), len(calls)) / prefill + output_tokens / decode
    # A slot of each kind does either part of the work at no more than this share of the fastest.
    worth = sum(
        count
        * max(kind.prefill_rate_tokens_per_s / prefill, kind.decode_rate_tokens_per_s / decode)
        for kind, count in slots.items()
    )
    shortest_s = [1 / prefill + call.output_tokens / decode for call in calls]
    return max(_latest_end_s(calls, shortest_s), least_s / worth)


def _latest_end_s(calls: Sequence[PlannedCall], needs_s: Sequence[float]) -> float:
    """The last end if each call starts as it comes and takes so long."""
    ends_s: list[float] = []
    for call, needed_s in zip(calls, needs_s, strict=True):
        after_s = 0.0 if call.follows is None else ends_s[call.follows] + call.after_s
        ends_s.append(max(call.at_s, after_s) + needed_s)
    return max(ends_s)


def quantiles(durations_s: list[float]) -> Quantiles:
    """By nearest rank: each is a duration that some call really had."""
    ordered = sorted(durations_s)

    def at(share: float) -> float | None:
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None

    return Quantiles(at(0.50), at(0.90), at(0.99))
