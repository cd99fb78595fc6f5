from __future__ import annotations

import json
from typing import Any

import pytest

from pair.errors import GarbledAnswer
from pair.wire.engine_reports.reading import EngineLoad
from pair.wire.engine_reports.sglang import read_load, read_settings

METRICS = b"""sglang:num_running_reqs{model_name="q",tp_rank="0",dp_rank="0"} 4.0
sglang:num_running_reqs{model_name="q",tp_rank="1",dp_rank="0"} 4.0
sglang:num_running_reqs{model_name="q",tp_rank="0",dp_rank="1"} 2.0
sglang:num_queue_reqs{model_name="q"} 7.0
"""


def body(value: Any) -> bytes:
    return json.dumps(value).encode()


def test_what_fits_is_the_better_word_than_what_was_asked_for() -> None:
    settings = {
        "api_key": "secret",
        "context_length": 32768,
        "max_running_requests": 128,
        "max_total_num_tokens": 90_000,
        "internal_states": [
            {"effective_max_running_requests_per_dp": 52, "api_key": "secret"},
            {"effective_max_running_requests_per_dp": 52},
        ],
    }
    assert read_settings(body(settings)) == EngineLoad(
        slots=104, context_tokens=32768, cache_tokens=90_000
    )


def test_older_versions_say_what_was_asked_for() -> None:
    settings = {"max_running_requests": 128, "internal_states": [{"last_gen_throughput": 1.0}, 7]}
    assert read_settings(body(settings)) == EngineLoad(slots=128)
    assert read_settings(body({"max_running_requests": None})) == EngineLoad()


def test_the_load_of_all_parts() -> None:
    loads = {"loads": [{"num_running_reqs": 3, "num_waiting_reqs": 1}, {"num_running_reqs": 2}, 9]}
    assert read_load(body(loads), METRICS) == EngineLoad(running=5, waiting=1)


def test_an_idle_engine_is_known_to_be_idle() -> None:
    loads = {"loads": [{"num_running_reqs": 0, "num_waiting_reqs": 0}]}
    assert read_load(body(loads), None) == EngineLoad(running=0, waiting=0)


@pytest.mark.parametrize("loads", [None, b"{}", b"Not Found", b'{"loads": []}'])
def test_without_loads_the_metrics_tell_counting_each_request_once(loads: bytes | None) -> None:
    assert read_load(loads, METRICS) == EngineLoad(running=6, waiting=7)


def test_without_either_the_load_is_unknown() -> None:
    assert read_load(None, None) == EngineLoad()


def test_settings_that_are_no_object_are_garbled_and_not_quoted() -> None:
    with pytest.raises(GarbledAnswer) as raised:
        read_settings(b'["secret"]')
    assert "secret" not in str(raised.value)
