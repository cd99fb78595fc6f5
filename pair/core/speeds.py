"""How fast one replica is: the rates behind one formula, and how a call moves them.

Separate from the tables (`estimates.py`) because this is the theory and they are the bookkeeping.

A call costs `uncached prompt tokens / prefill rate + output tokens * TPOT`, and the load of the
model where it is cold. Where a call's parts are known (`call_costs.py`) each moves its own rate; a
call in one piece moves both, by their shares in what was predicted. A short prompt tells little of
the prefill rate, because most of its time is the network and one step of the engine: an observation
counts by the square of its tokens, as in a regression of seconds on tokens through the origin.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pair.core.call_costs import TIME_LIMIT_S, Cost
from pair.core.decaying import Decaying, seen

LOAD_S = 5.0
"""What a cold load is taken to last before one was seen (s): 8 GB from an SSD."""

STEP_RATIO = 20.0
"""Prompt tokens that take as long as one output token, where only one of the rates is known: about
6 on a CPU, 60 on a large GPU, and this is the middle of the two as factors."""

PREFILL_LIMITS = (0.01, 1e7)
"""Tokens/s that are possible; beyond them is a clock's error."""
TPOT_LIMITS_S = (1e-6, 100.0)

BUCKETS = 13
"""Numbers of calls at once up to 4096, in powers of two."""

_FULL_PROMPT_TOKENS = 512
_FULL_OUTPUT_TOKENS = 32
"""From so many tokens on an observation of a rate has its full weight: 20 ms of network are then
little beside them on any engine."""

_LOADED_S = 0.2
"""Below this the model was in memory: Ollama gives 10 to 50 ms of load for such calls, too."""

_FAST_FACTOR = 1.5
"""A prefill is faster than known from here on (`Cost.fast_weight`); less is noise."""

_HALF_LIFE_S = 3600.0
"""Of the evidence: after a pause the machine may be on battery, or do something else."""


@dataclass(frozen=True, slots=True)
class Speed:
    """What a replica does for one call.

    Attributes:
        prefill_tokens_per_s, tpot_s: above 0.
        load_s: of a cold model (s); `LOAD_S` before one was seen.
    """

    prefill_tokens_per_s: float
    tpot_s: float
    load_s: float

    def service_s(
        self, uncached_tokens: float, output_tokens: float, *, resident: bool = True
    ) -> float:
        """Predicted time from lease to end (s), by the formula above."""
        return (
            uncached_tokens / self.prefill_tokens_per_s
            + output_tokens * self.tpot_s
            + (0.0 if resident else self.load_s)
        )


