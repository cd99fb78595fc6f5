"""Item 17: large bodies: how much memory one takes, and how all of them share what there is."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator

import pytest

from pair.settings import ProxySettings, RelaySettings, Settings
from tests.proxy.raw_engine import raw_engine
from tests.relay.wires import Answer, Wire, client, ok, within
from tests.transparency.edges import Edge, asked, edge, post

MIB = 1024 * 1024
LARGE_BYTES = 100 * MIB
BUDGET_BYTES = 4 * MIB
UPLOAD_LIMIT_S = 0.3
TURNS = 100
"""Questions and answers in which a body of some MiB that nobody holds up gets to the engine."""

PROXY = """
import asyncio, json, resource, sys
from pathlib import Path
from pair.cli.event_loop import run
from pair.proxy.service import Proxy
from pair.settings import FixedNode, ProxySettings, Settings

async def main():
    settings = Settings(
        nodes=(FixedNode(sys.argv[1]),), proxy=ProxySettings(listen=("127.0.0.1:0",))
    )
    async with Proxy(settings, proxy_id="memory") as proxy:
        loop = asyncio.get_running_loop()
        print(proxy.addresses[0], flush=True)
        while await loop.run_in_executor(None, sys.stdin.readline):
            # Linux begins to measure the peak anew.
            Path("/proc/self/clear_refs").write_text("5")
            status = Path("/proc/self/status").read_text()
            print(status.partition("VmHWM:")[2].split()[0], flush=True)
            await loop.run_in_executor(None, sys.stdin.readline)
            status = Path("/proc/self/status").read_text()
            print(status.partition("VmHWM:")[2].split()[0], flush=True)

run(main())
"""
"""The production proxy in a process of its own, so that its memory can be told from the test's:
says its address, and at each second line that it gets the most memory that it has held since."""


def large(size_bytes: int) -> bytes:
    """A body of that size, with its model at its end as some clients have it."""
    start, end = b'{"messages": [{"content": "', b'"}], "model": "raw"}'
    return start + b"i" * (size_bytes - len(start) - len(end)) + end


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory from /proc")
@pytest.mark.parametrize("framing", ["length", "chunks"])
async def test_17_a_body_of_100_mib_takes_less_than_one_and_a_half_times_its_size(
    framing: str,
) -> None:
    body = large(LARGE_BYTES)
    async with raw_engine() as engine:
        proxy = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            PROXY,
            engine.url,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert proxy.stdin is not None
        assert proxy.stdout is not None
        try:
            address = (await within(proxy.stdout.readline())).decode().strip()
            await until_ready(address)
            proxy.stdin.write(b"begin\n")
            before_kib = int(await within(proxy.stdout.readline()))
            async with client(address) as wire, asyncio.TaskGroup() as tasks:
                asking = tasks.create_task(uploaded(wire, body, chunks=framing == "chunks"))
                call = await engine.next_call()
                assert call.body == body
                await call.send(ok(b"fine", "Connection: close"))
                assert (await asking).body == b"fine"
            proxy.stdin.write(b"end\n")
            most_kib = int(await within(proxy.stdout.readline()))
        finally:
            proxy.kill()
            await proxy.wait()
    assert 0.9 * LARGE_BYTES < (most_kib - before_kib) * 1024 < 1.5 * LARGE_BYTES


async def until_ready(address: str) -> None:
    """Until the model is listed there."""
    async with asyncio.timeout(10):
        while True:
            async with client(address) as wire:
                listed = await asked(wire, b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n")
            if json.loads(listed.body)["data"]:
                return


async def uploaded(wire: Wire, body: bytes, *, chunks: bool) -> Answer:
    """The answer to this body, sent in pieces as programs do."""
    head = post(b"", b"Transfer-Encoding: chunked", length=False) if chunks else post(body)
    await wire.send(head[: -len(body)] if not chunks else head)
    for start in range(0, len(body), MIB):
        piece = body[start : start + MIB]
        await wire.send(b"%x\r\n%b\r\n" % (len(piece), piece) if chunks else piece)
    if chunks:
        await wire.send(b"0\r\n\r\n")
    return await wire.answer()


@pytest.fixture
async def door(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Edge]:
    monkeypatch.setattr("pair.relay.sweep.INTERVAL_S", 0.02)
    proxy = ProxySettings(buffered_limit_bytes=BUDGET_BYTES, body_limit_bytes=BUDGET_BYTES)
    relay = RelaySettings(upload_limit_s=UPLOAD_LIMIT_S)
    async with edge(Settings(proxy=proxy, relay=relay)) as opened:
        yield opened


async def test_17_beyond_the_budget_the_next_upload_waits_and_is_not_refused(door: Edge) -> None:
    body = large(3 * MIB)
    async with client(door.address) as first, client(door.address) as second:
        await first.send(post(body))
        call = await door.engine.next_call()
        second.writer.write(post(body))
        async with client(door.address) as small:  # what is not large does not wait
            await small.send(post())
            await (await door.engine.next_call()).send(ok(b"small", "Connection: close"))
            assert (await small.answer()).body == b"small"
        async with client(door.address) as asking:  # meanwhile all of it would have got there
            for _ in range(TURNS):
                await asked(asking, b"GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n")
        assert not door.engine.has_call
        await call.send(ok(b"first", "Connection: close"))
        assert (await first.answer()).body == b"first"
        await (await door.engine.next_call()).send(ok(b"second", "Connection: close"))
        assert (await second.answer()).body == b"second"


async def test_17_a_body_is_let_go_when_its_answer_begins(door: Edge) -> None:
    """A stream may take minutes; the room of its request is free for the next by then."""
    body = large(3 * MIB)
    async with client(door.address) as first, client(door.address) as second:
        await first.send(post(body))
        call = await door.engine.next_call()
        await call.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbegun\r\n")
        await first.until(b"begun\r\n")
        await second.send(post(body))
        await (await door.engine.next_call()).send(ok(b"second", "Connection: close"))
        assert (await second.answer()).body == b"second"
        await call.send(b"0\r\n\r\n")
        assert (await first.until(b"0\r\n\r\n")).endswith(b"0\r\n\r\n")


@pytest.mark.parametrize("chunks", [False, True], ids=["length", "chunks"])
async def test_17_uploads_that_stall_do_not_keep_the_budget_from_others(
    door: Edge, chunks: bool
) -> None:
    begun = b"%x\r\n" % (3 * MIB) if chunks else b""
    head = post(b"", b"Transfer-Encoding: chunked", length=False)
    if not chunks:
        head = post(large(3 * MIB))[: -3 * MIB]
    async with client(door.address) as stalling, client(door.address) as waiting:
        await stalling.send(head + begun + bytes(200_000))
        for _ in range(3):  # by then it has been read, and holds its room
            await asked(waiting, b"GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n")
        waiting.writer.write(post(large(2 * MIB)))
        answer = await stalling.answer()
        assert (answer.status, answer.values("connection")) == (408, ["close"])
        await (await door.engine.next_call()).send(ok(b"next", "Connection: close"))
        assert (await waiting.answer()).body == b"next"


async def test_17_a_slow_upload_that_is_in_nobodys_way_is_let_be(door: Edge) -> None:
    body = large(2 * MIB)
    async with client(door.address) as wire:
        request = post(body)
        await wire.send(request[:-1])
        await asyncio.sleep(3 * UPLOAD_LIMIT_S)
        await wire.send(request[-1:])
        await (await door.engine.next_call()).send(ok(b"late", "Connection: close"))
        assert (await wire.answer()).body == b"late"
