from __future__ import annotations

import importlib
from enum import IntEnum
from pathlib import Path
from typing import Any

import pytest

from pair.engines import embedded_process
from pair.engines.embedded_process import (
    CPU_BATCH_TOKENS,
    GPU_BATCH_TOKENS,
    available_memory_bytes,
    free_memory_bytes,
    has_gpu,
    parameters,
)

OPTIONS = {
    "model_path": "/models/a.gguf",
    "model_bytes": 1000,
    "model_name": "a",
    "port": 8123,
    "slots": 3,
    "context_tokens": 2048,
    "threads": 2,
    "cache_mib": 64,
}


class Kind(IntEnum):
    """As xllamacpp names the kinds of device."""

    GGML_BACKEND_DEVICE_TYPE_CPU = 0
    GGML_BACKEND_DEVICE_TYPE_GPU = 1


CPU = {"type": Kind.GGML_BACKEND_DEVICE_TYPE_CPU, "memory_free": 32_000}
GPU = {"type": Kind.GGML_BACKEND_DEVICE_TYPE_GPU, "memory_free": 8_000}


def test_the_machines_free_memory_and_that_of_its_gpus_count() -> None:
    assert free_memory_bytes([CPU], 10_000) == 10_000
    assert free_memory_bytes([GPU, CPU], 10_000) == 18_000
    assert free_memory_bytes([CPU], None) == 32_000


def test_a_gpu_is_told_from_the_cpu() -> None:
    assert not has_gpu([CPU])
    assert has_gpu([CPU, GPU])


def test_a_system_says_what_it_can_give_or_nothing() -> None:
    available = available_memory_bytes()
    assert (available is not None) is Path("/proc/meminfo").is_file()
    assert available is None or 1_000_000 < available < 10**15


@pytest.mark.engine
def test_xllamacpp_takes_every_parameter_and_its_devices_are_understood() -> None:
    xllamacpp = importlib.import_module("xllamacpp")
    params = parameters(xllamacpp.CommonParams(), OPTIONS, gpu=False)
    assert (params.n_parallel, params.n_ctx, params.port) == (3, 3 * 2048, 8123)
    assert (params.model.path, params.model_alias) == ("/models/a.gguf", {"a"})
    assert (params.n_batch, params.n_ubatch) == (CPU_BATCH_TOKENS, CPU_BATCH_TOKENS)
    assert (params.cpuparams.n_threads, params.cpuparams_batch.n_threads) == (2, 2)
    assert (params.ctx_shift, params.cache_ram_mib) == (False, 64)
    devices: list[dict[str, Any]] = xllamacpp.get_device_info()
    assert free_memory_bytes(devices, None) > 0
    assert not all(device["type"].name.endswith("_GPU") for device in devices)


@pytest.mark.engine
def test_a_gpu_reads_more_at_once_and_every_slot_has_a_place_in_a_batch() -> None:
    xllamacpp = importlib.import_module("xllamacpp")
    assert parameters(xllamacpp.CommonParams(), OPTIONS, gpu=True).n_batch == GPU_BATCH_TOKENS
    many = {**OPTIONS, "slots": CPU_BATCH_TOKENS + 1}
    assert parameters(xllamacpp.CommonParams(), many, gpu=False).n_batch == CPU_BATCH_TOKENS + 1


def test_the_script_needs_nothing_of_pair() -> None:
    text = Path(embedded_process.__file__).read_text(encoding="utf-8")
    assert "from pair" not in text
    assert "import pair" not in text
