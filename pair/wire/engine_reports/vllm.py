"""vLLM: its load is on `/metrics`; the model list is `openai_list.py`'s.

How many requests it works on at a time (`--max-num-seqs`) the versions of 2026 do not tell outside
their development mode; the two forms read here are those in which forks do.
"""

from __future__ import annotations

from pair.wire.engine_reports.metrics import gauge, label_count
from pair.wire.engine_reports.reading import COUNT_LIMIT, EngineLoad, count, slot_count


def read_load(metrics: bytes) -> EngineLoad:
    """What `/metrics` says, summed over the engine's data-parallel parts."""
    return EngineLoad(
        slots=slot_count(
            gauge(metrics, "vllm:max_num_seqs") or label_count(metrics, "vllm:", "max_num_seqs")
        ),
        running=gauge(metrics, "vllm:num_requests_running"),
        waiting=gauge(metrics, "vllm:num_requests_waiting"),
        cache_tokens=count(_cache_tokens(metrics)),
    )


def _cache_tokens(metrics: bytes) -> int | None:
    """Of one data-parallel part: the others' caches are of no use to a prompt there."""
    blocks = label_count(metrics, "vllm:cache_config_info", "num_gpu_blocks")
    size = label_count(metrics, "vllm:cache_config_info", "block_size")
    return None if blocks is None or size is None else min(blocks * size, COUNT_LIMIT)
