"""What is known of each replica's speed and each model's texts, learned from answered calls.

Separate from the strategies, which only ask it for seconds and tokens, and from the theory of one
replica's speed (`speeds.py`): here is who is known, and who is forgotten.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TypeVar

from pair.core.call_costs import cost_of, output_of, possible_count
from pair.core.decaying import Decaying, seen
from pair.core.events import Usage
from pair.core.names import ModelName, ReplicaId
from pair.core.speeds import Rates, Speed, remembered

CHARS_PER_TOKEN = 4.0
"""Before a model's own ratio is known: about right for English and for source code."""

OUTPUT_TOKENS = 256.0
"""What an answer is expected to have before any was seen: a paragraph or a tool call."""

_RATIO_LIMITS = (0.25, 20.0)
"""Characters per token of text in any language; beyond them the prompt had images, or the engine
has left out what was in its cache, and nothing is learned of the ratio."""

_FULL_PROMPT_TOKENS = 512
"""From so many tokens on a prompt tells the ratio with full weight; the template around a short one
has tokens and no characters."""

_ANSWERS = 20.0
"""Answers that the mean of output tokens rests on: they differ by factors of a hundred."""

_LEAST_TPOT_S = 1e-5
"""An answer of more tokens than its call had time for, thirty times as many as the fastest engine
of 2026 makes, is none: one count of 1e9 would make all predictions of its model days."""

_Key = TypeVar("_Key")
_Entry = TypeVar("_Entry")


@dataclass(frozen=True, slots=True)
class Finished:
    """One answered call, as the desk saw it.

    Attributes:
        model: the replica's own name of it, under which its ratio and its answers are known.
        prompt_chars: 0 where the prompt could not be read.
        first_byte_s: lease granted to first content byte; None unless streamed.
        service_s: lease granted to closed.
        busy: calls on the replica when it began, itself and those of others included, at least 1.
        expected_cached_tokens: what was thought to be in the cache, for engines that do not say
            (`Usage.cached_tokens`); None where nothing was thought.
    """

    replica: ReplicaId
    model: ModelName
    prompt_chars: int
    usage: Usage
    first_byte_s: float | None
    service_s: float
    busy: int
    expected_cached_tokens: float | None = None


@dataclass(frozen=True, slots=True)
class LearnedReplica:
    """What is known of one replica, for the file. Nothing in it depends on any clock.

    Attributes:
        tpots_s: with their buckets of calls at once, in order.
    """

    replica: ReplicaId
    prefill_tokens_per_s: Decaying | None
    tpots_s: tuple[tuple[int, Decaying], ...]
    load_s: Decaying | None


@dataclass(frozen=True, slots=True)
class LearnedModel:
    """What is known of one model, wherever it runs.

    Attributes:
        output_tokens: the mean of its answers; None before any.
    """

    model: ModelName
    chars_per_token: Decaying | None
    output_tokens: float | None


@dataclass(frozen=True, slots=True)
class Learned:
    """All that is known, the least recently used first."""

    replicas: tuple[LearnedReplica, ...] = ()
    models: tuple[LearnedModel, ...] = ()


@dataclass(slots=True)
class _Texts:
    """Of one model; the mean of `outputs` answers, at most `_ANSWERS`."""

    ratio: Decaying | None = None
    output: float = OUTPUT_TOKENS
    outputs: float = 0.0


