"""A public HTTP/1.1 probe suite, h1spec, against the server that clients of `pair` talk to.

Not a test of ours: it needs a folder with the suite (github.com/uNetworking/h1spec, one file) and a
Deno to run it in. The suite wants a server that answers any method at any path with the request's
body, which `pair serve` has no page for; so the relay's front, with the limits that `pair serve`
gives it, is put to it with such a handler. What comes behind the front sees no raw bytes.

Run: python -m tests.measurements.http_probe_suite --suite FOLDER --deno VENV/bin/deno
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from pair.cli.event_loop import run
from pair.errors import RequestFault
from pair.relay.exchange import Exchange, plain_answer
from pair.relay.front import Front
from pair.settings import Settings

SUITE_LIMIT_S = 120.0
BODY_LIMIT_BYTES = 1024 * 1024


async def echo(exchange: Exchange) -> None:
    """What the suite expects of any server."""
    try:
        exchange.answer(200, (), b"".join(await exchange.read_body(BODY_LIMIT_BYTES)))
    except RequestFault as fault:
        plain_answer(exchange, fault.status, str(fault))


async def probed(suite: Path, deno: Path) -> int:
    """Run the suite, which prints a line for each probe; its exit code."""
    async with Front(echo, Settings().front_limits()) as front:
        name, _, port = (await front.open("127.0.0.1:0")).rpartition(":")
        words = ("run", "--no-check", "--allow-net", str(suite / "http_test.ts"), name, port)
        running = await asyncio.create_subprocess_exec(str(deno), *words)
        async with asyncio.timeout(SUITE_LIMIT_S):
            return await running.wait()


def main() -> None:
    """Probe and end with the suite's exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", type=Path, required=True, help="h1spec's folder")
    parser.add_argument("--deno", type=Path, required=True)
    chosen = parser.parse_args()
    sys.exit(run(probed(chosen.suite.resolve(strict=True), chosen.deno.absolute())))


if __name__ == "__main__":
    main()
