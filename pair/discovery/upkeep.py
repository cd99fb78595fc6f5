"""Long-lived tasks that live exactly as long as an `async with` block, and rounds that go on
whatever happens.

Separate because browser and advertiser need the same care: no exception of a task is lost, none of
the block is wrapped into a group, the tasks have cleaned up when the block is left, and a network
without mDNS is one line in the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from pair.errors import NoMulticast

_log = logging.getLogger(__name__)

ROUND_INTERVAL_S = 2.0
"""Between two looks at the interfaces: a cable plugged in is used within this. A look costs 0.2 ms
(Linux, 2026-11)."""


class Upkeep:
    """Runs tasks between `start` and `stop`, which must be called by the same task.

    A task that ends with an exception cancels the caller's block; `stop` then raises the exceptions
    as a group.
    """

    def __init__(self) -> None:
        self._tasks = asyncio.TaskGroup()
        self._running: list[asyncio.Task[None]] = []

    async def start(self, work: Mapping[str, Callable[[], Coroutine[Any, Any, None]]]) -> None:
        """Start a task for each function; the key is the task's name."""
        await self._tasks.__aenter__()
        for name, function in work.items():
            self._running.append(self._tasks.create_task(function(), name=name))

    async def stop(self) -> None:
        """Cancel the tasks and wait until they have cleaned up."""
        for task in self._running:
            task.cancel()
        # Without the block's own exception, which the group would wrap.
        await self._tasks.__aexit__(None, None, None)


async def repeat(turn: Callable[[], Awaitable[str]], purpose: str) -> None:
    """Do the turn again and again until cancelled. Each trouble is warned of once, however long it
    lasts.

    Args:
        turn: returns its trouble as a sentence, or an empty string.
        purpose: of the turn, to finish the sentence "cannot ...".
    """
    trouble = ""
    while True:
        before = trouble
        try:
            trouble = await turn()
        except (NoMulticast, OSError) as fault:
            trouble = f"cannot {purpose}: {fault}"
        except Exception as error:  # noqa: BLE001 - the top of a long-lived task
            trouble = f"cannot {purpose}: {type(error).__name__}"
            if trouble != before:
                _log.exception("task %s", asyncio.current_task())
        if trouble and trouble != before:
            _log.warning("%s; will keep trying", trouble)
        elif before and not trouble:
            _log.info("can %s again", purpose)
        await asyncio.sleep(ROUND_INTERVAL_S)
