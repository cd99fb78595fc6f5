"""Each example runs as its first lines say, against a house of echo engines, and does what it
shows.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pair.bench.echo_engine.settings import EchoModel
from tests.support.house import FAST, House, house

EXAMPLES = Path(__file__).parents[2] / "examples"
RUN_LIMIT_S = 60.0


async def run(*command: str) -> str:
    """Run an example in a process of its own and return what it printed."""
    code, printed, complained = await end_of(*command)
    assert code == 0, complained
    return printed


async def end_of(*command: str) -> tuple[int | None, str, str]:
    """Run an example in a process of its own: its exit code, stdout and stderr."""
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        printed, complained = await asyncio.wait_for(process.communicate(), RUN_LIMIT_S)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode, printed.decode(), complained.decode()


def last_job(printed: str) -> str:
    """The job that the last line points to."""
    return printed.splitlines()[-1].rpartition("pair jobs ")[2]


async def job(built: House, name: str) -> Any:
    async with built.client.get(f"/pair/v1/jobs/{name}") as answer:
        assert answer.status == 200
        return await answer.json()


async def test_fan_out_spreads_five_sub_agents_over_the_house() -> None:
    async with house(FAST, FAST, FAST) as built:
        url = f"{built.base_url}/v1"
        script = str(EXAMPLES / "fan_out.py")
        printed = await run(sys.executable, script, "--base-url", url)
        again = await run(sys.executable, script, "--base-url", url)
        shown = await job(built, last_job(printed))
    assert last_job(printed).startswith("fan-out-")
    assert last_job(printed) != last_job(again), "two runs are two jobs"
    assert "5 calls in" in printed
    assert all(f"node-{number}" in printed for number in range(3))
    assert (shown["calls_total"], shown["answered"]) == (5, 5)


async def test_an_agent_framework_needs_nothing_but_the_base_url() -> None:
    async with house(FAST, FAST) as built:
        url = f"{built.base_url}/v1"
        script = str(EXAMPLES / "agent_team.py")
        printed = await run(sys.executable, script, "--base-url", url)
        shown = await job(built, last_job(printed))
    said = [line.split(":")[0] for line in printed.splitlines()]
    assert said == ["cost", "risk", "speed", "see"]
    assert (shown["calls_total"], shown["answered"]) == (3, 3)
    assert not any(call["streamed"] for call in shown["calls"])


async def test_curl_alone_is_client_enough() -> None:
    async with house(FAST) as built:
        printed = await run("sh", str(EXAMPLES / "plain_curl.sh"), f"{built.base_url}/v1")
    assert printed.startswith("HTTP/1.1 200")
    assert "x-pair-node: node-0" in printed
    assert printed.rstrip().endswith("data: [DONE]")


async def test_curl_shows_what_pair_says_of_an_error() -> None:
    # Of a second model, for llama.cpp's only one answers to any name.
    other = replace(FAST, models=(EchoModel("another"),))
    async with house(FAST, other) as built:
        script = str(EXAMPLES / "plain_curl.sh")
        code, printed, _ = await end_of("sh", script, f"{built.base_url}/v1", "no-such-model")
    assert code == 22  # curl's own code for an HTTP error
    assert "no-such-model" in printed.partition("\r\n\r\n")[2]


@pytest.mark.parametrize("name", ["fan_out.py", "agent_team.py", "plain_curl.sh"])
async def test_a_house_without_a_model_is_one_sentence(name: str) -> None:
    async with house() as built:
        url, script = f"{built.base_url}/v1", str(EXAMPLES / name)
        shell, python = ("sh", script, url), (sys.executable, script, "--base-url", url)
        code, printed, complained = await end_of(*(shell if name.endswith(".sh") else python))
    assert (code, printed) == (1, "")
    assert complained.startswith("no machine of the house has a model yet")
    assert len(complained.splitlines()) == 1


def test_every_example_is_run_here() -> None:
    tested = {"fan_out.py", "agent_team.py", "plain_curl.sh"}
    shipped = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".sh")}
    if shipped != tested:
        pytest.fail(f"examples without a test, or tests without an example: {shipped ^ tested}")
