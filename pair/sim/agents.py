"""What agents do: prompts that begin alike, conversations that grow turn by turn, jobs that meet.

Beside `workload.py`, whose calls share nothing and wait for nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from random import Random

from pair.core.names import FlowId, JobId, SessionId
from pair.sim.text import Run
from pair.sim.workload import Lengths, PlannedCall

SYSTEM_PROMPT = 0
"""The run that all prompts of one workload begin with, where they have one in common."""

OTHER_WORDS = 1 << 40
"""Added to the id of a run makes it another's; no workload has so many."""


def with_system_prompt(calls: Sequence[PlannedCall], tokens: int) -> list[PlannedCall]:
    """The same calls, each with so many tokens before its own that all have in common."""
    return [
        replace(
            call,
            prompt_tokens=tokens + call.prompt_tokens,
            text=(Run(SYSTEM_PROMPT, tokens), Run(own, call.prompt_tokens)),
        )
        for own, call in enumerate(calls, 1)
    ]


def in_other_words(calls: Sequence[PlannedCall]) -> list[PlannedCall]:
    """As many calls of the same lengths, of which nothing is equal to anything in those."""
    return [
        replace(
            call,
            text=tuple(Run(run.id + OTHER_WORDS, run.tokens) for run in call.text),
            answer=None if call.answer is None else call.answer + OTHER_WORDS,
        )
        for call in calls
    ]


def wave(calls: int, system_tokens: int, own: Lengths, random: Random) -> list[PlannedCall]:
    """Sub-agents of one job, all in one instant, each a conversation of its own."""
    job, flow = JobId("wave"), FlowId("wave")
    drawn = [
        PlannedCall(0.0, *own.draw(random), job=job, flow=flow, session=SessionId(f"wave-{number}"))
        for number in range(1, calls + 1)
    ]
    return with_system_prompt(drawn, system_tokens)


def conversations(
    calls: int,
    turns: int,
    *,
    system_tokens: int,
    turn: Lengths,
    every_s: float,
    think_s: float,
    random: Random,
) -> list[PlannedCall]:
    """Agents that each ask `turns` times, one agent every `every_s`; the last may ask fewer times.

    A prompt is all that was said before and the turn's own tokens. The next turn comes when the
    answer was read, which takes an exponential time of mean `think_s`.
    """
    ids = count(SYSTEM_PROMPT + 1)
    made: list[PlannedCall] = []
    for number, first in enumerate(range(0, calls, turns)):
        name = f"agent-{number + 1}"
        said = (Run(SYSTEM_PROMPT, system_tokens),) if system_tokens else ()
        for turn_number in range(min(turns, calls - first)):
            asked, answered = turn.draw(random)
            said = (*said, Run(next(ids), asked))
            answer = next(ids)
            made.append(
                PlannedCall(
                    number * every_s,
                    sum(run.tokens for run in said),
                    answered,
                    text=said,
                    answer=answer,
                    session=SessionId(name),
                    flow=FlowId(name),
                    follows=len(made) - 1 if turn_number else None,
                    after_s=random.expovariate(1 / think_s) if turn_number and think_s else 0.0,
                )
            )
            said = (*said, Run(answer, answered))
    return made


def meeting_jobs(
    sizes: Sequence[int], lengths: Lengths, apart_s: float, random: Random
) -> list[PlannedCall]:
    """A job for each size, whose calls all come at once, one job every `apart_s`."""
    return [
        PlannedCall(
            number * apart_s,
            *lengths.draw(random),
            job=JobId(f"job-{number + 1}"),
            flow=FlowId(f"job-{number + 1}"),
        )
        for number, size in enumerate(sizes)
        for _ in range(size)
    ]
