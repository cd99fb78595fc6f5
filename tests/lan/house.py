"""Real `pair` processes on the machines of a LAN, and one proxy's view of them.

What a test says: this machine has an engine and is a node, that one runs the proxy, these calls go
out.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Collection
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp

from tests.lan.machine import Machine, Program

PAIR = Path(sys.executable).with_name("pair")
MODEL = "echo"
PROXY_URL = "http://127.0.0.1:7247"

_LOOK_S = 0.05
"""Between two looks at a snapshot."""


@dataclass(frozen=True)
class Call:
    """One call and its end, in seconds of the test's monotonic clock.

    Attributes:
        node: name of the node that answered, "" where none did.
    """

    began: float
    ended: float
    status: int
    node: str
    attempts: int
    text: str


async def engine(machine: Machine, *, call_s: float, address: str = "127.0.0.1") -> Program:
    """An echo engine on the machine, with one slot, whose every answer takes this long."""
    tokens = 50
    program = await machine.start(
        PAIR, "echo",
        "--listen", f"{address}:8080",
        "--model", MODEL,
        "--answer-tokens", str(tokens),
        "--decode-rate", f"{tokens / call_s:.3f}",
        "--prefill-rate", "1000000",
    )  # fmt: skip
    await program.line(":8080", 15)
    return program


async def node(machine: Machine) -> Program:
    """A node on the machine, open to the LAN, with the engine there."""
    program = await machine.start(
        PAIR, "node",
        "--engine", "http://127.0.0.1:8080",
        "--no-find-engines",
        "--listen", "0.0.0.0:7248",
        "--name", machine.name,
    )  # fmt: skip
    await program.line("at 0.0.0.0:7248", 15)
    return program


class House:
    """The proxy on a machine, asked from there; entered, it listens."""

    def __init__(self, machine: Machine, *options: str) -> None:
        self._machine = machine
        self._options = options
        self._stack = AsyncExitStack()
        self._session: aiohttp.ClientSession

    async def __aenter__(self) -> Self:
        self._session = await self._stack.enter_async_context(self._machine.session())
        program = await self._machine.start(PAIR, "serve", *self._options)
        await program.line("proxy at", 15)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def snapshot(self) -> dict[str, Any]:
        """What the proxy says of itself now."""
        async with self._session.get(f"{PROXY_URL}/pair/v1/snapshot") as answer:
            assert answer.status == 200
            found: dict[str, Any] = await answer.json()
            return found

    async def nodes(self) -> dict[str, dict[str, Any]]:
        """The nodes of the snapshot by name."""
        return {entry["name"]: entry for entry in (await self.snapshot())["nodes"]}

    async def until(
        self, fits: Callable[[dict[str, dict[str, Any]]], bool], what: str, limit_s: float
    ) -> float:
        """Wait until the nodes are so; how long it took, in seconds."""
        began = time.monotonic()
        seen: dict[str, dict[str, Any]] = {}
        while time.monotonic() < began + limit_s:
            seen = await self.nodes()
            if fits(seen):
                return time.monotonic() - began
            await asyncio.sleep(_LOOK_S)
        phases = {name: (entry["phase"], entry["reason"]) for name, entry in seen.items()}
        raise AssertionError(f"not within {limit_s} s: {what}; the nodes are {phases}")

    async def until_ready(self, names: Collection[str], limit_s: float) -> float:
        """Wait until these nodes, and at least these, hold a model that is ready."""

        def fits(seen: dict[str, dict[str, Any]]) -> bool:
            return all(
                name in seen
                and seen[name]["phase"] == "ready"
                and any(replica["state"] == "ready" for replica in seen[name]["replicas"])
                for name in names
            )

        return await self.until(fits, f"{sorted(names)} ready", limit_s)

    async def call(self, text: str) -> Call:
        """One call that is not streamed, and its end."""
        began = time.monotonic()
        body = {"model": MODEL, "messages": [{"role": "user", "content": text}]}
        async with self._session.post(
            f"{PROXY_URL}/v1/chat/completions", json=body, timeout=aiohttp.ClientTimeout(total=60)
        ) as answer:
            whole = await answer.text()
            where = answer.headers.get("x-pair-node", "")
            attempts = int(answer.headers.get("x-pair-attempts", "0"))
            names = {entry["id"]: entry["name"] for entry in (await self.snapshot())["nodes"]}
            return Call(
                began, time.monotonic(), answer.status, names.get(where, where), attempts, whole
            )
