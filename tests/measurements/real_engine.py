"""How near the proxy comes to a client that drives two real engines itself.

Two embedded llama.cpp engines of one thread each, six equal calls, five rounds; in each round the
baseline on one node, the run through the proxy and the direct run, in turning order.

Run: `make measure-real-engine`, or `python -m tests.measurements.real_engine [--rounds 5]`.
"""

from __future__ import annotations

import argparse
import asyncio
from statistics import median

import uvloop

from pair.bench.comparison import Comparer, Comparison
from pair.bench.workload import Workload
from tests.support.embedded_house import EmbeddedHouse, embedded_house

CALLS = 6
OUTPUT_TOKENS = 96

QUIET_LIMIT_S = 10.0
"""A node looks once a second at an engine with work, and is itself asked as often."""


async def measure(rounds: int) -> Comparison:
    """All rounds on one freshly started house of two nodes."""
    async with embedded_house(2) as house:
        comparer = Comparer(
            house.base_url,
            Workload(house.model, CALLS, OUTPUT_TOKENS),
            name="real",
            alone_on=next(iter(house.engines)),
            direct={name: f"{url}/v1" for name, url in house.engines.items()},
        )
        await comparer.warm_up(list(house.engines), lambda _: None)
        return await comparer.rounds(rounds, lambda _: None, lambda: _quiet(house), lambda _: None)


async def _quiet(house: EmbeddedHouse) -> None:
    """Until the nodes' reports no longer tell of what the direct arm ran: those slots would be
    left free for somebody else.
    """
    async with asyncio.timeout(QUIET_LIMIT_S):
        while any(replica.load for replica in house.proxy.scheduler.fleet.everyone()):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def main() -> None:
    """Measure and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    # The loop that `pair` itself runs on.
    comparison = uvloop.run(measure(parser.parse_args().rounds))
    print("| round | alone s | through pair s | direct s | speed-up | direct's | of direct |")
    print("|---|---|---|---|---|---|---|")
    for number, each in enumerate(comparison.rounds, 1):
        assert each.direct is not None
        assert each.direct_speedup is not None
        times = [each.alone.makespan_s, each.together.makespan_s, each.direct.makespan_s]
        shown = [f"{time:.2f}" for time in times]
        shown += [f"{each.speedup:.2f}", f"{each.direct_speedup:.2f}"]
        print(f"| {number} | {' | '.join(shown)} | {each.speedup / each.direct_speedup:.1%} |")
    direct = median(each.direct_speedup or 0.0 for each in comparison.rounds)
    print(
        f"| median | | | | {comparison.speedup:.2f} | {direct:.2f} | {comparison.of_direct:.1%} |"
    )


if __name__ == "__main__":
    main()
