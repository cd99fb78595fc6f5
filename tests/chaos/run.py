"""One run from an empty folder to its report."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import aiohttp

from tests.chaos.checks import judge
from tests.chaos.clients import Clients
from tests.chaos.house import House
from tests.chaos.plan import NODES, draw_mishaps
from tests.chaos.report import Report, make_report, memory
from tests.chaos.watch import Size, Watch, size_of
from tests.chaos.witness import read_visits

START_LIMIT_S = 40.0
SETTLE_LIMIT_S = 40.0
IDLE_S = 6.0
"""Longer than the proxy keeps an idle connection to an engine (4 s)."""
PROGRESS_S = 5.0
_BAD_WORDS = ("ERROR", "CRITICAL", "Traceback")

Say = Callable[[str], None]


async def run(seed: int, minutes: float, folder: Path, say: Say) -> Report:
    """Run the chaos of this seed for so long; its processes' logs stay in `folder`."""
    say(f"chaos: seed {seed}, {minutes:g} minutes, logs in {folder}")
    mishaps = draw_mishaps(seed, minutes * 60)
    async with House(folder) as house:
        clients = Clients(house.address, seed)
        watch = Watch(house.address, house.proxy.pid)
        async with aiohttp.ClientSession() as session:
            await _until(watch, session, lambda: watch.ready() == len(NODES), START_LIMIT_S)
            if watch.ready() < len(NODES):
                raise TimeoutError(f"only {watch.ready()} nodes are ready, see {folder}/proxy.log")
            before = await _idle_size(watch)
            stop, hushed = asyncio.Event(), asyncio.Event()
            async with asyncio.TaskGroup() as group:
                group.create_task(watch.run(hushed))
                group.create_task(_progress(say, clients, watch, house, hushed))
                suffering = group.create_task(house.suffer(mishaps, stop))
                calling = group.create_task(clients.run(stop))
                await asyncio.sleep(minutes * 60)
                stop.set()
                await suffering
                for node in range(len(NODES)):
                    await house.set_faults(session, node, [])
                await calling
                hushed.set()
            say("settling")
            await _until(
                watch, session, lambda: watch.idle() and watch.ready() == len(NODES), SETTLE_LIMIT_S
            )
        after = await _idle_size(watch)
    visits = [
        visit
        for number, place in enumerate(house.places)
        for visit in read_visits(number, place.witness)
    ]
    done = Counter(mishap.act.value for mishap in mishaps[: house.struck])
    return make_report(
        seed,
        minutes,
        clients.records,
        judge(clients.records, visits, house.outages),
        watch,
        memory(watch.sizes, before, after),
        {
            "mishaps": ", ".join(f"{name} {count}" for name, count in sorted(done.items())),
            "engine visits by fate": _counted(visit.fate for visit in visits),
            "engine visits by fault": _counted(visit.fault for visit in visits if visit.fault),
        },
        _log_errors(house),
    )


def _counted(words: object) -> str:
    counts = Counter(words)  # type: ignore[call-overload]
    return ", ".join(f"{word} {count}" for word, count in counts.most_common())


async def _until(
    watch: Watch, session: aiohttp.ClientSession, condition: Callable[[], bool], limit_s: float
) -> None:
    """Look until it holds or the time is over; what does not hold then is in the report."""
    ends_s = time.monotonic() + limit_s
    while time.monotonic() < ends_s:
        try:
            await watch.look(session)
        except aiohttp.ClientConnectionError:
            await asyncio.sleep(0.1)  # it starts
            continue
        if condition():
            return
        await asyncio.sleep(0.1)


async def _idle_size(watch: Watch) -> Size:
    await asyncio.sleep(IDLE_S)
    return size_of(watch.pid, watch.snapshot["tickets"]["opened"])


async def _progress(
    say: Say, clients: Clients, watch: Watch, house: House, stop: asyncio.Event
) -> None:
    began_s = time.monotonic()
    while not stop.is_set():
        try:
            async with asyncio.timeout(PROGRESS_S):
                await stop.wait()
        except TimeoutError:
            seen = ", ".join(f"{name.value} {count}" for name, count in clients.seen().items())
            memory_mib = watch.sizes[-1].memory_kib / 1024
            say(
                f"{time.monotonic() - began_s:5.0f} s: {len(clients.records)} calls, "
                f"{clients.open} open ({seen}); {watch.ready()} nodes ready, {house.struck} "
                f"mishaps, {watch.wrong_looks} counter errors, {memory_mib:.0f} MiB"
            )


def _log_errors(house: House) -> list[str]:
    return [
        f"{program.log.name}: {line}"
        for program in house.programs()
        for line in program.log.read_text(encoding="utf-8", errors="replace").splitlines()
        if any(word in line for word in _BAD_WORDS)
    ]
