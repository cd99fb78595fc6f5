"""`pair top`: the proxy, live."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from pair.cli import exit_codes
from pair.cli.environment import own_config
from pair.cli.event_loop import run_until_stopped
from pair.cli.options import ProxyOption
from pair.cli.running_proxy import Json, RunningProxy, proxy_url
from pair.errors import UnreachableNode
from pair.terminal.live import LiveView
from pair.terminal.screen import console_on

IntervalOption = Annotated[
    float, typer.Option("--interval", metavar="SECONDS", min=0.1, help="Time between two looks.")
]
OnceOption = Annotated[bool, typer.Option("--once", help="Look once and end.")]


def top(
    proxy: ProxyOption = None, interval: IntervalOption = 1.0, once: OnceOption = False
) -> None:
    """Watch nodes, queue and the latest jobs until Ctrl-C; without a terminal a line a change."""
    url = proxy_url(own_config({}).settings, proxy)

    async def program(stop: asyncio.Event) -> int:
        if once:
            stop.set()
        await _watch(url, interval, stop)
        return exit_codes.OK

    raise typer.Exit(run_until_stopped(program))


async def _watch(url: str, interval_s: float, stop: asyncio.Event) -> None:
    """Show the state now and at every interval until `stop` is set; a first failure is raised."""
    async with RunningProxy(url) as proxy:
        snapshot, jobs = await _look(proxy)
        with LiveView(console_on(sys.stdout)) as view:
            note = ""
            while True:
                view.show(snapshot, jobs=jobs, note=note)
                try:
                    await asyncio.wait_for(stop.wait(), interval_s)
                    return
                except TimeoutError:
                    pass
                try:
                    snapshot, jobs = await _look(proxy)
                    note = ""
                except UnreachableNode:
                    note = f"the proxy at {url} does not answer any more; this is its last state"


async def _look(proxy: RunningProxy) -> tuple[Json, Sequence[Json]]:
    return await proxy.snapshot(), await proxy.jobs()
