"""What a decision of the scheduler costs: the pure core under the simulator, with every node busy
and a long line waiting.

Whenever a call ends the next one comes, so that the line keeps its length: 20 teams whose system
prompts are in caches, 100 flows, every third call of a conversation, nodes of three speeds that
have been learned. Each call of `handle` is timed; those that gave a lease are the decisions. Then
the memory of a full prefix index and what a question to it costs.

Run: `make measure-dispatch-cost`, or `python -m tests.measurements.dispatch_cost`.
"""

from __future__ import annotations

import argparse
import gc
import math
import platform
import time
import tracemalloc
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from random import Random
from statistics import median

from pair.core.decisions import Decision, Dispatch
from pair.core.events import Event, StrategyChosen
from pair.core.limits import Limits
from pair.core.names import EngineName, FlowId, ModelName, NodeId, ReplicaId, SessionId
from pair.core.prefix_index import PrefixIndex
from pair.core.prompt import Prompt, block_end
from pair.core.replica import Replica
from pair.core.reports import ReplicaReport
from pair.core.scheduler import Scheduler
from pair.core.strategies import strategy_named
from pair.settings import Settings
from pair.sim.machines import Machine, fleet
from pair.sim.text import Run, Text
from pair.sim.workload import Lengths, PlannedCall
from pair.sim.world import World
from tests.measurements.arms import existing, print_head, print_row

STRATEGIES = ("finish-time", "prefix-aware", "kv-aware", "session", "queue-depth", "round-robin")
SIZES = ((10, 100), (100, 1000), (1000, 10_000))
"""Nodes, waiting tickets."""
SHORT_LINES = ((10, 20), (1000, 100))
"""The same, where a strategy that lets tickets wait may look at each of them."""

CLOCKS = {"wall": time.perf_counter_ns, "cpu": time.thread_time_ns}

DECISIONS = 3000
"""Timed in each run."""
TOLERANCE = 0.1
"""The line is as long as it should be within this share of its length."""
RUN_LIMIT_S = 20.0
"""CPU time of a run once it is timed; one that is slower ends with fewer decisions."""

FIRST_STRATEGY = "queue-depth"
"""Of the rehearsal and the burst on free nodes, so that all strategies begin alike."""

REHEARSAL_WAVES = 2
"""Calls for each node before anything is timed, so that its speed is known."""

SPEEDS = (1.0, 2.0, 5.6)
LENGTHS = Lengths(2000, 200, 0.5)
TEAMS = 20
SYSTEM_TOKENS = 1500
FLOWS = 100
SESSIONS = 500
"""Conversations; two of three calls belong to none."""

INDEX_BLOCKS = 146
"""Of one prompt in the index: 100,000 characters."""
INDEX_REPLICAS = 1000
QUESTIONS = 2000


class Enough(Exception):
    """So many decisions have been timed, or the time is up."""


class Timed(Scheduler):
    """The shipped scheduler with a clock beside it.

    Attributes:
        samples: microseconds of each `handle` by what it was for, while the line is long.
    """

    def __init__(
        self, limits: Limits, strategy: str, nodes: int, waiting: int, clock: Callable[[], int]
    ) -> None:
        super().__init__(limits, strategy_named(FIRST_STRATEGY), 0.0)
        self._strategy = strategy
        self._clock = clock
        self.samples: dict[str, list[float]] = defaultdict(list)
        # The rehearsal's, and those of a burst on free nodes.
        self._untimed = (REHEARSAL_WAVES + 1) * nodes
        self._waiting = waiting
        self._end_s = math.inf

    def handle(self, event: Event, now: float) -> list[Decision]:
        start_ns = self._clock()
        decisions = super().handle(event, now)
        took_us = (self._clock() - start_ns) / 1e3
        leased = sum(isinstance(decision, Dispatch) for decision in decisions)
        if 0 <= self._untimed < leased:
            decisions += super().handle(StrategyChosen(self._strategy, None), now)
            self._end_s = time.process_time() + RUN_LIMIT_S
        self._untimed -= leased
        long = abs(len(self.desk.room) - self._waiting) <= TOLERANCE * self._waiting
        if long and self._untimed < 0:
            self.samples["a lease given" if leased else type(event).__name__].append(took_us)
        if len(self.samples["a lease given"]) >= DECISIONS or time.process_time() > self._end_s:
            raise Enough
        return decisions


def machines(nodes: int, random: Random) -> list[Machine]:
    """One-slot machines of three speeds, with caches."""
    speeds = [random.choice(SPEEDS) for _ in range(nodes)]
    plain = fleet(speeds, slots=1, prefill_rate_tokens_per_s=1000.0, decode_rate_tokens_per_s=50.0)
    return [replace(machine, cache_tokens=20_000) for machine in plain]


