"""How near equal calls on equal nodes come to the limit of the waves, with engines that keep time.

The baseline is theory (calls x time of one call), because echo engines keep time; times are the
client's own.

Run: `make measure-waves`, or `python -m tests.measurements.waves [--rounds 3]`.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from statistics import median

from pair.bench.echo_engine.settings import EchoSettings
from pair.core.waves import wave_count
from tests.support.house import chat, house

RATE = 50.0
CASES = ((3, 5, 100), (2, 8, 100), (8, 64, 50))
"""Nodes, calls, output tokens of each call."""


async def speedup(nodes: int, calls: int, tokens: int) -> float:
    """The speed-up of one burst over one node alone."""
    engine = EchoSettings(decode_rate_tokens_per_s=RATE, prefill_rate_tokens_per_s=1e9)
    async with house(*[engine] * nodes) as built:
        start = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(calls):
                tasks.create_task(built.send(chat(tokens=tokens)))
        return calls * tokens / RATE / (time.perf_counter() - start)


def main() -> None:
    """Measure and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    print("| nodes | calls | call s | waves | limit | speed-up min / median / max | of limit |")
    print("|---|---|---|---|---|---|---|")
    for nodes, calls, tokens in CASES:
        runs = [asyncio.run(speedup(nodes, calls, tokens)) for _ in range(rounds)]
        waves = wave_count(calls, nodes)
        limit = calls / waves
        spread = f"{min(runs):.3f} / {median(runs):.3f} / {max(runs):.3f}"
        share = f"{median(runs) / limit:.1%}"
        cells = [nodes, calls, tokens / RATE, waves, f"{limit:.2f}", spread, share]
        print(f"| {' | '.join(map(str, cells))} |")


if __name__ == "__main__":
    main()
