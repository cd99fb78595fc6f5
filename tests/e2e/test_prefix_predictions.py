"""What the scheduler thinks is cached, against what a real llama.cpp says it had."""

from __future__ import annotations

import random
from typing import Any

import aiohttp
import msgspec
import pytest

from pair.core.names import NodeId, ReplicaId
from pair.core.prefix_index import PrefixIndex
from pair.core.prompt import block_end
from pair.core.replica import Replica
from pair.engines.embedded import EmbeddedEngine, EmbeddedOptions
from pair.engines.model_file import small_model_path
from pair.wire.prompt_reader import read_prompt

pytestmark = pytest.mark.engine

CHAT = "/v1/chat/completions"
TURNS = 3
WORDS = ("the", "of", "and", "to", "in", "is", "that", "for", "it", "as", "was", "with", "by", "on")

TEMPLATE_TOKENS = 12
"""That any two prompts share: the template's first words."""


class Talks:
    """Conversations of random words with one engine, and the index that is told of each call."""

    def __init__(self, engine: EmbeddedEngine, replica: Replica, seed: int) -> None:
        self.engine = engine
        self.replica = replica
        self.index = PrefixIndex(10_000)
        self.random = random.Random(seed)
        # Without a system prompt the template brings its own, which is then a tenth of a prompt.
        self.messages: list[list[dict[str, Any]]] = [
            [{"role": "system", "content": name}] for name in ("Answer.", "Reply.", "Say it.")
        ]

    async def turn(self, asking: aiohttp.ClientSession, talk: int, now: float) -> tuple[int, int]:
        """The next question of one of them: the characters that were predicted to be cached, and
        the tokens that were, in characters.
        """
        text = " ".join(self.random.choices(WORDS, k=90))
        self.messages[talk].append({"role": "user", "content": text})
        body = msgspec.json.encode({"messages": self.messages[talk], "max_tokens": 4})
        prompt = read_prompt(CHAT, (body,))
        predicted = self.index.cached_chars(self.replica, prompt)
        async with asking.post(
            self.engine.url + CHAT, data=body, headers={"content-type": "application/json"}
        ) as answer:
            said = await answer.json()
        timings = said["timings"]
        self.messages[talk].append(said["choices"][0]["message"])
        tokens = timings["cache_n"] + timings["prompt_n"]
        cached_tokens = timings["cache_n"] if timings["cache_n"] > TEMPLATE_TOKENS else 0
        cached_chars = round(cached_tokens * prompt.chars / tokens)
        self.replica.in_flight = 1
        self.index.prefilled(self.replica, prompt, now)
        self.index.corrected(self.replica, prompt, cached_chars, now)
        self.index.released(self.replica, prompt, now)
        self.replica.in_flight = 0
        return predicted, cached_chars


@pytest.mark.parametrize(("slots", "cache_mib"), [(1, 64), (2, 0)], ids=["a shelf", "two slots"])
async def test_what_llama_cpp_has_cached_is_foreseen(slots: int, cache_mib: int) -> None:
    options = EmbeddedOptions(small_model_path(), "small", slots, 1024, 1, cache_mib)
    timeout = aiohttp.ClientTimeout(total=120.0)
    async with EmbeddedEngine(options) as engine, aiohttp.ClientSession(timeout=timeout) as asking:
        await engine.ready()
        (report,) = (await engine.report(asking)).replicas
        replica = Replica(ReplicaId(NodeId("n"), report.engine, report.model), "n", report)
        talks, now, hits = Talks(engine, replica, seed=4), 0.0, 0
        for turn in range(TURNS):
            order = talks.random.sample(range(len(talks.messages)), len(talks.messages))
            for talk in order:
                now += 1.0
                predicted, cached = await talks.turn(asking, talk, now)
                # Short by the latest answer and by the block that it ends in.
                assert predicted <= cached + block_end(1) / 2
                assert cached - predicted < 2 * block_end(1), (turn, talk)
                hits += predicted > 0
        assert hits > 0
        if cache_mib:
            assert hits == len(talks.messages) * (TURNS - 1)
