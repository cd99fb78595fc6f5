from __future__ import annotations

import json
import signal
import socket
from pathlib import Path

import aiohttp

from tests.cli.conftest import Pair
from tests.cli.processes import pair_process


async def test_it_serves_what_it_is_told_and_ends_in_order(home: Path) -> None:
    flags = ("--model", "tiny", "--model", "big,alias=gpt-4o", "--decode-rate", "inf")
    faults = ("--fault", "status,status=503,first=1")
    async with pair_process(home, "echo", *flags, *faults, "--persona", "vllm") as process:
        line = await process.line_with("echo engine at")
        url = line.split()[3]
        assert line == f"echo engine at {url} (vllm; tiny, big)\n"
        async with aiohttp.ClientSession(url) as session:
            async with session.get("/v1/models") as answer:
                models = [model["id"] for model in json.loads(await answer.read())["data"]]
            body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hello"}]}
            statuses = []
            for _ in range(2):
                async with session.post("/v1/chat/completions", json=body) as answer:
                    statuses.append(answer.status)
        assert models[:2] == ["tiny", "big"]
        assert statuses == [503, 200]
        process.signal(signal.SIGTERM)
        assert await process.end() == 0
        assert await process.rest() == ("", "")


def test_what_it_cannot_be_is_told(pair: Pair) -> None:
    assert pair("echo", "--persona", "cloud").code == 2
    for flags, word in (
        (["--slots", "0"], "slots"),
        (["--fault", "explode"], "explode"),
        (["--model", "a,b"], "alias"),
        (["--listen", "everywhere"], "everywhere"),
    ):
        run = pair("echo", *flags)
        assert (run.code, run.out) == (2, ""), flags
        assert word in run.err


def test_a_port_in_use_is_one_sentence(pair: Pair) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        run = pair("echo", "--listen", address)
    assert run.code == 1
    assert address in run.err
    assert len(run.err.splitlines()) == 1
