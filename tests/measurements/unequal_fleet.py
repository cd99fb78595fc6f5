"""A fleet of unequal machines, 5.6 : 1 : 1: how near a burst of equal calls comes to the bound, and
whether it is ever slower than the fast machine alone.

Echo engines on real sockets behind the production proxy; every arm has fresh engines and a fresh
proxy, all arms in turn in each round. `cold`: the proxy has never seen the machines; `warm`: each
has answered two calls before. HAProxy stands before the same engines, in the proxy's place.

Run: `make measure-unequal-fleet`, or `python -m tests.measurements.unequal_fleet [--rounds 3]`.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import defaultdict
from contextlib import AsyncExitStack
from dataclasses import dataclass
from statistics import median
from typing import Any

import aiohttp
import uvloop

from pair.bench.echo_engine.engine import EchoEngine
from pair.bench.echo_engine.settings import EchoSettings
from pair.core.waves import Lane, alone_s, makespan_bound_s
from tests.measurements.arms import (
    burst,
    existing,
    print_head,
    print_row,
    request,
    spread,
    taught,
    text,
    turned,
    under,
)
from tests.measurements.haproxy import haproxy, haproxy_version
from tests.support.house import house

SPEEDS = (5.6, 1.0, 1.0)
CALLS = (5, 20)
"""20 is what is asked for; with 5 a scheduler that gives the slow machines anything loses."""
PROMPT_TOKENS = 400
OUTPUT_TOKENS = 100
PREFILL_TOKENS_PER_S = 800.0
DECODE_TOKENS_PER_S = 60.0
"""Of a slow machine: a call takes 2.2 s there and 0.39 s on the fast one."""

ALONE = "fast one alone"
HAPROXY = "HAProxy leastconn"
WARM = ", warm"
COLD = ", cold"
PREDICTING = ("finish-time",)
"""Strategies that know more when warm."""
PLAIN = ("queue-depth", "round-robin")


@dataclass(frozen=True)
class Run:
    """One burst; `split` is how many calls each machine answered."""

    makespan_s: float
    split: tuple[int, ...]


def engines() -> list[EchoSettings]:
    """The machines, the fast one first."""
    return [
        EchoSettings(
            prefill_rate_tokens_per_s=PREFILL_TOKENS_PER_S * speed,
            decode_rate_tokens_per_s=DECODE_TOKENS_PER_S * speed,
        )
        for speed in SPEEDS
    ]


def lanes() -> list[Lane]:
    """The machines in theory."""
    call_s = PROMPT_TOKENS / PREFILL_TOKENS_PER_S + OUTPUT_TOKENS / DECODE_TOKENS_PER_S
    return [Lane(1, call_s / speed) for speed in SPEEDS]


def bodies(calls: int, mark: str) -> list[dict[str, Any]]:
    """Equal calls without a common prefix: this is about speed only."""
    # The template's own tokens are a handful.
    characters = 4 * PROMPT_TOKENS - 24
    return [request(text(f"{mark}{n}", characters), OUTPUT_TOKENS) for n in range(calls)]


async def through_pair(arm: str, calls: int) -> Run:
    """One burst through the proxy."""
    strategy = PLAIN[0] if arm == ALONE else arm.removesuffix(WARM).removesuffix(COLD)
    headers = {"x_pair_node": "node-0"} if arm == ALONE else {}
    async with house(*engines(), settings=under(strategy)) as built:
        if arm.endswith(WARM):
            await taught(built, bodies(2, "warm"))
        makespan_s = await burst(built, bodies(calls, "call"), **headers)
        return Run(makespan_s, _split(built.engines))


async def through_haproxy(calls: int) -> Run:
    """The same burst through HAProxy."""
    async with AsyncExitStack() as stack:
        running = [await stack.enter_async_context(EchoEngine(each)) for each in engines()]
        url = await stack.enter_async_context(haproxy([engine.url for engine in running]))
        client = await stack.enter_async_context(
            aiohttp.ClientSession(url, connector=aiohttp.TCPConnector(limit=0))
        )
        start_s = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for body in bodies(calls, "call"):
                tasks.create_task(_post(client, body))
        return Run(time.perf_counter() - start_s, _split(running))


async def _post(client: aiohttp.ClientSession, body: dict[str, Any]) -> None:
    async with client.post("/v1/chat/completions", json=body) as answer:
        said = await answer.read()
        if answer.status != 200 or b"data: [DONE]" not in said:
            raise SystemExit(f"a call without an answer: {answer.status} {said[:200]!r}")


def _split(running: list[EchoEngine]) -> tuple[int, ...]:
    return tuple(engine.journal.counters.started for engine in running)


def arms() -> list[str]:
    """Every arm that can be run here."""
    named = [ALONE]
    for strategy in existing(PREDICTING):
        named += [strategy + COLD, strategy + WARM]
    named += existing(PLAIN)
    if haproxy_version() is None:
        print("left out: HAProxy; `apt-get install haproxy` on Debian", file=sys.stderr)
    else:
        named.append(HAPROXY)
    return named


def main() -> None:
    """Measure and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, nargs="+", default=CALLS)
    asked = parser.parse_args()
    named = arms()
    print(f"{haproxy_version() or 'no HAProxy'}; one-slot echo engines {SPEEDS}\n")
    print_head("calls", "arm", "makespan s", "of T_LB", "of the fast one alone", "calls each")
    for calls in asked.calls:
        runs: dict[str, list[Run]] = defaultdict(list)
        for number in range(asked.rounds):
            for arm in turned(named, number):
                run = through_haproxy(calls) if arm == HAPROXY else through_pair(arm, calls)
                # The loop that `pair` itself runs on.
                runs[arm].append(uvloop.run(run))
        bound_s, fast_s = makespan_bound_s(calls, lanes()), alone_s(calls, lanes()[0])
        print_row(calls, "in theory", f"{bound_s:.2f}", "1.000", f"{bound_s / fast_s:.3f}", "")
        for arm in named:
            times = [run.makespan_s for run in runs[arm]]
            middle = sorted(runs[arm], key=lambda run: run.makespan_s)[len(times) // 2]
            of_bound, of_fast = median(times) / bound_s, median(times) / fast_s
            split = " + ".join(map(str, middle.split))
            print_row(calls, arm, spread(times), f"{of_bound:.3f}", f"{of_fast:.3f}", split)


if __name__ == "__main__":
    main()
