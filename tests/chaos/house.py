"""The house's processes: eight engines, four nodes in front of some, the proxy; and what is done
to them.

Each is a process of its own, because only a process can be killed or stopped. It starts again at
the port it had.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM, Signals
from types import TracebackType
from typing import Self

import aiohttp

from tests.chaos.plan import NODES, SLOTS, Act, Mishap
from tests.cli.processes import PROGRAM

ADDRESS = "127.0.0.1"
_END_S = 20.0


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now, all different."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind((ADDRESS, 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()


class Program:
    """One process that can be started again with the same arguments; its words go to `log`."""

    def __init__(self, arguments: Sequence[str], home: Path, log: Path) -> None:
        self._arguments = arguments
        self._home = home
        self.log = log
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        """Start it, unless it runs."""
        if self._process is not None and self._process.returncode is None:
            return
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PAIR_")}
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *self._arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**environment, "PAIR_HOME": str(self._home), "PYTHONUNBUFFERED": "1"},
            )

    def signal(self, number: Signals) -> None:
        """Send a signal, if it still runs."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    async def end(self, number: Signals = SIGTERM) -> None:
        """Signal and wait for the end; killed if that takes too long."""
        if self._process is None:
            return
        self.signal(number)
        try:
            async with asyncio.timeout(_END_S):
                await self._process.wait()
        except TimeoutError:
            self.signal(SIGKILL)
            await self._process.wait()


@dataclass(slots=True)
class Outage:
    """When a process of a node could not answer as it should; times of CLOCK_MONOTONIC."""

    node: int
    act: Act
    front: bool
    from_s: float
    until_s: float = float("inf")


@dataclass(slots=True)
class _Place:
    """One node's processes; `front` is the `pair node`, None for a bare engine."""

    engine: Program
    engine_url: str
    url: str
    witness: Path
    front: Program | None = None


@dataclass
class House:
    """The house, running while entered.

    Attributes:
        outages: so far, in order of their beginning.
        struck: mishaps carried out.
    """

    folder: Path
    outages: list[Outage] = field(default_factory=list)
    struck: int = 0

    def __post_init__(self) -> None:
        self.address = (ADDRESS, free_ports(1)[0])
        ports = iter(free_ports(2 * len(NODES)))
        self.places = [
            self._place(number, next(ports), next(ports)) for number in range(len(NODES))
        ]
        named = [
            part
            for node, place in zip(NODES, self.places, strict=True)
            for part in ("--node", f"{place.url},slots={SLOTS},name={node.name}")
        ]
        listen = f"{ADDRESS}:{self.address[1]}"
        self.proxy = self._pair("proxy", "serve", "--listen", listen, "--no-discovery", *named)

    def _place(self, number: int, engine_port: int, port: int) -> _Place:
        node = NODES[number]
        listen = f"{ADDRESS}:{engine_port}"
        witness = self.folder / f"{node.name}.jsonl"
        arguments = ("-m", "tests.chaos.engine", listen, node.persona, str(witness))
        engine = Program(arguments, self.folder, self.folder / f"{node.name}.engine.log")
        url = f"http://{listen}"
        if not node.paired:
            return _Place(engine, url, url, witness)
        engines = ("--no-find-engines", "--engine", url, "--slots", str(SLOTS))
        mine = ("--name", node.name, "--listen", f"{ADDRESS}:{port}")
        front = self._pair(node.name, "node", *engines, *mine)
        return _Place(engine, url, f"http://{ADDRESS}:{port}", witness, front)

    def _pair(self, name: str, *arguments: str) -> Program:
        home = self.folder / f"{name}.home"
        home.mkdir()
        return Program(("-c", PROGRAM, *arguments), home, self.folder / f"{name}.log")

    def programs(self) -> list[Program]:
        """All of them, the proxy last."""
        fronts = [place.front for place in self.places if place.front is not None]
        return [*(place.engine for place in self.places), *fronts, self.proxy]

    async def __aenter__(self) -> Self:
        for program in self.programs():
            await program.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for program in self.programs():
            program.signal(SIGCONT)
        async with asyncio.TaskGroup() as group:
            for program in self.programs():
                group.create_task(program.end())

    async def suffer(self, mishaps: Sequence[Mishap], stop: asyncio.Event) -> None:
        """Carry out the mishaps at their times until `stop`; what is broken then is put right."""
        began_s = time.monotonic()
        async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as group:
            for mishap in mishaps:
                if await _stopped(stop, began_s + mishap.at_s - time.monotonic()):
                    break
                self.struck += 1
                if mishap.act is Act.FAULT:
                    group.create_task(self.set_faults(session, mishap.node, [mishap.fault]))
                else:
                    group.create_task(self._break(mishap, stop))

    async def set_faults(
        self, session: aiohttp.ClientSession, node: int, faults: list[str]
    ) -> None:
        """Tell an engine how to fail from now on; one that is down does not hear it."""
        url = f"{self.places[node].engine_url}/echo/faults"
        limit = aiohttp.ClientTimeout(total=3)
        try:
            async with session.post(url, json=faults, timeout=limit) as answer:
                if answer.status != 200:
                    raise ValueError(f"the plan has a fault that is none: {await answer.text()}")
        except (aiohttp.ClientError, TimeoutError):
            pass

    async def _break(self, mishap: Mishap, stop: asyncio.Event) -> None:
        place = self.places[mishap.node]
        program = place.front if mishap.front and place.front is not None else place.engine
        outage = Outage(mishap.node, mishap.act, mishap.front, time.monotonic())
        self.outages.append(outage)
        match mishap.act:
            case Act.PAUSE:
                program.signal(SIGSTOP)
                await _stopped(stop, mishap.for_s)
                program.signal(SIGCONT)
            case Act.KILL:
                await program.end(SIGKILL)
                await _stopped(stop, mishap.for_s)
                await program.start()
            case _:
                await program.end(SIGTERM)
                await _stopped(stop, mishap.for_s)
                await program.start()
        outage.until_s = time.monotonic()


async def _stopped(stop: asyncio.Event, after_s: float) -> bool:
    """Wait for so long or for the end of the run; whether that came."""
    try:
        async with asyncio.timeout(max(0.0, after_s)):
            await stop.wait()
    except TimeoutError:
        return False
    return True
