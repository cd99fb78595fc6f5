"""What each flow has had of each model, so that turns go to those who have had least.

Separate from the waiting room because this outlives waiting: a flow's account stays while its calls
run and for a while after. The order of turns that follows from it is the room's.

What a call costs is counted in tokens, an output token as two (the rule of llm-d, since decoding
one takes a machine several times as long as reading one). Everything halves with the same
half-life, so the order of two flows changes only when one of them is charged. A *level* makes use
of that: the logarithm (base 2) of what the account would have to hold at time 0 to hold what it
does now. Levels do not change with time, never overflow, and can stand in a heap.

Accounts are kept for each model apart: that is where flows compete for slots, and who has used one
model much owes nothing to those who wait for another.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from pair.core.events import Usage
from pair.core.names import FlowId, ModelName

NOTHING = float("-inf")
"""The level of an account that holds nothing."""

OUTPUT_WEIGHT = 2.0
"""An output token beside a prompt token, see above."""

TOKENS_LIMIT = 10**9
"""An engine that says more of one call is wrong."""

UNKNOWN = Usage()

Key = TypeVar("Key")


def weighted_tokens(prompt_tokens: float, output_tokens: float, usage: Usage = UNKNOWN) -> float:
    """What a call costs (at least 1). What its usage does not say, or cannot be, is as expected:
    `prompt_tokens` and `output_tokens`. The client's limit is no expectation: agents set 32,000 and
    are answered with some hundreds.
    """
    read, written = _possible(usage.prompt_tokens), _possible(usage.output_tokens)
    if read is None:
        read = min(prompt_tokens, TOKENS_LIMIT)
    if written is None:
        written = min(output_tokens, TOKENS_LIMIT)
    return max(1.0, read + OUTPUT_WEIGHT * written)


class Account(NamedTuple):
    """One flow's account for one model."""

    model: ModelName
    flow: FlowId


@dataclass(frozen=True, slots=True)
class Charge:
    """What a ticket's lease was charged with, to be corrected when the real cost is known."""

    account: Account
    cost: float
    at: float


class Attained:
    """Service that each account has attained (weighted tokens), halved every `half_life_s`.

    At most `flows_limit` accounts; who was charged longest ago is forgotten first, and then begins
    like a new one.
    """

    def __init__(self, half_life_s: float, flows_limit: int) -> None:
        self._half_life_s = half_life_s
        self._limit = flows_limit
        self._levels: OrderedDict[Account, float] = OrderedDict()
        self._turns: OrderedDict[ModelName, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._levels)

    def level(self, account: Account) -> float:
        """The account's place in the order of turns; comparable at any time."""
        return self._levels.get(account, NOTHING)

    def of(self, account: Account, now: float) -> float:
        """What is left by now of what it has attained (weighted tokens)."""
        level = self.level(account)
        return 0.0 if level == NOTHING else 2.0 ** (level - now / self._half_life_s)

    def turn_level(self, model: ModelName) -> float:
        """The level of those who had their turn last. Who comes while nobody waits begins there: a
        newcomer's lack of a past is no credit against those who have one and just pause.
        """
        return self._turns.get(model, NOTHING)

    def turn(self, account: Account) -> None:
        """The account's flow gets its turn now; charge it after this."""
        level = max(self.level(account), self.turn_level(account.model))
        _keep(self._turns, account.model, level, self._limit)

    def lift(self, account: Account, level: float) -> None:
        """Let the account begin no lower than this: who was away has saved up nothing."""
        if level > self.level(account):
            _keep(self._levels, account, level, self._limit)

    def charge(self, account: Account, cost: float, at: float) -> None:
        """Add a cost as of the time `at` (s); a negative one takes back what was charged then."""
        level = self._levels.get(account)
        if level is None:
            level = self.turn_level(account.model)
        _keep(self._levels, account, self._sum(level, cost, at), self._limit)

    def correct(self, charge: Charge, cost: float, now: float) -> None:
        """What was charged with has really cost this much: less was never attained, more was by
        now.
        """
        more = cost - charge.cost
        self.charge(charge.account, more, now if more > 0 else charge.at)

    def _sum(self, level: float, cost: float, at: float) -> float:
        if cost == 0:
            return level
        added = math.log2(abs(cost)) + at / self._half_life_s
        highest = max(level, added)
        total = 2.0 ** (level - highest) + math.copysign(2.0 ** (added - highest), cost)
        return highest + math.log2(total) if total > 0 else NOTHING


def _keep(table: OrderedDict[Key, float], key: Key, level: float, limit: int) -> None:
    table[key] = level
    table.move_to_end(key)
    if len(table) > limit:
        table.popitem(last=False)


def _possible(tokens: int | None) -> float | None:
    return tokens if tokens is not None and 0 <= tokens <= TOKENS_LIMIT else None
