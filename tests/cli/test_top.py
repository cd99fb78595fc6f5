from __future__ import annotations

import signal
from pathlib import Path

from tests.cli.conftest import Pages, Pair
from tests.cli.processes import pair_process
from tests.terminal.samples import node, replica, snapshot


def put(pages: Pages, in_flight: int) -> None:
    attic = node("attic", replica(in_flight=in_flight))
    pages.put("/pair/v1/jobs", {"v": 1, "jobs": []})
    pages.put("/pair/v1/snapshot", snapshot(attic, in_flight=in_flight))


def test_once_is_one_look(pair: Pair, pages: Pages) -> None:
    put(pages, 1)
    run = pair("top", "--once", "--proxy", pages.url)
    line = "12.0 s · 1 of 1 node ready · 1 in flight (attic 1) · 0 waiting · 8 answered\n"
    assert (run.code, run.out, run.err) == (0, line, "")


def test_without_a_proxy_one_sentence(pair: Pair) -> None:
    run = pair("top", "--proxy", "http://127.0.0.1:1")
    assert run.code == 1
    assert run.err.startswith("pair: no pair proxy answers at")


async def test_it_follows_changes_survives_the_proxy_and_ends_on_ctrl_c(
    home: Path, pages: Pages
) -> None:
    put(pages, 1)
    async with pair_process(home, "top", "--interval", "0.1", "--proxy", pages.url) as process:
        await process.line_with("1 in flight")
        put(pages, 2)
        await process.line_with("2 in flight (attic 2)")
        pages.close()
        await process.line_with("does not answer any more; this is its last state")
        process.signal(signal.SIGINT)
        assert await process.end() == 0
        assert await process.rest() == ("", "")
