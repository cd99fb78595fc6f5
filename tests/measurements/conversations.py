"""Conversations on real engines: what it is worth that a turn finds its conversation in a cache.

Two embedded llama.cpp nodes of one thread each, found and asked as at home; eight conversations of
six turns, whose contexts grow from 500 to 1,500 tokens by the model's own answers and new
questions. Two turns are under way at any time; which conversation is next is shuffled anew for each
round of turns, by the run's number, alike for all arms. Every arm has fresh engines. Then short
chats of 50 tokens that have nothing in common, on one house whose strategy is switched between
blocks of calls.

An infinite cache is reckoned afterwards from the engine's own tokens: for each prompt the longest
beginning that it shares with any prompt and answer that was over by then.

Run: `make measure-conversations`, or `python -m tests.measurements.conversations [--runs 3]`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from statistics import median
from typing import Any

import aiohttp
import uvloop

from pair.core.events import StrategyChosen
from tests.measurements.arms import existing, print_head, print_row, spread, turned
from tests.support.embedded_house import EmbeddedHouse, embedded_house

NODES = 2
AT_ONCE = 2
SLOTS = 2
"""Of each node, on its one thread: a turn whose conversation's node works for another one need not
wait for the end of that."""
CONVERSATIONS = 8
TURNS = 6
FIRST_WORDS = 460
"""With the template about 500 tokens; nearly every word below is one token."""
QUESTION_WORDS = 30
ANSWER_TOKENS = 160
"""Question, answer and template together 200 tokens a turn."""

CACHE_MIB = 140
"""Each node has room for five of the eight conversations at their full length, that in its slot
included (23 kB a token). In proportion: the embedded engine's default of 512 MiB keeps two such
conversations of an 8B model, and all of them of this small one, whatever the strategy."""

SHORT_WORDS = 20
"""With the template about 50 tokens."""
SHORT_TOKENS = 24
SHORT_CALLS = 8
"""In one block."""
SHORT_BLOCKS = 8
"""For each arm."""

STRATEGIES = ("queue-depth", "finish-time")
"""The first is what the others are compared with."""

_TEXT = (
    "time year people way day man thing woman life child world school state family student group"
    " country problem hand part place case week company system program question work government"
    " number night point home water room mother area money story fact month lot right study book"
    " eye job word business issue side kind head house service friend father power hour game line"
)
WORDS = tuple(_TEXT.split())


@dataclass
class Turn:
    """One call as its client saw it; times in s since the run's start."""

    messages: list[dict[str, str]]
    started_s: float
    answer: str = ""
    node: str = ""
    first_s: float = 0.0
    done_s: float = 0.0
    prompt_tokens: int = 0
    cached_tokens: int = 0

    @property
    def ttft_s(self) -> float:
        return self.first_s - self.started_s


@dataclass
class Conversation:
    """What has been said; one turn at a time."""

    questions: list[str]
    messages: list[dict[str, str]] = field(default_factory=list)
    turns: int = 0
    busy: bool = False


@dataclass(frozen=True)
class Figures:
    """One run of one arm.

    Attributes:
        moved: turns that went to another node than the one before.
        infinite_share: what an infinite cache would have had of the prompt tokens.
    """

    makespan_s: float
    ttft_s_p50: float
    cached_share: float
    infinite_share: float
    moved: int


