"""`pair` as a real process, for what only a process has: signals, an exit code, a clean end."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO

LIMIT_S = 20.0
"""Longest wait for anything; a machine under load needs seconds to start Python."""

PROGRAM = "from pair.cli.main import run; run()"


class PairProcess:
    """One running `pair`; its stdout is read line by line."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def line_with(self, words: str) -> str:
        """The next line of stdout that holds these words; a bounded wait."""
        assert self._process.stdout is not None
        return await self._line(self._process.stdout, words)

    async def error_line_with(self, words: str) -> str:
        """The same of stderr."""
        assert self._process.stderr is not None
        return await self._line(self._process.stderr, words)

    async def _line(self, stream: asyncio.StreamReader, words: str) -> str:
        seen = []
        async with asyncio.timeout(LIMIT_S):
            while line := (await stream.readline()).decode():
                if words in line:
                    return line
                seen.append(line)
        raise AssertionError(f"ended without {words!r}: {seen} {await self.rest()}")

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def end(self) -> int:
        """The exit code, once it has ended; a bounded wait."""
        async with asyncio.timeout(LIMIT_S):
            return await self._process.wait()

    async def rest(self) -> tuple[str, str]:
        """What it had still to say on stdout and stderr until its end."""
        async with asyncio.timeout(LIMIT_S):
            out, err = await self._process.communicate()
        return (out or b"").decode(), err.decode()


@asynccontextmanager
async def pair_process(
    home: Path,
    *arguments: str,
    program: str = PROGRAM,
    stdout: IO[bytes] | int = asyncio.subprocess.PIPE,
    environment: Mapping[str, str] | None = None,
) -> AsyncIterator[PairProcess]:
    """A `pair` with these arguments and this PAIR_HOME; killed at the end if it still runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        program,
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=stdout,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PAIR_HOME": str(home), "PYTHONUNBUFFERED": "1", **(environment or {})},
    )
    try:
        yield PairProcess(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
