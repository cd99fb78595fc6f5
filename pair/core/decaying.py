"""A mean that follows its subject: the latest few observations count, a single odd one hardly.

Separate from what is learned with it (`estimates.py`) because the rules of forgetting are the same
for all of it and have laws of their own.

An observation has a weight between 0 and 1, how much it tells: 1 for one as good as they come. The
sum of the weights, each shrunk by those that came after it, is the evidence; a new observation
moves the mean by its share of that. So the first one counts fully, and many weak ones do not wash
out a strong one.
"""

from __future__ import annotations

from dataclasses import dataclass

KEPT = 0.7
"""What is left of the evidence after an observation of weight 1. A mean of equal weights then rests
on the latest three or so (1 / (1 - 0.7)), so a machine that has become slower shows within five
calls."""

STRAY_FACTOR = 3.0
"""An observation further than this from the mean counts as if it were so far: it moves it by
3 ** 0.3, less than half. A machine that slept in the middle of a call is off by a factor of
thousands."""

FULL_WEIGHT = 0.5
"""A stray of at least this weight is remembered: if the next goes astray to the same side, it was
no accident, and what was known before counts no more than one observation."""


@dataclass(frozen=True, slots=True)
class Decaying:
    """A geometric mean: of times and rates, whose errors are factors.

    Attributes:
        value: above 0, finite.
        evidence: above 0, at most about 3.4.
        strayed: the latest observation of full weight was far too high (1) or too low (-1).
    """

    value: float
    evidence: float
    strayed: int = 0

    def seen(self, observed: float, weight: float) -> Decaying:
        """The mean after one more observation.

        Args:
            observed: above 0, finite; bounds of what is possible are the caller's.
            weight: above 0, at most 1.
        """
        evidence, strayed = self.evidence, 0
        if weight <= evidence:  # else it tells more than all before: the better one to trust
            bounded = min(max(observed, self.value / STRAY_FACTOR), self.value * STRAY_FACTOR)
            strayed = (observed > bounded) - (observed < bounded)
            if strayed and weight >= FULL_WEIGHT and strayed == self.strayed:
                evidence = min(evidence, weight)
            else:
                observed = bounded
        if weight < FULL_WEIGHT:
            strayed = self.strayed
        evidence = evidence * KEPT**weight + weight
        moved = self.value * (observed / self.value) ** (weight / evidence)
        return Decaying(moved, evidence, strayed)

    def aged(self, kept: float) -> Decaying:
        """The mean after a while without news: the same, but with `kept` (0 to 1) of its evidence.
        Never less than one observation: the first call after a pause is often an odd one.
        """
        if self.evidence <= 1.0:
            return self
        return Decaying(self.value, max(1.0, self.evidence * kept), self.strayed)


def seen(mean: Decaying | None, observed: float, weight: float) -> Decaying:
    """`Decaying.seen`, where there may be no mean yet: the first observation is the mean."""
    return Decaying(observed, weight) if mean is None else mean.seen(observed, weight)
