"""Random fleets and random jobs in the simulator: how much slower than the fastest machine alone
the whole fleet can be, and how near to the bound it usually comes.

A job is a burst on 2 to 8 machines whose speeds are up to 8 times apart. `equal` jobs have equal
calls, whose bound T_LB is exact; of `mixed` ones, with a log-normal spread of lengths, it is only
known that nothing ends sooner. `cold`: the scheduler has never seen the machines; `warm`: they have
answered a burst of like calls before. Each case is drawn from its own number, so `--only N` plays
one again.

Run: `make measure-random-fleets`, or `python -m tests.measurements.random_fleets [--cases 10000]`.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from statistics import median

from pair.core.limits import Limits
from pair.core.names import Outcome
from pair.settings import Settings
from pair.sim.experiment import scheduler_for
from pair.sim.machines import Machine, fleet
from pair.sim.report import fastest, lower_bound_s
from pair.sim.workload import Lengths, PlannedCall, burst
from pair.sim.world import World
from tests.measurements.arms import existing, print_head, print_row

STRATEGIES = ("finish-time", "queue-depth")
STARTS = ("cold", "warm")
KINDS = ("equal", "mixed")

NODES = (2, 8)
SPEED_RATIO = 8.0
SLOTS = (1, 1, 1, 2, 4)
CALLS_LIMIT = 100
PROMPT_TOKENS = (50, 2000)
OUTPUT_TOKENS = (20, 400)
SPREAD = (0.2, 1.0)
"""Sigma of the lengths of a mixed job."""
PREFILL_TOKENS_PER_S = 10_000.0
DECODE_TOKENS_PER_S = 1000.0
"""Of the fastest that can be drawn; ten times a real one's, so that few probes are simulated beside
each call. Only ratios are reported."""

REHEARSAL_WAVES = 2
"""Calls for each slot, of the same kind, before a warm run."""

BATCH_CASES = 50
"""Given to one process at a time."""


@dataclass(frozen=True, slots=True)
class Case:
    """What one number draws."""

    number: int
    kind: str
    machines: tuple[Machine, ...]
    calls: tuple[PlannedCall, ...]
    rehearsal: tuple[PlannedCall, ...]

    def __str__(self) -> str:
        speeds = [
            f"{machine.decode_rate_tokens_per_s / DECODE_TOKENS_PER_S:.2f} x {machine.slots}"
            for machine in self.machines
        ]
        call = self.calls[0]
        lengths = f"{call.prompt_tokens} + {call.output_tokens} tokens"
        first = f"the first {lengths}" if self.kind == KINDS[1] else lengths
        return f"{len(self.calls)} calls ({first}) on speeds x slots {', '.join(speeds)}"


@dataclass(frozen=True, slots=True)
class Figures:
    """One run of a case; times in s.

    Attributes:
        fast_call_s, slow_call_s: the longest call on the fastest machine, and on the slowest for
            it.
    """

    number: int
    kind: str
    strategy: str
    start: str
    makespan_s: float
    bound_s: float
    alone_s: float
    fast_call_s: float
    slow_call_s: float

    @property
    def of_bound(self) -> float:
        return self.makespan_s / self.bound_s

    @property
    def excess_s(self) -> float:
        """How much longer than the fastest machine alone."""
        return self.makespan_s - self.alone_s


def drawn(number: int) -> Case:
    """The case of this number."""
    random = Random(number)
    kind = KINDS[number % 2]
    speeds = [
        math.exp(random.uniform(-math.log(SPEED_RATIO), 0.0)) for _ in range(random.randint(*NODES))
    ]
    machines = [
        replace(machine, slots=random.choice(SLOTS))
        for machine in fleet(
            speeds,
            slots=1,
            prefill_rate_tokens_per_s=PREFILL_TOKENS_PER_S,
            decode_rate_tokens_per_s=DECODE_TOKENS_PER_S,
        )
    ]
    count = round(math.exp(random.uniform(0.0, math.log(CALLS_LIMIT))))
    prompt, output = (
        round(math.exp(random.uniform(math.log(least), math.log(most))))
        for least, most in (PROMPT_TOKENS, OUTPUT_TOKENS)
    )
    spread = random.uniform(*SPREAD) if kind == KINDS[1] else 0.0
    lengths = Lengths(prompt, output, spread)
    slots = sum(machine.slots for machine in machines)
    calls = burst(count, lengths, random)
    rehearsal = burst(REHEARSAL_WAVES * slots, lengths, random)
    return Case(number, kind, tuple(machines), tuple(calls), tuple(rehearsal))


def played(case: Case, strategies: Sequence[str], limits: Limits) -> list[Figures]:
    """The case under each strategy, cold and warm."""
    fast = fastest(case.machines, case.calls)
    alone_s = lower_bound_s(case.calls, [fast])
    if case.kind == KINDS[1]:
        alone_s = _makespan_s(STRATEGIES[1], [fast], case.calls, (), limits)
    longest = max(case.calls, key=fast.service_s)
    found = []
    for strategy in strategies:
        for start in STARTS:
            rehearsal = case.rehearsal if start == STARTS[1] else ()
            found.append(
                Figures(
                    number=case.number,
                    kind=case.kind,
                    strategy=strategy,
                    start=start,
                    makespan_s=_makespan_s(strategy, case.machines, case.calls, rehearsal, limits),
                    bound_s=lower_bound_s(case.calls, case.machines),
                    alone_s=alone_s,
                    fast_call_s=fast.service_s(longest),
                    slow_call_s=max(machine.service_s(longest) for machine in case.machines),
                )
            )
    return found


def _makespan_s(
    strategy: str,
    machines: Sequence[Machine],
    calls: Sequence[PlannedCall],
    rehearsal: Sequence[PlannedCall],
    limits: Limits,
) -> float:
    """Makespan (s) of the calls; those of the rehearsal are over long before."""
    world = World(scheduler_for(limits, strategy), machines, calls, rehearsal=rehearsal)
    for _ in world.run():
        pass
    if any(record.outcome is not Outcome.ANSWERED for record in world.records):
        raise SystemExit("a call without an answer: these figures are of no use")
    return max(each.closed_s for each in world.records if each.closed_s is not None)


def batch(strategies: Sequence[str], numbers: Sequence[int]) -> list[Figures]:
    """All runs of some cases."""
    limits = Settings().limits()
    return [run for number in numbers for run in played(drawn(number), strategies, limits)]


def print_summary(runs: Sequence[Figures]) -> None:
    """One line for each strategy, kind and start."""
    print_head(
        "strategy",
        "jobs",
        "start",
        "cases",
        "of T_LB: p50",
        "p99",
        "worst",
        "slower than the fastest alone",
        "worst excess in its service times",
        "in the slowest's",
    )
    groups: dict[tuple[str, str, str], list[Figures]] = defaultdict(list)
    for run in runs:
        groups[run.strategy, run.kind, run.start].append(run)
    for (strategy, kind, start), group in sorted(groups.items()):
        ratios = sorted(run.of_bound for run in group)
        slower = sum(run.excess_s > 1e-9 for run in group) / len(group)
        print_row(
            strategy,
            kind,
            start,
            len(group),
            f"{median(ratios):.3f}",
            f"{ratios[int(0.99 * len(ratios))]:.3f}",
            f"{ratios[-1]:.3f}",
            f"{slower:.1%}",
            f"{max(run.excess_s / run.fast_call_s for run in group):.2f}",
            f"{max(run.excess_s / run.slow_call_s for run in group):.2f}",
        )


def print_worst(runs: Sequence[Figures], count: int) -> None:
    """The cases that the first strategy lost the most time in, each with its number."""
    for start in STARTS:
        mine = [run for run in runs if run.start == start and run.strategy == runs[0].strategy]
        mine.sort(key=lambda run: -run.excess_s / run.fast_call_s)
        print(
            f"\nWorst of {runs[0].strategy}, {start}, by excess in the fastest's service times:\n"
        )
        for run in mine[:count]:
            print(
                f"- case {run.number}: {run.makespan_s:.3f} s, alone {run.alone_s:.3f} s,"
                f" T_LB {run.bound_s:.3f} s, a call {run.fast_call_s:.3f} to"
                f" {run.slow_call_s:.3f} s: {drawn(run.number)}"
            )


def main() -> None:
    """Play the cases and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--only", type=int, help="play one case")
    parser.add_argument("--worst", type=int, default=5, help="how many to print")
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args()
    numbers = range(asked.cases) if asked.only is None else [asked.only]
    play = partial(batch, existing(STRATEGIES))
    start_s = time.perf_counter()
    batches = [
        numbers[first : first + BATCH_CASES] for first in range(0, len(numbers), BATCH_CASES)
    ]
    with ProcessPoolExecutor(asked.processes) as processes:
        runs = [run for found in processes.map(play, batches) for run in found]
    print(f"{len(numbers)} cases in {time.perf_counter() - start_s:.0f} s\n")
    print_summary(runs)
    print_worst(runs, asked.worst)


if __name__ == "__main__":
    main()
