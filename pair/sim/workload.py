"""What clients want: calls with their times and lengths, drawn before the simulation begins.

Apart from the world so that several strategies, and one node alone, are given exactly the same
calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from pair.core.names import FlowId, JobId, Priority, SessionId
from pair.errors import BookkeepingError
from pair.sim.text import Text, tokens_of

FAN_OUT_SPREAD_S = 0.45
"""The sub-agents of a fan-out come within this; real ones took 30 to 450 ms for all of theirs."""


NO_FLOW = FlowId("")


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """One call.

    Attributes:
        at_s: when it comes, from the first call on; the earliest time for one that `follows`.
        job: the job that the client names, None to have it found by time.
        leaves_after_s: the client hangs up if the call is not done by then, None for never.
        text: what the prompt says, `prompt_tokens` long; empty for a prompt that shares nothing
            with any other.
        answer: the id of the answer's run in later prompts, None where nobody repeats it.
        output_limit_tokens: what the client says of its answer's length, None where it says none.
        follows: the place in the list of the call that must be over before this one comes, however
            it ended; the answer is read for `after_s`. None for a call that waits for no other.
    """

    at_s: float
    prompt_tokens: int
    output_tokens: int
    job: JobId | None = None
    leaves_after_s: float | None = None
    text: Text = ()
    answer: int | None = None
    output_limit_tokens: int | None = None
    session: SessionId | None = None
    flow: FlowId = NO_FLOW
    priority: Priority = Priority.DEFAULT
    follows: int | None = None
    after_s: float = 0.0

    def __post_init__(self) -> None:
        if self.text and tokens_of(self.text) != self.prompt_tokens:
            raise BookkeepingError(
                f"a text of {tokens_of(self.text)} tokens in a prompt of {self.prompt_tokens}"
            )


@dataclass(frozen=True, slots=True)
class Lengths:
    """How long calls are.

    Attributes:
        prompt_tokens, output_tokens: of each call, or their means.
        spread: 0 for equal calls, else the sigma of a log-normal distribution around the means.
    """

    prompt_tokens: int
    output_tokens: int
    spread: float = 0.0

    def draw(self, random: Random) -> tuple[int, int]:
        """Prompt and output tokens of one call, each at least 1."""
        return self._one(self.prompt_tokens, random), self._one(self.output_tokens, random)

    def _one(self, mean: int, random: Random) -> int:
        if not self.spread:
            return mean
        # exp(-sigma^2 / 2) brings the mean of the log-normal back to 1.
        factor = random.lognormvariate(-(self.spread**2) / 2, self.spread)
        return max(1, round(mean * factor))


def burst(count: int, lengths: Lengths, random: Random) -> list[PlannedCall]:
    """All in one instant."""
    return [PlannedCall(0.0, *lengths.draw(random)) for _ in range(count)]


def fan_outs(
    count: int, width: int, every_s: float, lengths: Lengths, random: Random
) -> list[PlannedCall]:
    """Agents that each hand out `width` calls at once, one agent every `every_s`; the last may have
    fewer. Each fan-out is a job of its own.
    """
    calls = []
    for first in range(0, count, width):
        number = first // width
        start_s, job = number * every_s, JobId(f"team-{number + 1}")
        offsets = sorted(random.uniform(0.0, FAN_OUT_SPREAD_S) for _ in range(width))
        calls += [
            PlannedCall(start_s + offset - offsets[0], *lengths.draw(random), job=job)
            for offset in offsets[: count - first]
        ]
    return sorted(calls, key=lambda call: call.at_s)


def poisson(count: int, rate_per_s: float, lengths: Lengths, random: Random) -> list[PlannedCall]:
    """Independent clients: exponential gaps with the given mean rate."""
    return [
        PlannedCall(at_s, *lengths.draw(random)) for at_s in _arrivals(count, rate_per_s, random)
    ]


def _arrivals(count: int, rate_per_s: float, random: Random) -> Iterator[float]:
    at_s = 0.0
    for _ in range(count):
        yield at_s
        at_s += random.expovariate(rate_per_s)