class Estimates:
    """Bounded tables of replicas and of models, of which the least recently used are forgotten.

    Args:
        replicas_limit: most replicas, and most models; at least 1.
    """

    def __init__(self, replicas_limit: int) -> None:
        self._limit = replicas_limit
        self._rates: OrderedDict[ReplicaId, Rates] = OrderedDict()
        self._texts: OrderedDict[ModelName, _Texts] = OrderedDict()

    def __len__(self) -> int:
        return len(self._rates)

    def learn(self, call: Finished, now: float) -> None:
        """One call was answered. Numbers that cannot be are left out: usage is an engine's word."""
        _learn_texts(self._of_model(call.model), call)
        cost = cost_of(
            call.usage,
            guessed_tokens=self.prompt_tokens(call.model, max(0, call.prompt_chars)),
            guessed_cached_tokens=call.expected_cached_tokens,
            first_byte_s=call.first_byte_s,
            service_s=call.service_s,
        )
        self._of_replica(call.replica).learn(cost, call.busy, now)

    def speed(self, replica: ReplicaId, busy: int = 1) -> Speed | None:
        """What this replica does for a call, None where nothing has been learned of it.

        Args:
            busy: calls there at once, this one included. Where that was never seen, the nearest
                number that was stands for it.
        """
        rates = self._rates.get(replica)
        return None if rates is None else rates.speed(busy)

    def chars_per_token(self, model: ModelName) -> float:
        """Learned from prompts whose tokens the engine has told, `CHARS_PER_TOKEN` before."""
        texts = self._texts.get(model)
        return CHARS_PER_TOKEN if texts is None or texts.ratio is None else texts.ratio.value

    def prompt_tokens(self, model: ModelName, chars: int) -> float:
        """About how many tokens a text of so many characters has."""
        return chars / self.chars_per_token(model)

    def output_tokens(self, model: ModelName, limit_tokens: int | None) -> float:
        """How many tokens an answer will have: the mean of the model's latest, never above the
        client's limit.
        """
        texts = self._texts.get(model)
        expected = OUTPUT_TOKENS if texts is None else texts.output
        return expected if limit_tokens is None else min(expected, max(0, limit_tokens))

    def learned_of(self, replica: ReplicaId) -> LearnedReplica | None:
        """What is known of one replica, None where nothing is."""
        rates = self._rates.get(replica)
        if rates is None:
            return None
        return LearnedReplica(
            replica, rates.prefill, tuple(sorted(rates.tpots.items())), rates.load
        )

    def learned(self) -> Learned:
        """All of it, to be kept while `pair` does not run."""
        return Learned(
            tuple(one for name in self._rates if (one := self.learned_of(name)) is not None),
            tuple(
                LearnedModel(name, texts.ratio, texts.output if texts.outputs else None)
                for name, texts in self._texts.items()
            ),
        )

    def restore(self, learned: Learned) -> None:
        """Take over what was known once, each as one observation; what was learned in this life
        stands above it.
        """
        rates, texts = self._rates, self._texts
        self._rates, self._texts = OrderedDict(), OrderedDict()
        for replica in learned.replicas:
            known = self._of_replica(replica.replica)
            known.restore(replica.prefill_tokens_per_s, replica.tpots_s, replica.load_s)
        for model in learned.models:
            kept = self._of_model(model.model)
            kept.ratio = remembered(model.chars_per_token, _RATIO_LIMITS)
            output = possible_count(model.output_tokens)
            if output is not None:
                kept.output, kept.outputs = output, 1.0
        for replica_id, fresh in rates.items():
            _put(self._rates, replica_id, fresh, self._limit)
        for name, latest in texts.items():
            _put(self._texts, name, latest, self._limit)

    def _of_replica(self, name: ReplicaId) -> Rates:
        return _put(self._rates, name, self._rates.get(name) or Rates(), self._limit)

    def _of_model(self, name: ModelName) -> _Texts:
        return _put(self._texts, name, self._texts.get(name) or _Texts(), self._limit)


def _put(table: OrderedDict[_Key, _Entry], key: _Key, entry: _Entry, limit: int) -> _Entry:
    """Make it the latest, and let the oldest go."""
    table[key] = entry
    table.move_to_end(key)
    while len(table) > limit:
        table.popitem(last=False)
    return entry


def _learn_texts(texts: _Texts, call: Finished) -> None:
    """Characters per token, and how long the model's answers are."""
    tokens = possible_count(call.usage.prompt_tokens)
    if tokens and call.prompt_chars > 0:
        ratio = call.prompt_chars / tokens
        if _RATIO_LIMITS[0] <= ratio <= _RATIO_LIMITS[1]:
            weight = min(1.0, (tokens / _FULL_PROMPT_TOKENS) ** 2)
            texts.ratio = seen(texts.ratio, ratio, weight)
    output = output_of(call.usage)
    if output is not None and output * _LEAST_TPOT_S <= call.service_s:
        texts.outputs = min(texts.outputs + 1.0, _ANSWERS)
        texts.output += (output - texts.output) / texts.outputs