class Client:
    """Sends chats as an agent would and keeps what it saw."""

    def __init__(self, house: EmbeddedHouse, session: aiohttp.ClientSession) -> None:
        self._model = house.model
        self._url = f"{house.base_url}/chat/completions"
        self._session = session
        self._start_s = time.perf_counter()
        self.turns: list[Turn] = []

    async def ask(self, messages: list[dict[str, str]], tokens: int, node: str = "") -> Turn:
        """One streamed call, read to its end."""
        turn = Turn(list(messages), self._now_s())
        self.turns.append(turn)
        body = {
            "model": self._model,
            "messages": messages,
            "max_tokens": tokens,
            "temperature": 0.0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        headers = {"x-pair-node": node} if node else {}
        async with self._session.post(self._url, json=body, headers=headers) as answer:
            if answer.status != 200:
                raise SystemExit(f"a call without an answer: {answer.status}")
            turn.node = answer.headers["x-pair-node"]
            async for line in answer.content:
                if line.startswith(b"data: {"):
                    self._take(turn, json.loads(line[6:]))
        turn.done_s = self._now_s()
        return turn

    def _take(self, turn: Turn, event: dict[str, Any]) -> None:
        for choice in event["choices"]:
            piece = choice["delta"].get("content")
            if piece:
                turn.first_s = turn.first_s or self._now_s()
                turn.answer += piece
        usage = event.get("usage")
        if usage:
            turn.prompt_tokens = usage["prompt_tokens"]
            turn.cached_tokens = usage["prompt_tokens_details"]["cached_tokens"]

    def _now_s(self) -> float:
        return time.perf_counter() - self._start_s


def said(count: int, random: Random) -> str:
    """So many words."""
    return " ".join(random.choice(WORDS) for _ in range(count))


async def taught(client: Client, house: EmbeddedHouse) -> None:
    """Two calls to each node, so that no arm pays for a first one, and speeds are known."""
    random = Random("taught")
    for node in house.engines:
        for _ in range(2):
            await client.ask([{"role": "user", "content": said(100, random)}], 16, node)


async def conversed(strategy: str, run: int, cache_mib: int) -> Figures:
    """All turns of all conversations in one fresh house."""
    random = Random(f"conversations {run}")
    conversations = []
    for _ in range(CONVERSATIONS):
        lengths = [FIRST_WORDS] + [QUESTION_WORDS] * (TURNS - 1)
        conversations.append(Conversation([said(length, random) for length in lengths]))
    order = []
    for _ in range(TURNS):
        turn = list(conversations)
        random.shuffle(turn)
        order += turn
    async with (
        embedded_house(NODES, strategy=strategy, cache_mib=cache_mib, slots=SLOTS) as house,
        aiohttp.ClientSession() as session,
    ):
        client = Client(house, session)
        await taught(client, house)
        before = len(client.turns)
        begin_s = time.perf_counter()
        changed = asyncio.Condition()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(AT_ONCE):
                tasks.create_task(_talk(client, order, changed))
        makespan_s = time.perf_counter() - begin_s
        url = next(iter(house.engines.values()))
        infinite = await infinite_tokens(client.turns, before, url, session)
    turns = client.turns[before:]
    prompt_tokens = sum(turn.prompt_tokens for turn in turns)
    return Figures(
        makespan_s,
        median(turn.ttft_s for turn in turns),
        sum(turn.cached_tokens for turn in turns) / prompt_tokens,
        infinite / prompt_tokens,
        _moved(turns),
    )


async def _talk(client: Client, order: list[Conversation], changed: asyncio.Condition) -> None:
    """One of those that take turn after turn, the next whose conversation is not under way."""

    def following() -> int | None:
        return next((n for n, each in enumerate(order) if not each.busy), None)

    while True:
        async with changed:
            await changed.wait_for(lambda: not order or following() is not None)
            place = following()
            if place is None:
                return
            conversation = order.pop(place)
            conversation.busy = True
        question = {"role": "user", "content": conversation.questions[conversation.turns]}
        conversation.messages.append(question)
        turn = await client.ask(conversation.messages, ANSWER_TOKENS)
        conversation.messages.append({"role": "assistant", "content": turn.answer})
        conversation.turns += 1
        conversation.busy = False
        async with changed:
            changed.notify_all()


def _moved(turns: Sequence[Turn]) -> int:
    """Turns that did not go where the same conversation's one before went."""
    last: dict[str, str] = {}
    moved = 0
    for turn in turns:
        conversation = turn.messages[0]["content"]
        moved += last.get(conversation, turn.node) != turn.node
        last[conversation] = turn.node
    return moved


async def infinite_tokens(
    turns: Sequence[Turn], before: int, url: str, session: aiohttp.ClientSession
) -> int:
    """Prompt tokens that one infinite cache for all nodes would have had, of the turns after the
    first `before`, which it remembers all the same.
    """
    held: list[tuple[float, list[int]]] = []
    prompts = []
    for turn in turns:
        prompt = await _text(turn.messages, url, session)
        prompts.append(await _tokens(prompt, url, session))
        held.append((turn.done_s, await _tokens(prompt + turn.answer, url, session)))
    cached = 0
    for turn, prompt_tokens in list(zip(turns, prompts, strict=True))[before:]:
        earlier = [tokens for done_s, tokens in held if done_s <= turn.started_s]
        longest = max((_common(prompt_tokens, tokens) for tokens in earlier), default=0)
        cached += min(longest, len(prompt_tokens) - 1)
    return cached


async def _text(messages: list[dict[str, str]], url: str, session: aiohttp.ClientSession) -> str:
    async with session.post(f"{url}/apply-template", json={"messages": messages}) as answer:
        return str((await answer.json())["prompt"])


async def _tokens(text: str, url: str, session: aiohttp.ClientSession) -> list[int]:
    body = {"content": text, "add_special": True, "parse_special": True}
    async with session.post(f"{url}/tokenize", json=body) as answer:
        return list((await answer.json())["tokens"])


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


async def short_chats(strategies: Sequence[str], blocks: int) -> dict[str, list[float]]:
    """Makespans (s) of blocks of short calls under each strategy, in turn, in one house."""
    random = Random("short")
    found: dict[str, list[float]] = defaultdict(list)
    async with embedded_house(NODES) as house, aiohttp.ClientSession() as session:
        client = Client(house, session)
        await taught(client, house)
        for number in range(blocks):
            for strategy in turned(strategies, number):
                house.proxy.dispatcher.feed(StrategyChosen(strategy, None))
                chats = [said(SHORT_WORDS, random) for _ in range(SHORT_CALLS)]
                asked = [[{"role": "user", "content": chat}] for chat in chats]
                start_s = time.perf_counter()
                async with asyncio.TaskGroup() as tasks:
                    for _ in range(AT_ONCE):
                        tasks.create_task(_ask_all(client, asked))
                found[strategy].append(time.perf_counter() - start_s)
    return found


async def _ask_all(client: Client, asked: list[list[dict[str, str]]]) -> None:
    while asked:
        await client.ask(asked.pop(), SHORT_TOKENS)


def print_conversations(arms: Sequence[str], runs: int, cache_mib: int) -> None:
    """Each run, then the medians and what they say beside the first arm."""
    print_head(
        "run", "strategy", "TTFT p50 s", "cached share", "of an infinite cache's", "moved", "time s"
    )
    found: dict[str, list[Figures]] = defaultdict(list)
    for run in range(runs):
        for arm in turned(arms, run):
            # The loop that `pair` itself runs on.
            each = uvloop.run(conversed(arm, run, cache_mib))
            found[arm].append(each)
            share = f"{each.cached_share / each.infinite_share:.1%}"
            cells = [f"{each.ttft_s_p50:.2f}", f"{each.cached_share:.1%}", share]
            print_row(run + 1, arm, *cells, each.moved, f"{each.makespan_s:.1f}")
    for arm in arms:
        mine = found[arm]
        of_infinite = median(each.cached_share / each.infinite_share for each in mine)
        cells = [f"{median(each.ttft_s_p50 for each in mine):.2f}"]
        cells += [f"{median(each.cached_share for each in mine):.1%}", f"{of_infinite:.1%}"]
        moved = f"{median(each.moved for each in mine):.0f}"
        print_row("median", arm, *cells, moved, f"{median(each.makespan_s for each in mine):.1f}")
    print()
    for arm in arms[1:]:
        both = list(zip(found[arms[0]], found[arm], strict=True))
        lower = median(1 - b.ttft_s_p50 / a.ttft_s_p50 for a, b in both)
        faster = median(a.makespan_s / b.makespan_s - 1 for a, b in both)
        print(f"{arm} beside {arms[0]}: TTFT p50 {lower:.1%} lower, throughput {faster:+.1%}")


def print_short(arms: Sequence[str], blocks: int) -> None:
    """Throughput of the short chats."""
    found = uvloop.run(short_chats(arms, blocks))
    print(f"\nShort chats, {blocks} blocks of {SHORT_CALLS} calls for each strategy:\n")
    print_head("strategy", "block s min / median / max", "throughput")
    for arm in arms:
        # Of all blocks together: single ones scatter by more than what is looked for.
        ratio = sum(found[arms[0]]) / sum(found[arm]) - 1
        print_row(arm, spread(found[arm]), f"{ratio:+.1%}")


def main() -> None:
    """Measure and print Markdown tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cache-mib", type=int, default=CACHE_MIB)
    parser.add_argument("--short-blocks", type=int, default=SHORT_BLOCKS, help="0 for none")
    parser.add_argument("--strategies", nargs="+", default=STRATEGIES)
    asked = parser.parse_args()
    arms = existing(asked.strategies)
    start_s = time.perf_counter()
    if asked.runs:
        print_conversations(arms, asked.runs, asked.cache_mib)
    if asked.short_blocks:
        print_short(arms, asked.short_blocks)
    print(f"\n{time.perf_counter() - start_s:.0f} s in all")


if __name__ == "__main__":
    main()
