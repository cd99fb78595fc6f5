"""Each example runs as its first lines say, against a house of echo engines, and does what it
shows.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.house import FAST, House, house

EXAMPLES = Path(__file__).parents[2] / "examples"
RUN_LIMIT_S = 60.0


async def run(built: House, *command: str) -> str:
    """Run an example in a process of its own and return what it printed."""
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        printed, complained = await asyncio.wait_for(process.communicate(), RUN_LIMIT_S)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, complained.decode()
    return printed.decode()


async def job(built: House, name: str) -> Any:
    async with built.client.get(f"/pair/v1/jobs/{name}") as answer:
        assert answer.status == 200
        return await answer.json()


async def test_fan_out_spreads_five_sub_agents_over_the_house() -> None:
    async with house(FAST, FAST, FAST) as built:
        url = f"{built.base_url}/v1"
        printed = await run(built, sys.executable, str(EXAMPLES / "fan_out.py"), "--base-url", url)
        shown = await job(built, "fan-out")
    assert "5 calls in" in printed
    assert all(f"node-{number}" in printed for number in range(3))
    assert (shown["calls_total"], shown["answered"]) == (5, 5)


async def test_an_agent_framework_needs_nothing_but_the_base_url() -> None:
    async with house(FAST, FAST) as built:
        url = f"{built.base_url}/v1"
        script = str(EXAMPLES / "agent_team.py")
        printed = await run(built, sys.executable, script, "--base-url", url)
        shown = await job(built, "agent-team")
    assert [line.split(":")[0] for line in printed.splitlines()] == ["cost", "risk", "speed"]
    assert (shown["calls_total"], shown["answered"]) == (3, 3)
    assert not any(call["streamed"] for call in shown["calls"])


async def test_curl_alone_is_client_enough() -> None:
    async with house(FAST) as built:
        printed = await run(built, "sh", str(EXAMPLES / "plain_curl.sh"), f"{built.base_url}/v1")
    assert printed.startswith("HTTP/1.1 200")
    assert "x-pair-node: node-0" in printed
    assert printed.rstrip().endswith("data: [DONE]")


def test_every_example_is_run_here() -> None:
    tested = {"fan_out.py", "agent_team.py", "plain_curl.sh"}
    shipped = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".sh")}
    if shipped != tested:
        pytest.fail(f"examples without a test, or tests without an example: {shipped ^ tested}")
