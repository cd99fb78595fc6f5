"""Machines of the LAN with real programs on them: started in the namespace, with their own home
folder, output kept.

Everything that a machine starts is in a process group of its own and is killed with it, whatever
the test does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.lan.network import Cable, network

_TAIL_LINES = 30
_LINE_LIMIT_BYTES = 1024 * 1024
_ROOT = Path(__file__).resolve().parents[2]


class Program:
    """One process on a machine, and every line that it has written so far."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, output: Path) -> None:
        self.name = name
        self.lines: list[str] = []
        self._process = process
        self._output = output
        self._changed = asyncio.Condition()
        self._ended = False

    async def read(self) -> None:
        """Take in its output until it ends."""
        stream = self._process.stdout
        assert stream is not None
        with self._output.open("ab") as file:
            while line := await stream.readline():
                file.write(line)
                file.flush()
                async with self._changed:
                    self.lines.append(line.decode(errors="replace").rstrip("\n"))
                    self._changed.notify_all()
        async with self._changed:
            self._ended = True
            self._changed.notify_all()

    async def line(self, wanted: Callable[[str], bool] | str, limit_s: float) -> str:
        """The first line that fits or contains the text, written already or within the limit."""
        fits = wanted if callable(wanted) else lambda line: wanted in line
        found: list[str] = []

        def look() -> bool:
            found[:] = [line for line in self.lines if fits(line)][:1]
            return bool(found) or self._ended

        try:
            async with self._changed:
                await asyncio.wait_for(self._changed.wait_for(look), limit_s)
        except TimeoutError:
            raise AssertionError(f"{self.name} wrote no such line in {limit_s} s") from None
        assert found, f"{self.name} ended without such a line"
        return found[0]

    async def stop(self, limit_s: float = 10.0) -> int:
        """Ask it to end (SIGTERM) and return its exit code."""
        if self._process.returncode is None:
            self._process.terminate()
        return await asyncio.wait_for(self._process.wait(), limit_s)

    async def kill(self) -> None:
        """End it and all that it started, at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()

    def tail(self) -> str:
        """Its last lines, for a failed test."""
        return f"--- {self.name}\n" + "\n".join(self.lines[-_TAIL_LINES:])


class Machine:
    """One machine: its cable, its home folder and its programs."""

    def __init__(self, name: str, cable: Cable, folder: Path, tasks: asyncio.TaskGroup) -> None:
        self.name = name
        self.cable = cable
        self.programs: list[Program] = []
        self._folder = folder
        self._tasks = tasks

    @property
    def address(self) -> str:
        """Its IPv4 address on the LAN."""
        return self.cable.address

    async def start(
        self, *command: str | Path, environment: Mapping[str, str] | None = None
    ) -> Program:
        """Start a program here; its name in failures is the machine's and the last part of the
        command's first word.
        """
        self._folder.mkdir(exist_ok=True)
        process = await asyncio.create_subprocess_exec(
            "ip", "netns", "exec", self.cable.namespace, *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=_ROOT,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self._folder),
                "PAIR_HOME": str(self._folder / "pair"),
                "PYTHONUNBUFFERED": "1",
                **(environment or {}),
            },
            start_new_session=True,
            limit=_LINE_LIMIT_BYTES,
        )  # fmt: skip
        name = f"{self.name}: {' '.join(str(word) for word in command[1:4])}"
        program = Program(name, process, self._folder / f"output-{len(self.programs)}.txt")
        self.programs.append(program)
        self._tasks.create_task(program.read(), name=name)
        return program

    def session(self) -> aiohttp.ClientSession:
        """An HTTP client on this machine, for the test's own event loop."""

        def open_socket(address: Any) -> socket.socket:
            family, kind, protocol, *_ = address
            return self.cable.socket(family, kind, protocol)

        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(socket_factory=open_socket, limit=0, ttl_dns_cache=None),
            timeout=aiohttp.ClientTimeout(total=30),
            trust_env=False,
        )


class Lan:
    """The machines by name, and how to wait for what they do."""

    def __init__(self, machines: Mapping[str, Machine]) -> None:
        self._machines = machines

    def __getitem__(self, name: str) -> Machine:
        return self._machines[name]

    def tails(self) -> str:
        """What every program wrote last."""
        return "\n".join(
            program.tail() for machine in self._machines.values() for program in machine.programs
        )

    async def kill_all(self) -> None:
        """End every program on every machine."""
        for machine in self._machines.values():
            for program in machine.programs:
                await program.kill()


@asynccontextmanager
async def lan(
    folder: Path, plugged: Sequence[str], unplugged: Sequence[str] = ()
) -> AsyncIterator[Lan]:
    """A LAN with these machines. A failure inside carries the last lines of every program as a
    note.
    """
    failure: BaseException | None = None
    with network([*plugged, *unplugged]) as cables:
        for name in plugged:
            cables[name].plug()
        async with asyncio.TaskGroup() as tasks:
            made = Lan(
                {name: Machine(name, cable, folder / name, tasks) for name, cable in cables.items()}
            )
            try:
                yield made
            except BaseException as error:  # noqa: BLE001 - raised below, where the group does not wrap it
                failure = error
                failure.add_note(made.tails())
            finally:
                await made.kill_all()
    if failure is not None:
        raise failure
