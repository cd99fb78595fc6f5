from __future__ import annotations

from typing import Any

import pytest

from tests.chaos.watch import counter_errors


def snapshot(**changes: Any) -> dict[str, Any]:
    replica = {"model": "echo", "slots": 2, "in_flight": 1, "draining": 1, "queue_depth": 0}
    replica |= {name: value for name, value in changes.items() if name in replica}
    return {
        "waiting": 3,
        "in_flight": 1,
        "tickets": {"opened": 10, "answered": 5, "refused": 0, "client_left": 1, "failed": 0},
        "nodes": [{"name": "one", "replicas": [replica]}],
        **{name: value for name, value in changes.items() if name not in replica},
    }


def test_right_counters_are_right() -> None:
    assert counter_errors(snapshot()) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"draining": 2},
        {"in_flight": -1},
        {"queue_depth": -1},
        {"waiting": -1},
        {"waiting": 4},
        {"tickets": {"opened": 5, "answered": 5, "refused": 1}},
    ],
)
def test_a_wrong_counter_is_noticed(changes: dict[str, Any]) -> None:
    assert counter_errors(snapshot(**changes))
