"""What the measurements of strategies share: an arm is the same work under another strategy.

An arm whose strategy this checkout does not have is left out, and that is said; so a script can be
run before and after a strategy comes.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from pair.core.strategies import STRATEGIES
from pair.settings import ProxySettings, Settings
from tests.support.house import House, Reply

WORDS = "the quick brown fox jumps over the lazy dog and "
"""What prompts are filled with; what it says does not matter to an echo engine."""


def existing(strategies: Iterable[str]) -> list[str]:
    """Those of the strategies that there are."""
    asked = list(strategies)
    for missing in [name for name in asked if name not in STRATEGIES]:
        print(f"left out: there is no strategy {missing!r} here", file=sys.stderr)
    return [name for name in asked if name in STRATEGIES]


def under(strategy: str) -> Settings:
    """The default settings, under this strategy."""
    return replace(Settings(), proxy=ProxySettings(strategy=strategy))


def text(mark: str, characters: int) -> str:
    """A text of this length that shares nothing with that of another mark."""
    filling = f"{mark}: {WORDS}"
    return (filling * (characters // len(filling) + 1))[:characters]


def request(prompt: str, tokens: int, *, system: str = "", **more: Any) -> dict[str, Any]:
    """A streamed chat request with an answer of `tokens` tokens, as agents send it."""
    messages = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": prompt})
    body = {"model": "echo", "messages": messages, "max_tokens": tokens, "stream": True}
    return body | more


async def burst(built: House, bodies: Sequence[dict[str, Any]], **headers: str) -> float:
    """Send all at once; the makespan in seconds."""
    start_s = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for body in bodies:
            tasks.create_task(answered(built, body, **headers))
    return time.perf_counter() - start_s


async def answered(built: House, body: dict[str, Any], **headers: str) -> Reply:
    """The whole answer to one call; one without an answer makes all figures worthless."""
    reply = await built.send(body, **headers)
    if reply.status != 200 or b"data: [DONE]" not in reply.body:
        raise SystemExit(f"a call without an answer: {reply.status} {reply.body[:200]!r}")
    return reply


async def taught(built: House, bodies: Sequence[dict[str, Any]]) -> None:
    """Have every node answer these calls, one after the other, so that its speed is known; then
    forget in the journals that they were there.
    """
    async with asyncio.TaskGroup() as tasks:
        for number in range(len(built.engines)):
            tasks.create_task(_taught(built, f"node-{number}", bodies))
    await built.quiet()
    for engine in built.engines:
        engine.journal.reset()


async def _taught(built: House, node: str, bodies: Sequence[dict[str, Any]]) -> None:
    for body in bodies:
        await answered(built, body, x_pair_node=node)


def turned(arms: Sequence[str], number: int) -> list[str]:
    """The arms in the order of this round (from 0): each is first in its turn."""
    first = number % len(arms)
    return [*arms[first:], *arms[:first]]


def spread(values: Sequence[float], form: str = ".2f") -> str:
    """Smallest, median and largest."""
    return " / ".join(f"{value:{form}}" for value in (min(values), median(values), max(values)))


def print_head(*columns: str) -> None:
    """The first two lines of a Markdown table."""
    print_row(*columns)
    print("|" + "---|" * len(columns))


def print_row(*cells: object) -> None:
    """A further line of it."""
    print(f"| {' | '.join(map(str, cells))} |", flush=True)
