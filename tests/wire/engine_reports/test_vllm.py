from __future__ import annotations

from pair.wire.engine_reports.reading import EngineLoad
from pair.wire.engine_reports.vllm import read_load

LOAD = b"""# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="q"} 3.0
vllm:num_requests_running{engine="1",model_name="q"} 1.0
vllm:num_requests_waiting{engine="0",model_name="q"} 4.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 9.0
vllm:cache_config_info{block_size="16",num_gpu_blocks="2048"} 1.0
"""


def test_the_parts_of_a_data_parallel_engine_are_summed() -> None:
    assert read_load(LOAD) == EngineLoad(running=4, waiting=4, cache_tokens=16 * 2048)


def test_slots_are_known_where_a_series_has_them() -> None:
    gauge = LOAD + b'vllm:max_num_seqs{engine="0"} 256.0\n'
    label = LOAD + b'vllm:scheduler_config_info{max_num_seqs="128",max_model_len="4096"} 1.0\n'
    assert read_load(gauge).slots == 256
    assert read_load(label).slots == 128


def test_a_page_of_something_else_says_nothing() -> None:
    assert read_load(b"process_cpu_seconds_total 12\n") == EngineLoad()
