from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import pytest

from tests.cli.conftest import Pair
from tests.cli.processes import pair_process


async def test_the_classic_five_on_three_reports_and_ends_by_itself(home: Path) -> None:
    flags = ("--simulated", "--output-tokens", "12", "--json")
    async with pair_process(home, "demo", *flags) as process:
        out, err = await process.rest()
        assert await process.end() == 0
    job = json.loads(out)
    assert (job["calls_total"], job["answered"], job["waves"]) == (5, 5, 2)
    assert job["limit"] == 2.5
    assert job["baseline"] == "measured"
    assert 2.0 < job["achieved"] < 2.6
    assert {call["name"] for call in job["calls"]} == {"attic", "cellar", "kitchen"}
    assert "3 of 3 nodes ready" in err
    assert "\x1b" not in out + err
    assert not await asyncio.to_thread(home.exists)


async def test_people_get_the_report_with_its_timeline(home: Path) -> None:
    flags = ("--simulated", "--nodes", "2", "--calls", "2", "--output-tokens", "4")
    async with pair_process(home, "demo", *flags) as process:
        out, _ = await process.rest()
        assert await process.end() == 0
    for part in ("2 calls on 2 nodes", "alone (", "limit 2.00x", "until the first content byte"):
        assert part in out
    assert out.splitlines()[-1].startswith("the engines were pretended")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_breaks_it_off_and_cleans_up(home: Path, number: signal.Signals) -> None:
    flags = ("--simulated", "--output-tokens", "2000")
    async with pair_process(home, "demo", *flags) as process:
        await process.error_line_with("one node alone")
        process.signal(number)
        assert await process.end() == 128 + number
        out, err = await process.rest()
    assert out == ""
    assert "Traceback" not in err


def test_less_than_two_nodes_is_no_house(pair: Pair) -> None:
    assert pair("demo", "--simulated", "--nodes", "1").code == 2


@pytest.mark.engine
async def test_a_real_model_on_two_nodes(home: Path) -> None:
    flags = ("--nodes", "2", "--calls", "4", "--output-tokens", "8", "--json")
    async with pair_process(home, "demo", *flags) as process:
        out, err = await process.rest()
        assert await process.end() == 0
    job = json.loads(out)
    assert "SmolLM2" in job["model"]
    assert (job["answered"], job["output_tokens"]) == (4, 32)
    assert {call["name"] for call in job["calls"]} == {"attic", "cellar"}
    assert "2 of 2 nodes ready" in err
