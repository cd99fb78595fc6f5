"""Looks at the proxy throughout a run: at its counters by its snapshot, at its size by /proc."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

LOOK_S = 0.25
_WRONG_LIMIT = 50


@dataclass(frozen=True, slots=True)
class Size:
    """The proxy's process at one time; `opened` tickets so far."""

    at_s: float
    opened: int
    memory_kib: int
    files: int


def size_of(pid: int, opened: int) -> Size:
    """Resident memory and open file descriptors now."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return Size(time.monotonic(), opened, int(line.split()[1]), files)


def counter_errors(snapshot: dict[str, Any]) -> list[str]:
    """What is wrong about the counters at one instant."""
    wrong = []
    tickets = snapshot["tickets"]
    fates = sum(count for name, count in tickets.items() if name != "opened")
    open_now = tickets["opened"] - fates
    busy = 0
    for node in snapshot["nodes"]:
        for replica in node["replicas"]:
            held, slots = replica["in_flight"] + replica["draining"], replica["slots"]
            busy += replica["in_flight"]
            name = f"{node['name']}/{replica['model']}"
            if replica["in_flight"] < 0 or replica["draining"] < 0 or replica["queue_depth"] < 0:
                wrong.append(f"{name}: a count below 0: {replica}")
            if held > slots:
                wrong.append(
                    f"{name}: {replica['in_flight']} in flight and {replica['draining']} "
                    f"draining on {slots} slots"
                )
    if snapshot["waiting"] < 0 or busy != snapshot["in_flight"]:
        wrong.append(f"waiting {snapshot['waiting']}, {snapshot['in_flight']} in flight of {busy}")
    if not 0 <= snapshot["waiting"] + snapshot["in_flight"] <= open_now:
        wrong.append(
            f"{open_now} tickets are open, but {snapshot['waiting']} wait and "
            f"{snapshot['in_flight']} are in flight"
        )
    return wrong


@dataclass
class Watch:
    """What was seen so far.

    Attributes:
        snapshot: the newest.
        slowest_look_s: longest answer to a question for the snapshot.
    """

    address: tuple[str, int]
    pid: int
    looks: int = 0
    slowest_look_s: float = 0.0
    most_waiting: int = 0
    wrong: list[str] = field(default_factory=list)
    wrong_looks: int = 0
    sizes: list[Size] = field(default_factory=list)
    snapshot: dict[str, Any] = field(default_factory=dict)

    async def run(self, stop: asyncio.Event) -> None:
        """Look until `stop`."""
        async with aiohttp.ClientSession() as session:
            while not stop.is_set():
                await self.look(session)
                try:
                    async with asyncio.timeout(LOOK_S):
                        await stop.wait()
                except TimeoutError:
                    continue

    async def look(self, session: aiohttp.ClientSession) -> None:
        """Look once; a proxy that does not answer ends the run."""
        began_s = time.monotonic()
        name, port = self.address
        async with session.get(f"http://{name}:{port}/pair/v1/snapshot") as answer:
            self.snapshot = await answer.json()
        self.looks += 1
        self.slowest_look_s = max(self.slowest_look_s, time.monotonic() - began_s)
        self.most_waiting = max(self.most_waiting, self.snapshot["waiting"])
        found = counter_errors(self.snapshot)
        self.wrong_looks += bool(found)
        self.wrong += found[: max(0, _WRONG_LIMIT - len(self.wrong))]
        self.sizes.append(size_of(self.pid, self.snapshot["tickets"]["opened"]))

    def idle(self) -> bool:
        """Whether nothing waits, runs or drains, and every ticket is closed."""
        tickets = self.snapshot["tickets"]
        return (
            self.snapshot["waiting"] == 0
            and self.snapshot["in_flight"] == 0
            and tickets["opened"] == sum(tickets.values()) - tickets["opened"]
            and not any(
                replica["draining"]
                for node in self.snapshot["nodes"]
                for replica in node["replicas"]
            )
        )

    def ready(self) -> int:
        """How many nodes are ready and show a replica."""
        nodes = self.snapshot["nodes"]
        return sum(node["phase"] == "ready" and bool(node["replicas"]) for node in nodes)
