from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pair.core.names import ModelName
from pair.core.strategies import STRATEGIES
from pair.errors import RequestFault
from pair.wire.strategy_choice import StrategyWish, read_strategy, strategy_json


@pytest.mark.parametrize(
    ("body", "wish"),
    [
        ({"strategy": "round-robin"}, StrategyWish("round-robin", None)),
        ({"strategy": "round-robin", "model": None}, StrategyWish("round-robin", None)),
        (
            {"strategy": "queue-depth", "model": "qwen3:30b", "more": 1},
            StrategyWish("queue-depth", ModelName("qwen3:30b")),
        ),
    ],
)
def test_a_wish_is_for_one_model_or_for_all(body: object, wish: StrategyWish) -> None:
    assert read_strategy(json.dumps(body).encode()) == wish


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        (b"", "invalid_json", '{"strategy": NAME, "model": MODEL}'),
        (b"[]", "invalid_json", "not a JSON object"),
        (b"[" * 100_000, "invalid_json", "not a JSON object"),
        (b"\xff", "invalid_json", "not a JSON object"),
        (b"{}", "unknown_strategy", "There is no strategy null; choose one of "),
        (b'{"strategy": "fastest"}', "unknown_strategy", 'no strategy "fastest"; choose one of'),
        (b'{"strategy": ["queue-depth"]}', "unknown_strategy", "choose one of"),
        (b'{"strategy": "queue-depth", "model": ""}', "invalid_model", "or null for all"),
        (b'{"strategy": "queue-depth", "model": 3}', "invalid_model", "or null for all"),
    ],
)
def test_what_cannot_be_is_a_400_that_says_what_can(body: bytes, code: str, words: str) -> None:
    with pytest.raises(RequestFault) as told:
        read_strategy(body)
    assert (told.value.status, told.value.code) == (400, code)
    assert words in str(told.value)
    if code == "unknown_strategy":
        assert all(name in str(told.value) for name in STRATEGIES)


@given(st.binary(max_size=200))
def test_no_body_breaks_it(body: bytes) -> None:
    with suppress(RequestFault):
        assert read_strategy(body).name in STRATEGIES


def test_what_is_in_use_is_told_with_all_names() -> None:
    shown = strategy_json("queue-depth", {ModelName("m"): "round-robin"})
    assert json.loads(json.dumps(shown)) == {
        "v": 1,
        "strategy": "queue-depth",
        "models": {"m": "round-robin"},
        "known": list(STRATEGIES),
    }
