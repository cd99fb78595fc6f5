from __future__ import annotations

import json
from typing import Any

import pytest

from pair.core.names import ModelName
from pair.errors import GarbledAnswer
from pair.wire.engine_reports.lmstudio import read_new_list, read_old_list
from pair.wire.engine_reports.reading import EngineModel

UNKNOWN_PATH = b'{"error": "Unexpected endpoint or method. (GET /api/v1/models)"}'


def new(*rows: Any) -> bytes:
    return json.dumps({"models": list(rows)}).encode()


def old(*rows: Any) -> bytes:
    return json.dumps({"object": "list", "data": list(rows)}).encode()


def instance(name: str, **settings: Any) -> dict[str, Any]:
    return {"id": name, "config": settings}


def model(name: str, *aliases: str, **more: Any) -> EngineModel:
    return EngineModel(ModelName(name), frozenset(ModelName(alias) for alias in aliases), **more)


def names(*values: str) -> frozenset[ModelName]:
    return frozenset(ModelName(value) for value in values)


def test_the_new_list_tells_the_slots_of_what_is_loaded() -> None:
    loaded = {
        "type": "llm",
        "key": "org/coder",
        "loaded_instances": [instance("org/coder", context_length=8192, parallel=4)],
        "max_context_length": 262144,
    }
    idle = {"key": "embedder", "type": "embedding", "loaded_instances": [], "max_context_length": 2}
    assert read_new_list(new(loaded, idle), None).models == (
        model("org/coder", context_tokens=8192, slots=4, resident=True),
        model("embedder", context_tokens=2, resident=False),
    )


def test_of_several_instances_the_least_is_promised_and_each_has_its_name() -> None:
    instances = [
        instance("m", context_length=4096, parallel=4),
        instance("m:2", context_length=2048, parallel=1),
        instance("m:3"),
        "odd",
    ]
    row = {"key": "m", "loaded_instances": instances, "max_context_length": 9999}
    assert read_new_list(new(row), None).models == (
        model("m", "m:2", "m:3", context_tokens=2048, slots=1, resident=True),
    )


@pytest.mark.parametrize(
    ("state", "resident", "loading"),
    [("loaded", True, False), ("not-loaded", False, False), ("loading", None, True), (3, None, 0)],
)
def test_the_old_list_tells_the_state(state: Any, resident: bool | None, loading: bool) -> None:
    row = {"id": "m", "type": "vlm", "state": state, "max_context_length": 32768}
    assert read_old_list(old(row), None).models == (
        model("m", context_tokens=32768, resident=resident, loading=bool(loading)),
    )


def test_the_old_list_prefers_the_context_that_is_loaded() -> None:
    row = {"id": "m", "state": "loaded", "max_context_length": 9, "loaded_context_length": 4}
    assert read_old_list(old(row), None).models[0].context_tokens == 4


def test_what_cannot_be_loaded_on_demand_is_left_out() -> None:
    rows = [
        {"key": "in memory", "loaded_instances": [instance("in memory")]},
        {"key": "on demand", "loaded_instances": []},
        {"key": "on disk only", "loaded_instances": []},
    ]
    found = read_new_list(new(*rows), names("on demand")).models
    assert [listed.name for listed in found] == ["in memory", "on demand"]
    olds = [{"id": "a", "state": "loaded"}, {"id": "b", "state": "not-loaded"}]
    assert [listed.name for listed in read_old_list(old(*olds), names()).models] == ["a"]


def test_odd_rows_are_left_out_and_said() -> None:
    listed = read_new_list(new({"key": ""}, 3, {"key": "m", "loaded_instances": "x"}), None)
    assert listed.models == (model("m", resident=False),)
    assert listed.warnings == ("2 of the listed models cannot be read and are left out",)
    assert read_old_list(old({"id": None}, []), None).models == ()


def test_its_answer_to_a_path_it_does_not_know_is_garbled() -> None:
    with pytest.raises(GarbledAnswer):
        read_new_list(UNKNOWN_PATH, None)
    with pytest.raises(GarbledAnswer):
        read_old_list(UNKNOWN_PATH, None)
