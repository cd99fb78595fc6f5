"""The stream of a node's reports: at once, on each change, not faster than its pace, to its end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import aiohttp
import pytest

from pair.agent.report_feed import APART_S, READERS_LIMIT
from pair.bench.echo_engine import EchoEngine, EchoSettings
from pair.core.reports import NodeReport
from pair.wire.node_report import REPORT_PATH, REPORTS_PATH, decode_report
from tests.agent.face import SOON_S, Face, chat, chosen, face, local, of, until

CHAT = "/v1/chat/completions"
CHANGES = 60
"""At 300 kB a line, more than the buffers of two sockets hold."""
SLOW = EchoSettings(decode_rate_tokens_per_s=20, answer_tokens=1000)


class Stream:
    """What a proxy reads."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    async def line(self) -> NodeReport:
        async with asyncio.timeout(SOON_S):
            line = await self._answer.content.readline()
        assert line.endswith(b"\n"), "it has ended"
        return decode_report(line)

    async def until_running(self, wanted: int) -> NodeReport:
        while (report := await self.line()).replicas[0].running != wanted:
            pass
        return report

    async def at_end(self) -> bool:
        async with asyncio.timeout(SOON_S):
            return await self._answer.content.read() == b""


@asynccontextmanager
async def stream(node: Face, proxy: str = "p") -> AsyncIterator[Stream]:
    headers = {"x-pair-from": proxy}
    async with node.client.get(node.url + REPORTS_PATH, headers=headers) as answer:
        assert answer.status == 200
        assert answer.headers["content-type"] == "application/x-ndjson"
        yield Stream(answer)


async def test_the_first_line_comes_at_once_and_is_the_report() -> None:
    async with face(local("llamacpp:1", "http://127.0.0.1:9", "m")) as node, stream(node) as told:
        first = await told.line()
        async with node.client.get(node.url + REPORT_PATH, headers={"x-pair-from": "p"}) as answer:
            assert decode_report(await answer.read()) == first


async def test_who_is_admitted_and_who_ends_is_told_and_whose_it_was() -> None:
    async with (
        EchoEngine(SLOW) as engine,
        face(of(engine, slots=3)) as node,
        stream(node, "mine") as mine,
        stream(node, "theirs") as theirs,
    ):
        headers = {**chosen(), "x-pair-from": "mine"}
        async with node.client.post(
            node.url + CHAT, data=chat(stream=True), headers=headers
        ) as answer:
            await answer.content.readany()
            report = await mine.until_running(1)
            assert report.replicas[0].yours == 1
            assert (await theirs.until_running(1)).replicas[0].yours == 0
            answer.close()
        gone = await mine.until_running(0)
        assert gone.replicas[0].yours == 0
        assert gone.number > report.number
        await theirs.until_running(0)


async def test_changes_that_come_together_are_one_line_and_the_latest_wins() -> None:
    async with face(local("llamacpp:1", "http://127.0.0.1:9", "m", slots=99)) as node:
        loop = asyncio.get_running_loop()
        async with stream(node) as told:
            await told.line()
            key = ("llamacpp:1", "m")
            began_at = loop.time()
            held: list[Any] = []
            lines = 0
            while len(held) < 50:
                held.append(node.admission.admit(key, 99, "p"))  # type: ignore[arg-type]
                await asyncio.sleep(0)
            while (await told.line()).replicas[0].running != 50:
                lines += 1
            assert lines <= 1 + (loop.time() - began_at) / APART_S


async def test_a_reader_that_does_not_read_is_told_nothing_and_then_the_latest() -> None:
    names = [f"model-{number}" for number in range(4000)]
    async with face(local("llamacpp:1", "http://127.0.0.1:9", *names)) as node:
        name, _, port = node.address.rpartition(":")
        reader, writer = await asyncio.open_connection(name, int(port), limit=2**24)
        writer.write(f"GET {REPORTS_PATH} HTTP/1.1\r\nHost: n\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        transport = cast("asyncio.Transport", writer.transport)
        transport.pause_reading()
        async with stream(node) as clock:
            for _ in range(CHANGES):
                node.feed.changed()
                while (await clock.line()).number != node.feed.number:
                    pass
        transport.resume_reading()
        newest = f'"number":{node.feed.number}'.encode()
        lines = 0
        async with asyncio.timeout(SOON_S):
            while newest not in await reader.readuntil(b"\n"):
                lines += 1
        assert lines < CHANGES / 2, "not one for each change"
        writer.close()


async def test_a_stream_ends_with_a_last_line_when_the_node_is_done() -> None:
    async with face(local("llamacpp:1", "http://127.0.0.1:9", "m")) as node, stream(node) as told:
        await told.line()
        node.app.draining = True
        node.feed.close()
        assert (await told.line()).draining
        assert await told.at_end()


async def test_one_reader_too_many_is_told_so() -> None:
    async with face(local("llamacpp:1", "http://127.0.0.1:9", "m")) as node:
        writers = []
        for _ in range(READERS_LIMIT):
            reader, writer = await node.connect()
            writer.write(f"GET {REPORTS_PATH} HTTP/1.1\r\nHost: n\r\n\r\n".encode())
            await reader.readuntil(b"\r\n\r\n")
            writers.append(writer)
        async with node.client.get(node.url + REPORTS_PATH) as answer:
            assert answer.status == 503
            assert json.loads(await answer.read())["error"]["code"] == "too_many_readers"
        writers.pop().close()
        await until(lambda: node.feed.readers < READERS_LIMIT)
        async with node.client.get(node.url + REPORTS_PATH) as answer:
            assert answer.status == 200
        for writer in writers:
            writer.close()


@pytest.mark.parametrize("method", ["HEAD", "POST", "PUT"])
async def test_a_stream_is_asked_for_with_get_only(method: str) -> None:
    async with face() as node, node.client.request(method, node.url + REPORTS_PATH) as answer:
        assert answer.status == 404


async def test_a_reader_that_leaves_is_forgotten() -> None:
    async with face(local("llamacpp:1", "http://127.0.0.1:9", "m")) as node:
        for _ in range(READERS_LIMIT + 1):
            async with stream(node) as told:
                await told.line()
        await until(lambda: not node.feed.readers)
