"""What one answered call was and took, in tokens and seconds, from the best of what tells it.

Separate from what is learned of it (`estimates.py`) because this is about one call alone: the
engine's clocks before ours, the engine's counts before those reckoned from characters, and nothing
at all where a number cannot be.
"""

from __future__ import annotations

from dataclasses import dataclass

from pair.core.events import Usage

TIME_LIMIT_S = 86_400.0
"""A call of more than a day was no call."""
_TIME_LEAST_S = 1e-6
"""Less than this is what a clock says that has not moved."""
_TOKENS_LIMIT = 10**9

_ONE_PIECE_TPOT_S = 1e-4
"""A stream whose tokens follow each other faster came in one piece: engines hold tool calls back
until they are whole. The fastest engines of 2026 need five times as long."""

_GUESSED_WEIGHT = 0.5
"""Of prompt tokens that are reckoned from characters."""

_UNKNOWN_WEIGHT, _PREDICTED_WEIGHT = 0.05, 0.2
"""Of a prefill that is faster than known where the engine does not tell what it had cached: rather
a hit than a faster machine, even if the prefix index has foreseen another (it forgets at a restart,
the engine does not). Not 0, for a machine does become free of other work."""

_CLOCK_FACTOR, _CLOCK_SLACK_S = 1.1, 0.1
"""An engine's clock that says more than this over what the whole call took here is wrong."""


@dataclass(frozen=True, slots=True)
class Cost:
    """One call in tokens and seconds.

    Attributes:
        uncached: tokens of the prompt that the engine had to read.
        sure: 1 where the engine has told the prompt's tokens, less where they are reckoned from its
            characters.
        fast_weight: how much a prefill counts that is faster than known: 1 where the engine has
            told what it had cached, little where it may have had more than is thought.
        prefill_s, decode_s: None where nothing tells this part from the other.
        output: tokens of the answer; None where nobody has counted them.
        decoded: the tokens in `decode_s`: of a stream all but the first.
        whole_s: from lease to end without the model's load.
        load_s: as the engine says; small where the model was in memory.
    """

    uncached: float
    sure: float
    fast_weight: float
    output: float | None
    prefill_s: float | None
    decode_s: float | None
    decoded: float
    whole_s: float | None
    load_s: float | None


def possible_s(said: float | None) -> float | None:
    """A duration that can be (s), above 0; None for any other, NaN included."""
    return said if said is not None and _TIME_LEAST_S <= said < TIME_LIMIT_S else None


def possible_count(said: float | None) -> float | None:
    """Tokens that can be; None for anything else, NaN included."""
    return said if said is not None and 0 <= said <= _TOKENS_LIMIT else None


def output_of(usage: Usage) -> float | None:
    """Tokens of the answer; an engine that tells the prompt's alone has made none (embeddings)."""
    output = possible_count(usage.output_tokens)
    return 0 if output is None and usage.prompt_tokens is not None else output


def cost_of(
    usage: Usage,
    *,
    guessed_tokens: float,
    guessed_cached_tokens: float | None,
    first_byte_s: float | None,
    service_s: float,
) -> Cost:
    """What an answered call was and took.

    Args:
        guessed_tokens, guessed_cached_tokens: of the prompt, where the engine does not say.
        first_byte_s: lease granted to first content byte; None unless streamed.
        service_s: lease granted to closed.
    """
    prompt, sure = possible_count(usage.prompt_tokens), 1.0
    if prompt is None:
        prompt, sure = possible_count(guessed_tokens) or 0.0, _GUESSED_WEIGHT
    cached, fast_weight = possible_count(usage.cached_tokens), 1.0
    if cached is None:
        cached = possible_count(guessed_cached_tokens)
        fast_weight = _UNKNOWN_WEIGHT if cached is None else _PREDICTED_WEIGHT
    output, load_s = output_of(usage), possible_s(usage.load_s)
    prefill_s, decode_s = _engine_clocks(usage, possible_s(service_s))
    whole_s, first_s = _without(load_s, service_s), _without(load_s, first_byte_s)
    decoded = output or 0.0
    if whole_s is None:
        pass
    elif first_s is not None and not _in_one_piece(output, whole_s - first_s):
        prefill_s = first_s if prefill_s is None else prefill_s
        if decode_s is None and output is not None and output >= 2:
            decode_s, decoded = possible_s(whole_s - first_s), output - 1
    elif prefill_s is None and decode_s is None:
        prefill_s = whole_s if output == 0 else None
    elif prefill_s is None:
        prefill_s = _without(decode_s, whole_s)
    elif decode_s is None:
        decode_s = _without(prefill_s, whole_s)
    return Cost(
        uncached=max(0.0, prompt - (cached or 0.0)),
        sure=sure,
        fast_weight=fast_weight,
        output=output,
        prefill_s=prefill_s,
        decode_s=decode_s,
        decoded=decoded,
        whole_s=whole_s,
        load_s=load_s,
    )


def _without(part_s: float | None, whole_s: float | None) -> float | None:
    """What is left of a time, None where nothing is."""
    whole_s = possible_s(whole_s)
    return None if whole_s is None else possible_s(whole_s - (part_s or 0.0))


def _engine_clocks(usage: Usage, service_s: float | None) -> tuple[float | None, float | None]:
    """Prefill and decode (s) as the engine says, where that fits into the call."""
    prefill_s, decode_s = possible_s(usage.prefill_s), possible_s(usage.decode_s)
    if service_s is not None:
        limit_s = service_s * _CLOCK_FACTOR + _CLOCK_SLACK_S
        prefill_s = None if prefill_s is None or prefill_s > limit_s else prefill_s
        decode_s = None if decode_s is None or decode_s > limit_s else decode_s
    return prefill_s, decode_s


def _in_one_piece(output: float | None, after_s: float) -> bool:
    """Whether a stream was none: its tokens came together, `after_s` after the first byte."""
    return output is not None and output >= 2 and after_s < _ONE_PIECE_TPOT_S * (output - 1)
