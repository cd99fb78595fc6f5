"""A simulated run in figures: how long it took against how long it had to, and who did what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pair.core.names import NodeId, Outcome
from pair.core.waves import Lane, makespan_bound_s, wave_count
from pair.sim.machines import Machine
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
        bound_s: no schedule of these calls on these machines, all healthy, ends sooner.
        waves: for a burst of equal calls, None else.
        alone_s: what the fastest machine needs alone, simulated with the same calls.
        limit: alone_s / bound_s. achieved: alone_s / makespan_s. efficiency: achieved / limit.
        ttft_s, queue_s: accept to first content byte, accept to the last lease.
        attempts: leases given, failed ones included.
    """

    strategy: str
    calls: int
    outcomes: dict[str, int]
    attempts: int
    makespan_s: float
    bound_s: float
    waves: int | None
    alone_s: float
    alone_node: NodeId
    limit: float
    achieved: float
    efficiency: float
    ttft_s: Quantiles
    queue_s: Quantiles
    nodes: tuple[Share, ...]


def simulation_report(world: World, alone: World) -> SimulationReport:
    """Reckon a finished run; `alone` is the same workload, run on the fastest machine only."""
    records = world.records
    machines = [place.machine for place in world.places.values()]
    calls = [record.call for record in records]
    makespan_s, alone_s = _makespan_s(world), _makespan_s(alone)
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
        waves=wave_count(len(calls), slots) if is_equal_burst(calls) else None,
        alone_s=alone_s,
        alone_node=alone_node,
        limit=alone_s / bound_s,
        achieved=alone_s / makespan_s,
        efficiency=bound_s / makespan_s,
        ttft_s=quantiles(
            [r.first_byte_s - r.call.at_s for r in records if r.first_byte_s is not None]
        ),
        queue_s=quantiles([r.granted_s - r.call.at_s for r in records if r.granted_s is not None]),
        nodes=_shares(world, makespan_s),
    )


def _makespan_s(world: World) -> float:
    return max(r.closed_s for r in world.records if r.closed_s is not None)


def _shares(world: World, makespan_s: float) -> tuple[Share, ...]:
    calls = dict.fromkeys(world.places, 0)
    for record in world.records:
        if record.outcome is Outcome.ANSWERED and record.node is not None:
            calls[record.node] += 1
    return tuple(
        Share(
            node,
            place.machine.slots,
            calls[node],
            place.busy_s / (place.machine.slots * makespan_s),
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
    return len({(call.at_s, call.prompt_tokens, call.output_tokens) for call in calls}) == 1


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
    best_s = [min(kind.service_s(call) for kind in slots) for call in calls]
    latest_s = max(call.at_s + best for call, best in zip(calls, best_s, strict=True))
    worth = 0.0
    for kind, count in slots.items():
        ratios = (kind.service_s(call) / best for call, best in zip(calls, best_s, strict=True))
        worth += count / min(ratios)
    return max(latest_s, sum(best_s) / worth)


def quantiles(durations_s: list[float]) -> Quantiles:
    """By nearest rank: each is a duration that some call really had."""
    ordered = sorted(durations_s)

    def at(share: float) -> float | None:
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None

    return Quantiles(at(0.50), at(0.90), at(0.99))
