from __future__ import annotations

import asyncio
import io

import pytest
from rich.console import Console

from pair.cli.running_proxy import RunningProxy
from pair.cli.watching import Watching
from tests.cli.conftest import Pages
from tests.terminal.samples import node, replica, snapshot


class Lines(io.StringIO):
    """A stream that rings when a line with the wanted words has been written."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self._words = words
        self.seen = asyncio.Event()

    def write(self, text: str) -> int:
        if self._words in text:
            self.seen.set()
        return super().write(text)


async def test_it_shows_what_is_being_done_and_survives_a_silent_proxy(pages: Pages) -> None:
    pages.put("/pair/v1/snapshot", b"not now", 503)
    lines = Lines("round 1")
    console = Console(file=lines, width=160)
    async with (
        asyncio.timeout(20),
        RunningProxy(pages.url) as proxy,
        Watching(proxy, console) as watching,
    ):
        watching.step("round 1")
        pages.put("/pair/v1/snapshot", snapshot(node("attic", replica())))
        await lines.seen.wait()
    assert "round 1 · 1 of 1 node ready · 1 in flight (attic 1)" in lines.getvalue()


async def test_an_error_of_what_is_watched_comes_out(pages: Pages) -> None:
    pages.put("/pair/v1/snapshot", snapshot())
    async with RunningProxy(pages.url) as proxy:
        with pytest.RaisesGroup(pytest.RaisesExc(ValueError, match="wrong")):
            async with Watching(proxy, Console(file=io.StringIO())):
                raise ValueError("wrong")
