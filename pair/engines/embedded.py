"""The embedded engine: llama.cpp's own server, started and watched by this node.

To the rest of `pair` it is a llama.cpp like any other, on a port of loopback. What is particular is
its life: it loads, it may fail to, it may crash later and is then started again. Its process is
`embedded_process.py`.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import logging
import os
import re
import socket
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import aiohttp

from pair.core.names import EngineName, ModelName
from pair.core.reports import ReplicaReport, ReplicaState
from pair.engines import embedded_process
from pair.engines.embedded_process import (
    ANNOUNCEMENT,
    NOT_ENOUGH_MEMORY,
    NOT_LOADED,
    PROMPT_CACHE_MIB,
)
from pair.engines.engine import EngineReport, Reading
from pair.engines.llamacpp import LlamaCpp
from pair.engines.model_file import model_file
from pair.engines.model_header import context_bytes_per_token
from pair.errors import BookkeepingError, PairError, SettingsError, UnreachableNode
from pair.wire.engine_reports.reading import EngineModel

logger = logging.getLogger(__name__)

STOP_LIMIT_S = 2.0
"""Longest wait for the process to end by itself; ready, it takes some milliseconds."""

FIRST_PAUSE_S = 1.0
"""Before an engine that crashed is started again; doubles with each crash in a row."""

PAUSE_LIMIT_S = 60.0
"""Longest such pause."""

_STDERR_LIMIT_BYTES = 8192
"""So much of llama.cpp's errors is kept: some dozens of lines."""

_LINE_PREFIX = re.compile(r"^[\d.]+ [A-Z] ")
"""Time and level before each of llama.cpp's lines."""

