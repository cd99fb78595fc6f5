"""`/pair/v1/strategy`: which strategy is in use, and the wish for another one, as JSON.

Separate from the snapshot's form because this one is also read: what a script asks for is checked
here, with the names that there are in the error, before the core hears of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pair.core.names import ModelName
from pair.core.strategies import STRATEGIES
from pair.errors import RequestFault
from pair.wire.snapshot_json import VERSION

STRATEGY_PATH: Final = "/pair/v1/strategy"

MODEL_LIMIT_CHARS: Final = 1024
"""Longest name of a model taken; engines' own end at about 300."""


@dataclass(frozen=True, slots=True)
class StrategyWish:
    """The strategy of this name from now on: for one model, or (None) for all without their own."""

    name: str
    model: ModelName | None


def read_strategy(body: bytes) -> StrategyWish:
    """What the body of a PUT asks for.

    Raises:
        RequestFault: 400; it is no JSON object, its model is no text, or no strategy has that name.
    """
    try:
        wish = json.loads(body)
    except (ValueError, RecursionError):
        wish = None
    if not isinstance(wish, dict):
        right = '{"strategy": NAME, "model": MODEL}, model null for all'
        raise RequestFault(400, "invalid_json", f"The body is not a JSON object: {right}.")
    model = wish.get("model")
    if model is not None and not (isinstance(model, str) and 0 < len(model) <= MODEL_LIMIT_CHARS):
        message = "The field `model` must be a model's name, or null for all models."
        raise RequestFault(400, "invalid_model", message, param="model")
    name = wish.get("strategy")
    if not isinstance(name, str) or name not in STRATEGIES:
        shown = json.dumps(name)[:100]
        message = f"There is no strategy {shown}; choose one of {', '.join(STRATEGIES)}."
        raise RequestFault(400, "unknown_strategy", message, param="strategy")
    return StrategyWish(name, None if model is None else ModelName(model))


def strategy_json(name: str, of_models: Mapping[ModelName, str]) -> dict[str, Any]:
    """What is in use, and which names there are."""
    return {"v": VERSION, "strategy": name, "models": dict(of_models), "known": list(STRATEGIES)}
