"""What one replica could do for one ticket: a prediction, as a value."""

from __future__ import annotations

from dataclasses import dataclass

from pair.core.names import LeaseId
from pair.core.replica import Replica


@dataclass(frozen=True, slots=True)
class Offer:
    """What one replica could do for one ticket, predicted.

    Attributes:
        starts_at: when its slot is free (clock of `now`).
        prefill_s, decode_s, load_s: of this call there.
        saved_s: prefill that its cache saves.
        cached_tokens, prompt_tokens: of its prompt.
        lease: the call whose slot it is, None for one that is free.
    """

    replica: Replica
    starts_at: float
    load_s: float
    prefill_s: float
    decode_s: float
    saved_s: float
    cached_tokens: float
    prompt_tokens: float
    lease: LeaseId | None = None

    @property
    def service_s(self) -> float:
        return self.load_s + self.prefill_s + self.decode_s

    @property
    def finish_at(self) -> float:
        return self.starts_at + self.service_s
