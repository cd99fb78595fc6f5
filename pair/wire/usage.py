"""Tokens of an answer, from the words of its engine: every engine has its own.

Separate from the counting (`sse.py`) because this is exact and runs once, over the beginning and
the end of an answer that may be cut anywhere. Inside a JSON string quotes are escaped, so
`"usage":` with plain quotes is always a key, never something that a model wrote.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from pair.core.events import Usage

TOKENS_LIMIT = 10**9
"""A count above this is nonsense and counts as not said."""

_OBJECT_LIMIT_BYTES = 4096
"""Longest usage object read; with all its details one has about 500 bytes."""

_USAGE = re.compile(rb'"usage"\s*:\s*(?=\{)')
_TIMINGS = re.compile(rb'"timings"\s*:\s*(?=\{)')
_OLLAMA_PROMPT = re.compile(rb'"prompt_eval_count"\s*:\s*(\d{1,10})\b')
_OLLAMA_OUTPUT = re.compile(rb'"eval_count"\s*:\s*(\d{1,10})\b')

_decoder = json.JSONDecoder()


def read_usage(text: bytes) -> Usage:
    """What the engine says in these bytes; where it says a thing several times, the last holds."""
    said = Usage()
    for usage in _objects(_USAGE, text):
        said = _over(said, _from_usage(usage))
    for timings in _objects(_TIMINGS, text):
        said = _over(_from_timings(timings), said)
    ollama = Usage(
        prompt_tokens=_last_number(_OLLAMA_PROMPT, text),
        output_tokens=_last_number(_OLLAMA_OUTPUT, text),
    )
    return _over(ollama, said)


def _over(under: Usage, over: Usage) -> Usage:
    """Each count from `over` where it says one, else from `under`."""
    return Usage(
        *(
            lower if upper is None else upper
            for lower, upper in (
                (under.prompt_tokens, over.prompt_tokens),
                (under.cached_tokens, over.cached_tokens),
                (under.output_tokens, over.output_tokens),
            )
        )
    )


def _from_usage(usage: dict[str, Any]) -> Usage:
    """OpenAI's two forms and Anthropic's, which alone leaves the cached tokens out of the
    prompt's.
    """
    prompt = _first_count(usage, "prompt_tokens", "input_tokens")
    cached = None
    for details in ("prompt_tokens_details", "input_tokens_details"):
        if isinstance(usage.get(details), dict):
            cached = _first_count(usage[details], "cached_tokens")
    read = _first_count(usage, "cache_read_input_tokens")
    if read is not None:
        cached = read
    if prompt is not None and "input_tokens" in usage:
        prompt += (read or 0) + (_first_count(usage, "cache_creation_input_tokens") or 0)
    return Usage(prompt, cached, _first_count(usage, "completion_tokens", "output_tokens"))


def _from_timings(timings: dict[str, Any]) -> Usage:
    """llama.cpp's: `prompt_n` counts only what was not in the cache."""
    computed, cached = _first_count(timings, "prompt_n"), _first_count(timings, "cache_n")
    prompt = None if computed is None or cached is None else computed + cached
    return Usage(prompt, cached, _first_count(timings, "predicted_n"))


def _objects(key: re.Pattern[bytes], text: bytes) -> Iterator[dict[str, Any]]:
    """The whole objects under this key; one that is cut off is left out."""
    for match in key.finditer(text):
        beginning = text[match.end() : match.end() + _OBJECT_LIMIT_BYTES].decode("utf-8", "replace")
        try:
            value, _ = _decoder.raw_decode(beginning)
        except (ValueError, RecursionError):
            continue
        yield value


def _first_count(counts: dict[str, Any], *names: str) -> int | None:
    for name in names:
        value = counts.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= TOKENS_LIMIT:
            return value
    return None


def _last_number(pattern: re.Pattern[bytes], text: bytes) -> int | None:
    numbers = pattern.findall(text)
    return min(int(numbers[-1]), TOKENS_LIMIT) if numbers else None
