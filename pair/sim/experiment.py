"""One workload on one fleet: under each strategy asked for, and on the fastest machine alone.

Everything random is drawn here, once, from one seed, before the first run; so strategies are
compared on exactly the same calls and mishaps, and the same numbers come out again next time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random
from typing import assert_never

from pair.core.limits import Limits
from pair.core.queue_depth import QueueDepth
from pair.core.scheduler import Scheduler
from pair.core.strategies import strategy_named
from pair.errors import SettingsError
from pair.sim.agents import conversations, in_other_words, with_system_prompt
from pair.sim.machines import Incident, Machine, fleet, random_incidents
from pair.sim.report import SimulationReport, fastest, lower_bound_s, simulation_report
from pair.sim.workload import Lengths, PlannedCall, burst, fan_outs, poisson
from pair.sim.world import World

USUAL_UTILIZATION = 0.9
"""Calls come at this share of what the fleet can do, where the user says no rate."""


NODE_SECONDS_LIMIT = 1e8
"""Longest simulated time, over all nodes, strategies and proxies (s): each node is asked every
second by each proxy, so this is an hour of work. A year of three nodes, or a day of a thousand."""


class Arrivals(StrEnum):
    """How calls come."""

    BURST = "burst"
    FAN_OUT = "fan-out"
    POISSON = "poisson"
    CONVERSATIONS = "conversations"


@dataclass(frozen=True, slots=True)
class Plan:
    """What to simulate; the defaults are the classic 5 calls of 2 s on 3 machines.

    Attributes:
        speeds: one for each machine, multiplying both rates.
        spread: sigma of the lengths' log-normal distribution, 0 for equal calls.
        rate_per_s: calls a second for arrivals over time, None for `USUAL_UTILIZATION`.
        width: calls of one fan-out.
        failures: mishaps at random machines and times.
        shared_tokens: of a system prompt that all calls begin with, in addition to their own.
        turns, think_s: of one conversation, and between its turns on average. Its prompts grow:
            each turn adds `prompt_tokens` to all that was said before.
        rehearsal: calls of the same kind, in other words, that are answered before.
    """

    speeds: tuple[float, ...] = (1.0, 1.0, 1.0)
    slots: int = 1
    calls: int = 5
    prompt_tokens: int = 200
    output_tokens: int = 90
    spread: float = 0.0
    prefill_rate_tokens_per_s: float = 1000.0
    decode_rate_tokens_per_s: float = 50.0
    arrivals: Arrivals = Arrivals.BURST
    rate_per_s: float | None = None
    width: int = 16
    failures: int = 0
    seed: int = 1
    shared_tokens: int = 0
    turns: int = 6
    think_s: float = 5.0
    rehearsal: int = 0
    proxies: int = 1


@dataclass(frozen=True, slots=True)
class Scenario:
    """What happens, in full: nothing in it is drawn any more.

    Attributes:
        rehearsal: calls that the same fleet answers before, so that the scheduler knows it; none of
            them is in the figures.
        proxies: how many share the machines; the calls are split among them.
    """

    machines: tuple[Machine, ...]
    calls: tuple[PlannedCall, ...]
    incidents: tuple[Incident, ...] = ()
    rehearsal: tuple[PlannedCall, ...] = ()
    proxies: int = 1


def fleet_of(plan: Plan) -> list[Machine]:
    """The machines of the plan."""
    return fleet(
        plan.speeds,
        slots=plan.slots,
        prefill_rate_tokens_per_s=plan.prefill_rate_tokens_per_s,
        decode_rate_tokens_per_s=plan.decode_rate_tokens_per_s,
    )


def drawn(
    plan: Plan,
    machines: Sequence[Machine] | None = None,
    calls: Sequence[PlannedCall] | None = None,
) -> Scenario:
    """What the plan's seed makes of it. Machines of a file and calls of a trace stand in for the
    plan's own.
    """
    random = Random(plan.seed)
    machines = fleet_of(plan) if machines is None else machines
    if calls is None:
        calls = _calls(plan, machines, random)
    within_s = lower_bound_s(calls, machines)
    incidents = random_incidents(machines, plan.failures, within_s, random)
    rehearsal = in_other_words(_calls(replace(plan, calls=plan.rehearsal), machines, random))
    return Scenario(
        tuple(machines), tuple(calls), tuple(incidents), tuple(rehearsal), proxies=plan.proxies
    )


def scheduler_for(limits: Limits, strategy: str) -> Scheduler:
    """A scheduler as a proxy has it, at the beginning of time."""
    return Scheduler(limits, strategy_named(strategy), 0.0)


class Experiment:
    """A scenario carried out under each strategy.

    Attributes:
        total_calls: over all runs; what `steps` counts up to.
        worlds, reports: one for each strategy, as they are done.
    """

    def __init__(self, plan: Plan | Scenario, strategies: Sequence[str], limits: Limits) -> None:
        self.scenario = drawn(plan) if isinstance(plan, Plan) else plan
        self.machines, self.calls = self.scenario.machines, self.scenario.calls
        self.incidents = self.scenario.incidents
        self.worlds: list[World] = []
        self.reports: list[SimulationReport] = []
        self.total_calls = len(self.calls) * (1 + len(strategies))
        # Nobody's memory is at stake here: the room holds everyone, so that strategies are compared
        # on the same calls and not on whom they refused.
        most = max(limits.waiting_limit, len(self.calls), len(self.scenario.rehearsal))
        self._limits = replace(limits, waiting_limit=most)
        self._strategies = tuple(strategies)
        for name in strategies:
            strategy_named(name)  # a wrong one is told before anything runs
        self._alone_on = fastest(self.machines, self.calls)
        self._check_length()

    def _check_length(self) -> None:
        runs = len(self._strategies) * self.scenario.proxies * len(self.machines)
        all_s = lower_bound_s(self.calls, self.machines)
        alone_s = lower_bound_s(self.calls, [self._alone_on])
        if alone_s + runs * all_s > NODE_SECONDS_LIMIT:
            raise SettingsError(
                f"these calls would last {all_s / 86_400:.3g} days or longer, on one machine"
                f" {alone_s / 86_400:.3g}: too long to be simulated; ask for fewer or shorter"
                " ones, for a part of the trace, or have it played faster"
            )

    def steps(self) -> Iterator[int]:
        """Carry it out; yields now and then how many calls are done, over all runs."""
        alone = World(
            scheduler_for(self._limits, QueueDepth.name),
            [self._alone_on],
            self.calls,
            rehearsal=self.scenario.rehearsal,
        )
        yield from alone.run()
        done = len(self.calls)
        for name in self._strategies:
            first, *others = (
                scheduler_for(self._limits, name) for _ in range(self.scenario.proxies)
            )
            world = World(
                first,
                self.machines,
                self.calls,
                self.incidents,
                rehearsal=self.scenario.rehearsal,
                beside=others,
            )
            for closed in world.run():
                yield done + closed
            done += len(self.calls)
            self.worlds.append(world)
            self.reports.append(simulation_report(world, alone))


def _calls(plan: Plan, machines: Sequence[Machine], random: Random) -> list[PlannedCall]:
    lengths = Lengths(plan.prompt_tokens, plan.output_tokens, plan.spread)
    mean = PlannedCall(0.0, plan.prompt_tokens, plan.output_tokens)
    most_per_s = sum(machine.slots / machine.service_s(mean) for machine in machines)
    rate_per_s = plan.rate_per_s or USUAL_UTILIZATION * most_per_s
    match plan.arrivals:
        case Arrivals.BURST:
            calls = burst(plan.calls, lengths, random)
        case Arrivals.POISSON:
            calls = poisson(plan.calls, rate_per_s, lengths, random)
        case Arrivals.FAN_OUT:
            every_s = plan.width / rate_per_s
            calls = fan_outs(plan.calls, plan.width, every_s, lengths, random)
        case Arrivals.CONVERSATIONS:
            return conversations(
                plan.calls,
                plan.turns,
                system_tokens=plan.shared_tokens,
                turn=lengths,
                every_s=plan.turns / rate_per_s,
                think_s=plan.think_s,
                random=random,
            )
        case _:
            assert_never(plan.arrivals)
    return with_system_prompt(calls, plan.shared_tokens) if plan.shared_tokens else calls
