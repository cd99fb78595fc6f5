"""Tokens of an answer and what they took, from the words of its engine: every engine has its own.

Separate from the counting (`sse.py`) because this is exact and runs once, over the beginning and
the end of an answer that may be cut anywhere. Inside a JSON string quotes are escaped, so
`"usage":` with plain quotes is always a key, never something that a model wrote.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from pair.core.call_costs import TIME_LIMIT_S
from pair.core.events import Usage

TOKENS_LIMIT = 10**9
"""A count above this is nonsense and counts as not said."""

_MS_PER_S = 1e3
_NS_PER_S = 1e9

_OBJECT_LIMIT_BYTES = 4096
"""Longest usage object read; with all its details one has about 500 bytes."""

_FIRST_OBJECTS, _LAST_OBJECTS = 4, 12
"""So many objects of a kind are read from the beginning and from the end: an engine that tells its
counts with every token has forty, and one that nests them would take 0.1 s."""

_USAGE = re.compile(rb'"usage"\s*:\s*(?=\{)')
_TIMINGS = re.compile(rb'"timings"\s*:\s*(?=\{)')
_OLLAMA_PROMPT = re.compile(rb'"prompt_eval_count"\s*:\s*(\d{1,10})\b')
_OLLAMA_OUTPUT = re.compile(rb'"eval_count"\s*:\s*(\d{1,10})\b')
_OLLAMA_PREFILL_NS = re.compile(rb'"prompt_eval_duration"\s*:\s*(\d{1,15})\b')
_OLLAMA_DECODE_NS = re.compile(rb'"eval_duration"\s*:\s*(\d{1,15})\b')
_OLLAMA_LOAD_NS = re.compile(rb'"load_duration"\s*:\s*(\d{1,15})\b')

_COUNTS_AND_CLOCKS = tuple(field.name for field in fields(Usage))

_decoder = json.JSONDecoder()


def read_usage(text: bytes) -> Usage:
    """What the engine says in these bytes; where it says a thing several times, the last holds."""
    said, timed, computed = Usage(), Usage(), None
    for usage in _objects(_USAGE, text):
        said = _over(said, _from_usage(usage))
    for timings in _objects(_TIMINGS, text):
        timed = _over(timed, _from_timings(timings))
        computed = _first_count(timings, "prompt_n")
    said = _over(timed, said)
    if said.cached_tokens is None and said.prompt_tokens is not None and computed is not None:
        # An older llama.cpp, which does not say `cache_n`: what it did not compute it had.
        said = replace(said, cached_tokens=max(0, said.prompt_tokens - computed))
    return _over(_from_ollama(text), said)


def _over(under: Usage, over: Usage) -> Usage:
    """Each count and duration from `over` where it says one, else from `under`."""
    return Usage(
        *(
            getattr(under, name) if getattr(over, name) is None else getattr(over, name)
            for name in _COUNTS_AND_CLOCKS
        )
    )


def _from_ollama(text: bytes) -> Usage:
    """Ollama's own form, flat at the end of the answer. Its prompt's tokens are all of them, and
    it never says how many were cached.
    """
    return Usage(
        prompt_tokens=_last_number(_OLLAMA_PROMPT, text),
        output_tokens=_last_number(_OLLAMA_OUTPUT, text),
        prefill_s=_last_duration_s(_OLLAMA_PREFILL_NS, text),
        decode_s=_last_duration_s(_OLLAMA_DECODE_NS, text),
        load_s=_last_duration_s(_OLLAMA_LOAD_NS, text),
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
    return Usage(
        prompt,
        cached,
        _first_count(timings, "predicted_n"),
        _duration_s(timings.get("prompt_ms"), _MS_PER_S),
        _duration_s(timings.get("predicted_ms"), _MS_PER_S),
    )


def _objects(key: re.Pattern[bytes], text: bytes) -> Iterator[dict[str, Any]]:
    """The whole objects under this key, the first few and the last; one that is cut off is left
    out.
    """
    found = list(key.finditer(text))
    del found[_FIRST_OBJECTS:-_LAST_OBJECTS]
    for match in found:
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


def _last_duration_s(pattern: re.Pattern[bytes], text: bytes) -> float | None:
    numbers = pattern.findall(text)
    return _duration_s(int(numbers[-1]), _NS_PER_S) if numbers else None


def _duration_s(said: object, per_s: float) -> float | None:
    """A duration of less than a day (s); NaN, which JSON readers take, is none."""
    if isinstance(said, bool) or not isinstance(said, int | float):
        return None
    return said / per_s if 0 <= said < TIME_LIMIT_S * per_s else None
