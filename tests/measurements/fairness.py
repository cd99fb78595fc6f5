"""Two jobs, one of 200 calls and one of a single call: how long the single one waits for its turn.

All calls take the same time on one-slot echo engines. Single calls come one after the other while
the big job runs, each a job of its own; two ways for the proxy to tell them apart: the client names
its job, or there is nothing but another API key. The wait is the proxy's own word,
`x-pair-queue-ms`, in service times. First come, first served, each would wait for all calls before
it, half the big job on average.

Run: `make measure-fairness`, or `python -m tests.measurements.fairness [--rounds 3]`.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping
from statistics import median
from typing import Any

import uvloop

from pair.bench.echo_engine.settings import EchoSettings
from tests.measurements.arms import answered, existing, print_head, print_row, request, text, under
from tests.support.house import House, house

BIG_CALLS = 200
SINGLES = 10
"""In one run; the figures are over the singles of all rounds."""
PROMPT_CHARACTERS = 400
OUTPUT_TOKENS = 5
ENGINE = EchoSettings(prefill_rate_tokens_per_s=2000.0, decode_rate_tokens_per_s=100.0)
SERVICE_S = 0.1
"""100 tokens of prompt and 5 of answer; the template's few tokens aside."""

FLEETS = (1, 3)
STRATEGIES = ("finish-time", "queue-depth")
TELLING = ("job named", "API key")


def headers(telling: str, job: str) -> Mapping[str, str]:
    """What tells one job from another."""
    return {"x_pair_job": job} if telling == TELLING[0] else {"authorization": f"Bearer {job}"}


async def waits(strategy: str, telling: str, nodes: int) -> list[float]:
    """The waits (s) of the single calls of one run."""
    async with house(*[ENGINE] * nodes, settings=under(strategy)) as built:
        found: list[float] = []
        async with asyncio.TaskGroup() as tasks:
            for number in range(BIG_CALLS):
                tasks.create_task(answered(built, _body(number), **headers(telling, "big")))
            tasks.create_task(_singles(built, telling, found))
        return found


async def _singles(built: House, telling: str, found: list[float]) -> None:
    """One single call after the other, from when the big job waits until it has almost ended."""
    await built.until(lambda: built.snapshot().opened >= BIG_CALLS)
    for number in range(SINGLES):
        # From the books, so that singles come at any moment of a service and none after the end.
        left = BIG_CALLS - (number + 1) * BIG_CALLS // (SINGLES + 2)
        await built.until(lambda left=left: built.snapshot().waiting <= left, 120.0)  # type: ignore[misc]
        await asyncio.sleep(SERVICE_S * number / SINGLES)
        reply = await answered(built, _body(BIG_CALLS + number), **headers(telling, f"s{number}"))
        found.append(float(reply.headers["x-pair-queue-ms"]) / 1e3)


def _body(number: int) -> dict[str, Any]:
    return request(text(str(number), PROMPT_CHARACTERS), OUTPUT_TOKENS)


def main() -> None:
    """Measure and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    print_head("strategy", "nodes", "told apart by", "wait in service times: p50", "p90", "longest")
    for strategy in existing(STRATEGIES):
        for nodes in FLEETS:
            for telling in TELLING:
                found: list[float] = []
                for _ in range(rounds):
                    found += uvloop.run(waits(strategy, telling, nodes))
                shares = sorted(wait_s / SERVICE_S for wait_s in found)
                p90 = shares[int(0.9 * len(shares))]
                figures = [f"{figure:.2f}" for figure in (median(shares), p90, shares[-1])]
                print_row(strategy, nodes, telling, *figures)


if __name__ == "__main__":
    main()
