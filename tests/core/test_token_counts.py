from __future__ import annotations

from pair.core.events import Usage
from pair.core.token_counts import TokenCounts


def test_sums_of_what_engines_say() -> None:
    counts = TokenCounts()
    counts.add(Usage())
    assert (counts.prompt, counts.cached, counts.output) == (0, None, 0)
    counts.add(Usage(prompt_tokens=100, output_tokens=5))
    assert (counts.prompt, counts.cached, counts.output) == (100, None, 5), "it has not said"
    counts.add(Usage(prompt_tokens=100, cached_tokens=0, output_tokens=7))
    counts.add(Usage(prompt_tokens=50, cached_tokens=40))
    assert (counts.prompt, counts.cached, counts.output) == (250, 40, 12)


def test_what_cannot_be_is_not_counted() -> None:
    counts = TokenCounts()
    counts.add(Usage(prompt_tokens=-5, cached_tokens=10**12, output_tokens=10**30))
    assert (counts.prompt, counts.cached, counts.output) == (0, 0, 0)
