"""The process of one embedded engine: llama.cpp's own server, through xllamacpp.

A script and not a module of `pair`: it is started by its path (`embedded.py`), imports nothing of
`pair` and is up in half a second. A process of its own because xllamacpp keeps Python's global lock
while a model loads, which would silence a node for minutes, and while it stops, which takes until
the prompt in work is read (measured 2026-11: 30 s); and because a crash in there must not be ours.

On stdin comes one line of JSON, the options; the process ends when stdin does, so it never outlives
the node. On stdout goes one line, `ready`; on stderr llama.cpp's errors.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

ANNOUNCEMENT = b"ready\n"

CPU_BATCH_TOKENS = 64
"""Tokens of a prompt read at once. Only between two batches does llama.cpp notice anything, such as
a client that left: 15 s later with its default of 2048, 1.5 s at most with this, of which 1 s is
its own rhythm (measured 2026-11). A CPU reads no faster in larger batches (64 to 2048: no
difference beyond the noise)."""

GPU_BATCH_TOKENS = 512
"""The same for a GPU, which reads as many in a moment and is slower in smaller batches."""

PROMPT_CACHE_MIB = 512
"""Memory for prompts of earlier requests; the default of 8 GiB is too much for a machine in use."""

PING_S = 30
"""Between two comment lines while a stream has nothing to say; llama.cpp's default."""

SPARE_HTTP_THREADS = 16
"""Beyond two a slot. Each open connection takes a thread, an idle one for up to 5 s; the default of
8 in all lets a few idle connections stop the engine from answering."""

ERRORS_ONLY = 1
"""llama.cpp's verbosity: nothing of it may reach the user's terminal but through `pair`."""

NOT_ENOUGH_MEMORY = 3
"""Exit code: the files of the model are larger than the memory that is free."""

NOT_LOADED = 4
"""Exit code: llama.cpp could not load the model or listen; stderr has its reasons."""


def main() -> int:
    """Serve until stdin ends; the exit code says why that was not possible."""
    # Stopping is the node's business: a Ctrl-C in the terminal comes here too, in mid-answer.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    announcements = os.dup(1)
    os.dup2(2, 1)
    import xllamacpp  # noqa: PLC0415 - only here, where its output and its signals are settled

    options = json.loads(sys.stdin.readline())
    devices = xllamacpp.get_device_info()
    if options["model_bytes"] > free_memory_bytes(devices, available_memory_bytes()):
        return NOT_ENOUGH_MEMORY
    try:
        # Held, for it stops when nobody holds it.
        _held = xllamacpp.Server(parameters(xllamacpp.CommonParams(), options, has_gpu(devices)))
    except RuntimeError:
        return NOT_LOADED
    os.write(announcements, ANNOUNCEMENT)
    sys.stdin.read()
    # Leaving it to its own end would read the prompt in work to the last token first.
    os._exit(0)


def parameters(params: Any, options: dict[str, Any], gpu: bool) -> Any:
    """The parameters of xllamacpp, each that matters said explicitly.

    Args:
        params: a fresh `xllamacpp.CommonParams`.
        options: what `embedded.py` sends.
        gpu: whether anything but the CPU computes.
    """
    slots, threads = options["slots"], options["threads"]
    params.model.path = options["model_path"]
    params.model_alias = {options["model_name"]}
    params.hostnames = ["127.0.0.1"]
    params.port = options["port"]
    params.reuse_port = False
    params.n_threads_http = 2 * slots + SPARE_HTTP_THREADS
    params.cors_origins = "localhost"
    params.cors_credentials = False
    params.ui = False
    params.offline = True
    params.endpoint_slots = True
    params.endpoint_metrics = True
    params.endpoint_props = False
    params.slot_save_path = ""
    params.sse_ping_interval = PING_S
    params.verbosity = ERRORS_ONLY
    # A slot's context is its own: no request is cut or shifted to fit beside others.
    params.n_parallel = slots
    params.n_ctx = options["context_tokens"] * slots
    params.kv_unified = False
    params.ctx_shift = False
    params.cont_batching = True
    params.n_batch = params.n_ubatch = max(slots, GPU_BATCH_TOKENS if gpu else CPU_BATCH_TOKENS)
    params.cache_prompt = True
    params.cache_ram_mib = options["cache_mib"]
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    params.n_gpu_layers = -1
    # Trying out what fits doubles the time to load, and on a CPU there is nothing to choose.
    params.fit_params = gpu
    params.warmup = True
    params.use_jinja = True
    return params


def has_gpu(devices: list[dict[str, Any]]) -> bool:
    """Whether anything but the CPU computes."""
    return any(not _is_cpu(device) for device in devices)


def free_memory_bytes(devices: list[dict[str, Any]], available: int | None) -> int:
    """What a model can take: the machine's memory and that of its GPUs.

    Where both are the same memory this is too much, so a model that fits is never refused.

    Args:
        available: the machine's memory that is free or can be freed, None if unknown.
    """
    return sum(
        available if available is not None and _is_cpu(device) else device["memory_free"]
        for device in devices
    )


def available_memory_bytes() -> int | None:
    """What Linux says it can give; llama.cpp itself reports the whole memory as free there."""
    try:
        with Path("/proc/meminfo").open("rb") as lines:
            for line in lines:
                if line.startswith(b"MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def _is_cpu(device: dict[str, Any]) -> bool:
    return str(device["type"].name).endswith("_CPU")


if __name__ == "__main__":
    sys.exit(main())