_NO_MEMORY_WORDS = re.compile(r"bad_alloc|failed to allocate|out of memory", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class EmbeddedOptions:
    """What the user says of it.

    Attributes:
        name: what clients call the model, "" for the file's name without its ending.
        slots: requests at a time, at least 1.
        context_tokens: of each slot.
        threads: 0 for all cores that this process may use.
        cache_mib: memory for prompts of earlier requests, besides those in slots.
    """

    file: Path
    name: str
    slots: int
    context_tokens: int
    threads: int
    cache_mib: int = PROMPT_CACHE_MIB


class EmbeddedEngine(LlamaCpp):
    """Enter it to start it, leave it to stop it.

    Entering does not wait for the model: until that is loaded `report` says so, and `ready` waits.
    An engine that was ready once and ends is started again; one that never was is not.

    Attributes:
        process_id: of its process, None while there is none.

    Raises:
        SettingsError: the file is none that it can run, or xllamacpp is not installed.
    """

    own = True

    def __init__(self, options: EmbeddedOptions) -> None:
        if importlib.util.find_spec("xllamacpp") is None:
            raise SettingsError(
                "the embedded engine is not installed; `pip install 'pair[engine]'` brings it"
            )
        self._file = model_file(options.file)
        super().__init__(f"http://127.0.0.1:{_free_port()}")
        self.name = EngineName("embedded")
        self._options = options
        self._model = ModelName(options.name or self._file.model_name)
        token_bytes = context_bytes_per_token(self._file.path)
        self._cache_tokens = token_bytes and options.cache_mib * 1024**2 // token_bytes
        self._tasks = asyncio.TaskGroup()
        self._settled = asyncio.Event()
        self._was_ready = False
        self._loading = True
        self._fault: PairError | None = None
        self.process_id: int | None = None

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        self._watch = self._tasks.create_task(self._keep_alive(), name="embedded engine")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the process, in whatever it is."""
        self._watch.cancel()
        # Without the error, which the group would wrap: it is the caller's and goes on as it is.
        await self._tasks.__aexit__(None, None, None)

    async def ready(self) -> None:
        """Wait until the model is loaded, or loaded again.

        Raises:
            SettingsError: it can't be loaded; the text says why.
            UnreachableNode: the process ended for another reason and is not started again.
        """
        await self._settled.wait()
        if self._fault is not None:
            raise self._fault

    async def report(
        self, session: aiohttp.ClientSession, limit_s: float | None = None
    ) -> EngineReport:
        """As any engine; without asking, where the process is known to have no answer yet."""
        if self._fault is not None:
            raise UnreachableNode(str(self._fault))
        if not self._loading:
            return await super().report(session, limit_s)
        replica = ReplicaReport(
            engine=self.name,
            engine_kind=self.kind,
            model=self._model,
            state=ReplicaState.LOADING,
            slots=self._options.slots,
            resident=False,
            context_tokens=self._options.context_tokens,
            any_name=True,
        )
        return EngineReport((replica,))

    def _replica(self, model: EngineModel, reading: Reading) -> ReplicaReport:
        return replace(super()._replica(model, reading), cache_tokens=self._cache_tokens)

    async def _keep_alive(self) -> None:
        """Run the process, again and again if it was ready once."""
        pause_s = FIRST_PAUSE_S
        loop = asyncio.get_running_loop()
        while True:
            started_at = loop.time()
            self._fault = await self._run()
            if not self._was_ready:
                self._settled.set()
                return
            self._settled.clear()
            if loop.time() - started_at > PAUSE_LIMIT_S:
                pause_s = FIRST_PAUSE_S
            logger.warning("%s; starting it again in %.0f s", self._fault, pause_s)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_LIMIT_S)
            self._fault, self._loading = None, True

    async def _run(self) -> PairError:
        """One life of the process; returns why it ended."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            # The working directory must not be searched for what the script imports.
            "-P",
            embedded_process.__file__,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
        )
        self.process_id = process.pid
        stdin, stdout, stderr = _pipes(process)
        errors: list[str] = []
        try:
            stdin.write(json.dumps(self._process_options()).encode() + b"\n")
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_keep_first_lines(stderr, errors))
                if await stdout.readline() == ANNOUNCEMENT:
                    self._loading, self._was_ready = False, True
                    self._settled.set()
                code = await process.wait()
        finally:
            await self._stop(process, stdin)
            self.process_id = None
        return self._why(code, errors)

    def _process_options(self) -> dict[str, object]:
        return {
            "model_path": str(self._file.path),
            "model_bytes": self._file.size_bytes,
            "model_name": self._model,
            "port": urlsplit(self.url).port,
            "slots": self._options.slots,
            "context_tokens": self._options.context_tokens,
            "threads": self._options.threads or cores(),
            "cache_mib": self._options.cache_mib,
        }

    async def _stop(self, process: Process, stdin: asyncio.StreamWriter) -> None:
        """End it if it has not ended: by closing its stdin, or by force if it does not listen."""
        if process.returncode is not None:
            return
        stdin.close()
        # A process that loads its model sees nothing else until it has.
        limit_s = 0.0 if self._loading else STOP_LIMIT_S
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await process.wait()
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    def _why(self, code: int, errors: list[str]) -> PairError:
        """The sentence for a process that has ended, and whose fault it was."""
        file = self._file.path
        words = next(iter(errors), "no reason given")
        if code == NOT_ENOUGH_MEMORY:
            size = self._file.size_bytes / 1e9
            return SettingsError(
                f"{file} takes {size:.1f} GB of memory and less is free;"
                " close something or choose a smaller model"
            )
        if code == NOT_LOADED and any(_NO_MEMORY_WORDS.search(line) for line in errors):
            return SettingsError(
                f"there is not enough memory for {file} with {self._options.slots} x"
                f" {self._options.context_tokens} tokens of context; choose less of either"
            )
        if code == NOT_LOADED:
            return SettingsError(f"llama.cpp can't run {file} at {self.url}: {words}")
        if code < 0:
            return UnreachableNode(f"the embedded engine was killed by signal {-code}")
        return UnreachableNode(f"the embedded engine ended with code {code}: {words}")


def _pipes(
    process: Process,
) -> tuple[asyncio.StreamWriter, asyncio.StreamReader, asyncio.StreamReader]:
    if process.stdin is None or process.stdout is None or process.stderr is None:
        raise BookkeepingError("the embedded engine was started without its pipes")
    return process.stdin, process.stdout, process.stderr


async def _keep_first_lines(stream: asyncio.StreamReader, lines: list[str]) -> None:
    """Read to the end, so that the writer never waits, and keep the first lines: they have the
    cause, and those after the start may speak of prompts.
    """
    beginning = b""
    while piece := await stream.read(_STDERR_LIMIT_BYTES):
        if len(beginning) < _STDERR_LIMIT_BYTES:
            beginning += piece
            lines[:] = _readable(beginning[:_STDERR_LIMIT_BYTES])


def _readable(output: bytes) -> list[str]:
    lines = (_LINE_PREFIX.sub("", line) for line in output.decode("utf-8", "replace").splitlines())
    return ["".join(char for char in line if char.isprintable()) for line in lines if line.strip()]


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _free_port() -> int:
    """A port of loopback that is free now. Chosen here and not by the engine, so that its address
    is known before it listens.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
