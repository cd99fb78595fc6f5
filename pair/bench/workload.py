"""The calls that a bench or demo sends: sub-agents of one team, who share a system prompt and
differ in their question.

Equal calls by construction (same prompt length, same number of output tokens), because waves are a
theory of equal calls; how many tokens come out is asked for, not hoped for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

SYSTEM_PROMPT = (
    "You are one of several agents that look at the same question from different sides. "
    "Stay with your own side, be concrete, name what would prove you wrong, "
    "and do not repeat the question. "
    "Write plain text without headings. Keep to the length that you are given."
)

_SIDES = (
    "cost",
    "risk",
    "speed",
    "trust",
    "noise",
    "power",
    "space",
    "care",
    "sound",
    "light",
)
"""One short, common word each: one token in nearly every tokenizer, so that prompts are equally
long.
"""


@dataclass(frozen=True, slots=True)
class Workload:
    """A fan-out of equal calls.

    Attributes:
        calls: how many, all sent at once.
        output_tokens: of each answer.
        system_repeats: how often the shared system prompt is repeated, to make it long.
    """

    model: str
    calls: int
    output_tokens: int
    system_repeats: int = 1

    def messages(self, number: int) -> list[dict[str, str]]:
        """The messages of one call, numbered from 0."""
        side = _SIDES[number % len(_SIDES)]
        question = (
            f"Agent {number % 10}, your side is: {side}. "
            "Should a house have one strong computer or several weak ones?"
        )
        return [
            {"role": "system", "content": " ".join([SYSTEM_PROMPT] * self.system_repeats)},
            {"role": "user", "content": question},
        ]

    def parameters(self, number: int) -> dict[str, Any]:
        """What `chat.completions.create` is called with; engines that know `ignore_eos` give
        exactly `output_tokens`.
        """
        return {
            "model": self.model,
            "messages": self.messages(number),
            "max_tokens": self.output_tokens,
            "temperature": 0.0,
            "extra_body": {"ignore_eos": True},
        }
