"""A wave of sub-agents with a common system prompt, on nodes that remember prompts: whether it is
spread evenly, and how many of its prompts find their beginning in a cache.

Twelve calls at once on three one-slot echo engines, whose caches work as llama.cpp's. The best on
cold caches is four on each node, the first of them cold, nine hits. In the second case the team's
leader has made one call before, so that one node knows the system prompt: who follows the cache
alone sends the whole wave there. Fresh engines and proxy for each run, all arms in turn in each
round; `speeds known`: each node has answered two calls with other prompts.

Run: `make measure-prefix-wave`, or `python -m tests.measurements.prefix_wave [--rounds 3]`.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import dataclass
from itertools import product
from statistics import median
from typing import Any

import uvloop

from pair.bench.echo_engine import tokenizer
from pair.bench.echo_engine.settings import EchoSettings
from tests.measurements.arms import (
    answered,
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
from tests.support.house import house

NODES = 3
CALLS = 12
SYSTEM_CHARACTERS = 6000
QUESTION_CHARACTERS = 120
OUTPUT_TOKENS = 50
ENGINE = EchoSettings(prefill_rate_tokens_per_s=1000.0, decode_rate_tokens_per_s=50.0)
"""A cold call takes 2.5 s, one whose system prompt is cached 1.0 s."""

HIT_SHARE = 0.9
"""Of the common prompt: a call that found less of it in a cache has missed."""

CASES = ("cold caches", "one node warm")
"""By the number of nodes that know the system prompt."""

KNOWN = ", speeds known"
STRATEGIES = ("finish-time", "prefix-aware", "kv-aware", "session", "queue-depth", "round-robin")


@dataclass(frozen=True)
class Run:
    """One wave; `split` is how many calls each node answered."""

    makespan_s: float
    split: tuple[int, ...]
    hits: int
    cached_share: float


def bodies(mark: str, count: int) -> list[dict[str, Any]]:
    """The calls of one team: the same system prompt, each its own question."""
    system = text(f"the system prompt of {mark}", SYSTEM_CHARACTERS)
    return [
        request(text(f"{n} asks", QUESTION_CHARACTERS), OUTPUT_TOKENS, system=system)
        for n in range(count)
    ]


def ideal_s(warm_nodes: int) -> float:
    """The best makespan over all ways to split the calls, where the first call on a node is cold,
    unless it is one of the warm ones, and all others find the system prompt in its cache.
    """
    one, other = (rendered(body) for body in bodies("team", 2))
    decode_s = OUTPUT_TOKENS / ENGINE.decode_rate_tokens_per_s
    cold_s = tokenizer.count(one) / ENGINE.prefill_rate_tokens_per_s + decode_s
    uncached = tokenizer.count(other) - tokenizer.shared_tokens(one, other)
    warm_s = uncached / ENGINE.prefill_rate_tokens_per_s + decode_s

    def share_s(node: int, calls: int) -> float:
        first_s = warm_s if node < warm_nodes else cold_s
        return first_s + (calls - 1) * warm_s if calls else 0.0

    splits = (each for each in product(range(CALLS + 1), repeat=NODES) if sum(each) == CALLS)
    return min(max(map(share_s, range(NODES), split)) for split in splits)


def rendered(body: dict[str, Any]) -> str:
    """The prompt as the echo engine counts it."""
    return tokenizer.render((message["role"], message["content"]) for message in body["messages"])


async def wave(arm: str, warm_nodes: int) -> Run:
    """One wave, where the first `warm_nodes` nodes know its system prompt."""
    async with house(*[ENGINE] * NODES, settings=under(arm.removesuffix(KNOWN))) as built:
        if arm.endswith(KNOWN):
            await taught(built, bodies("others", 2))
        for node in range(warm_nodes):
            await answered(built, bodies("team", CALLS + 1)[CALLS], x_pair_node=f"node-{node}")
            built.engines[node].journal.reset()
        makespan_s = await burst(built, bodies("team", CALLS))
        journals = [engine.journal for engine in built.engines]
        entries = [entry for journal in journals for entry in journal.entries]
        common_tokens = SYSTEM_CHARACTERS // tokenizer.CHARACTERS_PER_TOKEN
        return Run(
            makespan_s,
            tuple(journal.counters.started for journal in journals),
            sum(entry.cached_tokens > HIT_SHARE * common_tokens for entry in entries),
            sum(entry.cached_tokens for entry in entries)
            / sum(entry.prompt_tokens for entry in entries),
        )


def main() -> None:
    """Measure and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    arms = existing(STRATEGIES)
    arms += [f"{arm}{KNOWN}" for arm in arms if arm == STRATEGIES[0]]
    print_head("case", "strategy", "makespan s", "of ideal", "calls each", "hits", "cached share")
    for warm_nodes, case in enumerate(CASES):
        runs: dict[str, list[Run]] = defaultdict(list)
        for number in range(rounds):
            for arm in turned(arms, number):
                runs[arm].append(uvloop.run(wave(arm, warm_nodes)))
        best_s = ideal_s(warm_nodes)
        print_row(case, "in theory", f"{best_s:.2f}", "1.000", "", "", "")
        for arm in arms:
            times = [run.makespan_s for run in runs[arm]]
            middle = sorted(runs[arm], key=lambda run: run.makespan_s)[rounds // 2]
            of_best = f"{median(times) / best_s:.3f}"
            split = " + ".join(map(str, middle.split))
            hits, share = f"{middle.hits} of {CALLS}", f"{middle.cached_share:.1%}"
            print_row(case, arm, spread(times), of_best, split, hits, share)


if __name__ == "__main__":
    main()