@dataclass(slots=True)
class Rates:
    """What has been learned of one replica.

    Attributes:
        prefill: tokens/s.
        tpots: s, by the bucket of calls at once.
        load: s, cold loads only.
    """

    prefill: Decaying | None = None
    tpots: dict[int, Decaying] = field(default_factory=dict)
    load: Decaying | None = None
    _learned_at: float | None = None
    _speeds: dict[int, Speed] = field(default_factory=dict)
    """By bucket, made when first asked for: a decision asks for every free replica."""

    def speed(self, busy: int) -> Speed | None:
        """For a call that makes `busy` at once; None while no rate is known. A rate that is not is
        guessed from the other.
        """
        bucket = bucket_of(busy)
        speed = self._speeds.get(bucket)
        if speed is None and (self.prefill is not None or self.tpots):
            speed = self._speeds[bucket] = self._speed(bucket)
        return speed

    def _speed(self, bucket: int) -> Speed:
        load_s = LOAD_S if self.load is None else self.load.value
        if not self.tpots:
            rate = STEP_RATIO if self.prefill is None else self.prefill.value
            return Speed(rate, STEP_RATIO / rate, load_s)
        nearest = min(self.tpots, key=lambda known: (abs(known - bucket), known))
        tpot_s = self.tpots[nearest].value
        rate = STEP_RATIO / tpot_s if self.prefill is None else self.prefill.value
        return Speed(rate, tpot_s, load_s)

    def learn(self, cost: Cost, busy: int, now: float) -> None:
        """A call has ended that was one of `busy`."""
        self._age(now)
        if cost.load_s is not None and cost.load_s >= _LOADED_S:
            self.load = seen(self.load, cost.load_s, 1.0)
        if cost.prefill_s is None and cost.decode_s is None:
            self._learn_whole(cost, busy)
        if cost.prefill_s is not None and cost.uncached >= 1:
            self._learn_prefill(cost.uncached / cost.prefill_s, cost, 1.0)
        if cost.decode_s is not None and cost.decoded >= 1:
            self._learn_tpot(cost.decode_s / cost.decoded, cost.decoded, bucket_of(busy), 1.0)
        self._speeds.clear()

    def restore(
        self,
        prefill: Decaying | None,
        tpots: tuple[tuple[int, Decaying], ...],
        load: Decaying | None,
    ) -> None:
        """Take over what was known once, as far as it can be true."""
        self.prefill = remembered(prefill, PREFILL_LIMITS)
        self.load = remembered(load, (_LOADED_S, TIME_LIMIT_S))
        for bucket, tpot in tpots:
            mean = remembered(tpot, TPOT_LIMITS_S)
            if mean is not None and 0 <= bucket < BUCKETS:
                self.tpots[bucket] = mean

    def _learn_whole(self, cost: Cost, busy: int) -> None:
        """Both rates, by the factor between the call's time and the predicted one. The one that
        made most of that time learns most, so calls of different shapes tell the two apart.
        """
        if cost.whole_s is None or not cost.output:
            return
        before = self.speed(busy) or Speed(1.0, STEP_RATIO, 0.0)
        predicted_s = before.service_s(cost.uncached, cost.output)
        factor = cost.whole_s / predicted_s
        share = cost.uncached / before.prefill_tokens_per_s / predicted_s
        if cost.uncached >= 1:
            self._learn_prefill(before.prefill_tokens_per_s / factor, cost, share**2)
        self._learn_tpot(before.tpot_s * factor, cost.output, bucket_of(busy), (1.0 - share) ** 2)

    def _learn_prefill(self, rate: float, cost: Cost, share: float) -> None:
        weight = _weight(cost.uncached, _FULL_PROMPT_TOKENS) * cost.sure * share
        known = self.prefill
        if known is not None and rate > known.value * _FAST_FACTOR:
            weight *= cost.fast_weight
        if weight > 0.0 and PREFILL_LIMITS[0] <= rate <= PREFILL_LIMITS[1]:
            self.prefill = seen(known, rate, weight)

    def _learn_tpot(self, tpot_s: float, tokens: float, bucket: int, share: float) -> None:
        weight = _weight(tokens, _FULL_OUTPUT_TOKENS) * share
        if weight > 0.0 and TPOT_LIMITS_S[0] <= tpot_s <= TPOT_LIMITS_S[1]:
            self.tpots[bucket] = seen(self.tpots.get(bucket), tpot_s, weight)

    def _age(self, now: float) -> None:
        """Let the evidence fade with the time since the latest call."""
        if self._learned_at is not None:
            kept = 0.5 ** (max(0.0, now - self._learned_at) / _HALF_LIFE_S)
            if self.prefill is not None:
                self.prefill = self.prefill.aged(kept)
            self.tpots = {bucket: tpot.aged(kept) for bucket, tpot in self.tpots.items()}
        self._learned_at = now


def bucket_of(busy: int) -> int:
    """1 | 2, 3 | 4 to 7 | ...: how fast each of several calls is hardly differs within."""
    return min(max(busy, 1).bit_length() - 1, BUCKETS - 1)


def remembered(mean: Decaying | None, limits: tuple[float, float]) -> Decaying | None:
    """A mean of an earlier life: as one observation, since nobody knows how old it is. None where
    it cannot be.
    """
    if mean is None or not limits[0] <= mean.value <= limits[1] or not mean.evidence > 0.0:
        return None
    return Decaying(mean.value, min(1.0, mean.evidence))


def _weight(tokens: float, full: int) -> float:
    return min(1.0, (tokens / full) ** 2)