def calls(standing: int, more: int, random: Random) -> Iterator[PlannedCall]:
    """So many at once, then more of them, each when one has ended."""
    for number in range(standing + more):
        prompt_tokens, output_tokens = LENGTHS.draw(random)
        own = max(1, prompt_tokens - SYSTEM_TOKENS)
        text: Text = (Run(random.randrange(TEAMS), SYSTEM_TOKENS), Run(TEAMS + number, own))
        talks = number % 3 == 0
        yield PlannedCall(
            0.0,
            SYSTEM_TOKENS + own,
            output_tokens,
            text=text,
            session=SessionId(str(random.randrange(SESSIONS))) if talks else None,
            flow=FlowId(str(random.randrange(FLOWS))),
            follows=number - standing if number >= standing else None,
        )


def costs(
    strategy: str, nodes: int, waiting: int, clock: Callable[[], int]
) -> dict[str, list[float]]:
    """Microseconds of the events of one run, by kind."""
    random = Random(nodes)
    house = machines(nodes, random)
    limits = replace(Settings().limits(), waiting_limit=4 * (nodes + waiting))
    timed = Timed(limits, strategy, nodes, waiting, clock)
    planned = list(calls(nodes + waiting, nodes + 2 * DECISIONS, random))
    rehearsal = list(calls(REHEARSAL_WAVES * nodes, 0, random))
    with suppress(Enough):
        for _ in World(timed, house, planned, rehearsal=rehearsal).run():
            pass
    return timed.samples


def print_costs(strategies: list[str], clock: Callable[[], int]) -> None:
    """One line for each strategy and size."""
    print_head(
        "strategy",
        "nodes",
        "waiting",
        "decisions",
        "a lease given us: p50",
        "p99",
        "growth",
        "all events us: p50",
        "p99",
    )
    for strategy in strategies:
        medians: dict[tuple[int, int], float] = {}
        for nodes, waiting in (*SIZES, *SHORT_LINES):
            samples = costs(strategy, nodes, waiting, clock)
            leased = sorted(samples["a lease given"])
            every = sorted(took for kind in samples.values() for took in kind)
            before = medians.get((nodes // 10, waiting // 10))
            growth = "" if before is None else f"{median(leased) / before:.1f}"
            medians[nodes, waiting] = median(leased)
            figures = [f"{median(leased):.0f}", f"{_p99(leased):.0f}", growth]
            figures += [f"{median(every):.0f}", f"{_p99(every):.0f}"]
            print_row(strategy, nodes, waiting, len(leased), *figures)
    (small, line), (large, longer) = SIZES[-2:]
    linearithmic = (large * math.log(large)) / (small * math.log(small))
    print(f"\nGrowth from {small} to {large} nodes by n log n: {linearithmic:.1f}")
    print(f"(in tickets, from {line} to {longer}, likewise)")


def print_index() -> None:
    """How large a full index is, and what a question to it costs."""
    random = Random(1)
    limit = Settings().limits().fingerprints_limit
    replicas = [_replica(number) for number in range(INDEX_REPLICAS)]
    tracemalloc.start()
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    index = PrefixIndex(limit)
    asked = []
    # Twice over its limit, so that everything that would be let go has been.
    for number in range(2 * limit // INDEX_BLOCKS):
        prompt = _prompt(random)
        index.prefilled(replicas[number % INDEX_REPLICAS], prompt, float(number))
        if number % 100 == 0:
            asked.append(prompt)
    gc.collect()
    used_bytes = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    print(f"\nPrefix index, limit {limit:,}: {len(index):,} fingerprints, ", end="")
    print(f"{used_bytes / 1e6:.0f} MB, {used_bytes / len(index):.0f} bytes each")
    cached = []
    for _ in range(QUESTIONS):
        prompt, replica = random.choice(asked), random.choice(replicas)
        start_ns = time.perf_counter_ns()
        index.cached_chars(replica, prompt)
        cached.append((time.perf_counter_ns() - start_ns) / 1e3)
    print(f"cached_chars: {median(cached):.1f} us, p99 {_p99(sorted(cached)):.1f}")


def _replica(number: int) -> Replica:
    node, engine, model = NodeId(f"node-{number}"), EngineName("sim:1"), ModelName("sim")
    report = ReplicaReport(engine, "sim", model, slots=4, cache_tokens=100_000)
    return Replica(ReplicaId(node, engine, model), str(node), report)


def _prompt(random: Random) -> Prompt:
    blocks = tuple(random.getrandbits(64) for _ in range(INDEX_BLOCKS))
    return Prompt(block_end(INDEX_BLOCKS), blocks)


def _p99(ordered: list[float]) -> float:
    return ordered[int(0.99 * len(ordered))]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--strategies", nargs="+", default=STRATEGIES)
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="cpu: on a busy machine")
    asked = parser.parse_args()
    print(f"Python {platform.python_version()}, {asked.clock} time\n")
    print_costs(existing(asked.strategies), CLOCKS[asked.clock])
    print_index()


if __name__ == "__main__":
    main()
