"""How fast the simulator is: 100,000 calls over 64 nodes, the shipped scheduler under them.

CPU time of one run, without the drawing of the workload and without the fastest node alone; calls
arrive in each of the three ways, each with three seeds, medians.

Run: `make measure-simulator`, or `python -m tests.measurements.simulator [--calls 100000]`.
"""

from __future__ import annotations

import argparse
import platform
import time
from dataclasses import replace
from statistics import median

from pair.core.names import Outcome
from pair.core.scheduler import Scheduler
from pair.core.strategies import strategy_named
from pair.settings import Settings
from pair.sim.experiment import Arrivals, Experiment, Plan
from pair.sim.report import lower_bound_s
from pair.sim.world import World

STRATEGY = "queue-depth"


def run(plan: Plan) -> tuple[float, float]:
    """CPU seconds of one simulated run, and how near it came to its bound (bound / makespan)."""
    limits = replace(Settings().limits(), waiting_limit=plan.calls)
    drawn = Experiment(plan, [], limits)
    world = World(Scheduler(limits, strategy_named(STRATEGY), 0.0), drawn.machines, drawn.calls)
    start_s = time.process_time()
    for _ in world.run():
        pass
    took_s = time.process_time() - start_s
    ends = [each.closed_s for each in world.records if each.closed_s is not None]
    if any(each.outcome is not Outcome.ANSWERED for each in world.records):
        raise SystemExit("a call without an answer: these figures are of no use")
    return took_s, lower_bound_s(drawn.calls, drawn.machines) / max(ends)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args()
    print(
        f"{asked.calls:,} calls over {asked.nodes} nodes, {STRATEGY}, Python"
        f" {platform.python_version()}, median of {asked.seeds} seeds:\n"
    )
    print("| arrivals | CPU s | calls a CPU second | efficiency |")
    print("|---|---|---|---|")
    for arrivals in Arrivals:
        runs = [
            run(
                Plan(
                    speeds=(1.0,) * asked.nodes,
                    calls=asked.calls,
                    spread=0.5,
                    arrivals=arrivals,
                    seed=seed,
                )
            )
            for seed in range(1, asked.seeds + 1)
        ]
        took_s = median(seconds for seconds, _ in runs)
        efficiency = median(near for _, near in runs)
        print(f"| {arrivals} | {took_s:.1f} | {asked.calls / took_s:,.0f} | {efficiency:.1%} |")


if __name__ == "__main__":
    main()
