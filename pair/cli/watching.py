"""Watching the proxy while something else runs through it: the live view of bench and demo."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from rich.console import Console

from pair.cli.running_proxy import RunningProxy
from pair.errors import NodeFault
from pair.terminal.live import LiveView

LOOK_S: Final = 0.25
"""Between two looks; each costs the proxy a snapshot, which must not disturb a measurement."""


class Watching:
    """Shows the proxy live while it is entered, with a line on what is being done."""

    def __init__(self, proxy: RunningProxy, console: Console) -> None:
        self._proxy = proxy
        self._view = LiveView(console)
        self._tasks = asyncio.TaskGroup()
        self._step = ""

    async def __aenter__(self) -> Self:
        self._view.__enter__()
        await self._tasks.__aenter__()
        self._looking = self._tasks.create_task(self._look(), name="live view")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._looking.cancel()
        try:
            await self._tasks.__aexit__(kind, fault, trace)
        finally:
            self._view.__exit__(kind, fault, trace)

    def step(self, words: str) -> None:
        """What is being done from now on."""
        self._step = words

    async def _look(self) -> None:
        while True:
            # It may be too busy to be looked at; the calls themselves tell if it is gone.
            with suppress(NodeFault):
                self._view.show(await self._proxy.snapshot(), note=self._step)
            await asyncio.sleep(LOOK_S)
