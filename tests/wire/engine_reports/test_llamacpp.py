from __future__ import annotations

import json
from typing import Any

import pytest

from pair.errors import GarbledAnswer
from pair.wire.engine_reports.llamacpp import Props, is_loading, read_load, read_props
from pair.wire.engine_reports.reading import EngineLoad

METRICS = b"llamacpp:requests_processing 2\nllamacpp:requests_deferred 5\n"


def body(value: Any) -> bytes:
    return json.dumps(value).encode()


def test_props_have_the_slots_and_what_one_holds() -> None:
    props = {"default_generation_settings": {"n_ctx": 4096, "params": {}}, "total_slots": 4}
    assert read_props(body(props)) == Props(4, 4096)
    assert read_props(body({**props, "is_sleeping": True})) == Props(4, 4096, sleeping=True)


def test_a_router_has_no_slots_of_its_own() -> None:
    assert read_props(body({"role": "router", "max_instances": 4})) == Props()


@pytest.mark.parametrize("value", [{}, [], {"error": "Unexpected endpoint"}, {"role": "x"}])
def test_what_others_answer_at_this_path_is_garbled(value: Any) -> None:
    with pytest.raises(GarbledAnswer):
        read_props(body(value))


def test_the_load_is_taken_from_the_metrics() -> None:
    assert read_load(METRICS, body([])) == EngineLoad(running=2, waiting=5)


def test_without_metrics_busy_slots_are_counted() -> None:
    slots = [{"id": 0, "is_processing": True}, {"id": 1, "is_processing": False}, {"id": 2}, 3]
    assert read_load(None, body(slots)) == EngineLoad(running=1)
    assert read_load(b"# empty", body(slots)) == EngineLoad(running=1)


def test_without_either_the_load_is_unknown() -> None:
    assert read_load(None, None) == EngineLoad()
    assert read_load(b"", b'{"error": 1}') == EngineLoad()


@pytest.mark.parametrize(
    ("status", "answer", "loading"),
    [
        (503, {"error": {"message": "Loading model", "type": "unavailable_error"}}, True),
        (503, {"error": "loading model"}, True),
        (503, {"error": {"message": "no slot available"}}, False),
        (503, {"detail": "loading"}, False),
        (503, "loading", False),
        (200, {"error": {"message": "Loading model"}}, False),
    ],
)
def test_whether_it_loads(status: int, answer: Any, loading: bool) -> None:
    assert is_loading(status, body(answer)) is loading


def test_a_503_page_of_something_else_is_no_loading() -> None:
    assert not is_loading(503, b"<h1>Loading</h1>")
