"""What a replica's answers have had in tokens, all told: prompts, what of them came from a cache,
answers.

Apart from the estimates, which forget on purpose: these only grow, so that a scrape can take their
differences.
"""

from __future__ import annotations

from dataclasses import dataclass

from pair.core.events import Usage

_LIMIT = 10**9
"""More than any call can have; an engine that says so is not believed."""


@dataclass(slots=True)
class TokenCounts:
    """Sums over calls, as far as engines say.

    Attributes:
        prompt: all tokens of prompts, those from a cache included.
        cached: None until the engine has said it once.
    """

    prompt: int = 0
    cached: int | None = None
    output: int = 0

    def add(self, usage: Usage) -> None:
        """Count one call."""
        self.prompt += _possible(usage.prompt_tokens)
        if usage.cached_tokens is not None:
            self.cached = (self.cached or 0) + _possible(usage.cached_tokens)
        self.output += _possible(usage.output_tokens)


def _possible(said: int | None) -> int:
    return said if said is not None and 0 <= said <= _LIMIT else 0
