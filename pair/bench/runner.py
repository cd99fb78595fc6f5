"""Sends a workload through the `openai` client, as an agent framework would, and keeps what a
client can see of it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import median
from typing import cast

import openai
from openai.types.chat import ChatCompletionChunk

from pair.bench.workload import Workload
from pair.errors import PairError

ANSWER_LIMIT_S = 3600.0
"""Longest wait for one answer: a slow machine with a queue is the very thing that is measured."""


class FailedCall(PairError):
    """A call of the workload got no answer; the text says what the client was told."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One call as its client saw it; times in seconds since the run's start."""

    number: int
    node: str
    started_s: float
    first_content_s: float
    done_s: float
    output_events: int


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a workload; `makespan_s` from the first call's start to the last one's end."""

    answers: tuple[Answer, ...]

    @property
    def makespan_s(self) -> float:
        return max(a.done_s for a in self.answers) - min(a.started_s for a in self.answers)

    @property
    def ttft_s_p50(self) -> float:
        return median(a.first_content_s - a.started_s for a in self.answers)


Progress = Callable[[Answer], None]


class Target:
    """A base URL to send calls to, with the headers that go with each: a proxy, or an engine
    itself.

    Args:
        retries: the client's own; none through a proxy, where one layer retries.
    """

    def __init__(
        self, base_url: str, headers: Mapping[str, str] | None = None, *, retries: int = 0
    ) -> None:
        self._client = openai.AsyncOpenAI(
            base_url=base_url,
            api_key="none",
            max_retries=retries,
            timeout=ANSWER_LIMIT_S,
            default_headers=dict(headers or {}),
            # HTTP_PROXY must not capture calls within the house.
            http_client=openai.DefaultAsyncHttpxClient(trust_env=False),
        )

    async def call(self, workload: Workload, number: int, start: float) -> Answer:
        """Send one call and read its whole stream.

        Raises:
            FailedCall: no answer, or one that broke off.
        """
        started = time.perf_counter()
        first = None
        events = 0
        finished = False
        try:
            raw = await self._client.chat.completions.with_raw_response.create(
                stream=True, **workload.parameters(number)
            )
            stream = cast("openai.AsyncStream[ChatCompletionChunk]", raw.parse())
            async for chunk in stream:
                if chunk.choices and chunk.choices[0].delta.content:
                    first = time.perf_counter() if first is None else first
                    events += 1
                finished = finished or any(choice.finish_reason for choice in chunk.choices)
        except openai.OpenAIError as fault:
            raise FailedCall(f"call {number} failed: {_words(fault)}") from fault
        except ValueError as fault:  # openai lets it through
            raise FailedCall(f"call {number} failed: an event is no JSON: {fault}") from fault
        done = time.perf_counter()
        if not finished:
            raise FailedCall(f"call {number} failed: its stream ended before the answer did")
        node = raw.headers.get("x-pair-node", "")
        content = done if first is None else first
        return Answer(number, node, started - start, content - start, done - start, events)

    async def close(self) -> None:
        """Close its connections."""
        await self._client.close()


def _words(fault: openai.OpenAIError) -> str:
    """What went wrong; of a connection, openai itself says no more than that there was an error."""
    cause = fault.__cause__
    if isinstance(fault, openai.APIConnectionError) and cause is not None and str(cause):
        return f"{str(fault).rstrip('.')}: {cause}"
    return str(fault)


async def run_through(target: Target, workload: Workload, progress: Progress) -> Run:
    """All calls at once to one target, which sees to the rest.

    Raises:
        ExceptionGroup[FailedCall]: one of them failed; the others are cancelled.
    """
    start = time.perf_counter()

    async def one(number: int) -> Answer:
        answer = await target.call(workload, number, start)
        progress(answer)
        return answer

    async with asyncio.TaskGroup() as tasks:
        calls = [tasks.create_task(one(number)) for number in range(workload.calls)]
    return Run(tuple(call.result() for call in calls))


async def run_directly(
    targets: Mapping[str, Target], workload: Workload, progress: Progress
) -> Run:
    """The best that a client can do that knows every engine: one call at a time to each, the next
    to whoever is free first.

    The yardstick for a proxy: no proxy can beat it on one-slot engines.
    """
    start = time.perf_counter()
    numbers = iter(range(workload.calls))

    async def feed(name: str, target: Target) -> list[Answer]:
        answers = []
        for number in numbers:
            answer = replace(await target.call(workload, number, start), node=name)
            progress(answer)
            answers.append(answer)
        return answers

    async with asyncio.TaskGroup() as tasks:
        feeds = [tasks.create_task(feed(name, target)) for name, target in targets.items()]
    return Run(tuple(answer for fed in feeds for answer in fed.result()))
