"""Any bytes at the production proxy's front door, bare engines or nodes behind it: a valid answer
or a closed connection, never an error in the log, and books that are clean at the end.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest
import uvloop
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pair.settings import RelaySettings, Settings
from tests.relay.wires import client, within
from tests.support.chain import chain
from tests.support.house import FAST, House, house

CHAT = b'{"model": "echo", "max_tokens": 2, "stream": true, "messages": [{"content": "a"}]}'
LINES = st.sampled_from(
    [
        b"Host: localhost\r\n",
        b"Host: elsewhere.test\r\n",
        b"Content-Length: %d\r\n" % len(CHAT),
        b"Content-Length: 100000\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Content-Encoding: gzip\r\n",
        b"Content-Type: multipart/form-data; boundary=x\r\n",
        b"Connection: close\r\n",
        b"Connection: Upgrade\r\nUpgrade: websocket\r\n",
        b"Expect: 100-continue\r\n",
        b"Origin: http://localhost\r\n",
        b"x-pair-node: none\r\n",
        b"x-pair-job: a b\r\n",
        b"x-pair-wait: -1\r\n",
        b"Authorization: Bearer x\r\n",
        b"Via: pair\r\n",
        b"X: \xff\r\n",
    ]
)
TARGETS = st.sampled_from(
    [
        b"/",
        b"*",
        b"//v1/models/",
        b"/v1/models/echo",
        b"/v1/chat/completions",
        b"/v1/messages",
        b"/api/chat",
        b"/api/show",
        b"/v1/embeddings?model=echo",
        b"/pair/v1/snapshot",
        b"/metrics",
        b"/%ff%00?model=%ff",
        b"http://localhost/v1/models",
    ]
)
METHODS = st.sampled_from([b"GET", b"POST", b"HEAD", b"OPTIONS", b"DELETE", b"CONNECT", b"PUT"])
BODIES = st.sampled_from(
    [b"", CHAT, b"%x\r\n%b\r\n0\r\n\r\n" % (len(CHAT), CHAT), b"[" * 500, b"--x\r\n", b"\x1f\x8b"]
)
REQUESTS = st.builds(
    lambda method, target, lines, body: b"".join(
        (method, b" ", target, b" HTTP/1.1\r\n", *lines, b"\r\n", body)
    ),
    METHODS,
    TARGETS,
    st.lists(LINES, max_size=5),
    BODIES | st.binary(max_size=40),
)
SPEECHES = st.lists(REQUESTS | st.binary(max_size=30), min_size=1, max_size=3)

_START = re.compile(rb"HTTP/1\.1 [1-5]\d\d [ -~]*\r\n")
SHORT = Settings(relay=RelaySettings(idle_client_s=0.1, head_limit_s=0.1))


@dataclass
class Running:
    """A house on a loop of its own, on which the examples run one after another."""

    loop: asyncio.Runner
    house: House


@pytest.fixture(scope="module", params=["directly", "through a node"])
def running(request: pytest.FixtureRequest) -> Iterator[Running]:
    with (
        pytest.MonkeyPatch.context() as patch,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop,
    ):
        patch.setattr("pair.relay.sweep.INTERVAL_S", 0.02)
        stack = AsyncExitStack()

        async def start() -> House:
            if request.param == "directly":
                return await stack.enter_async_context(house(FAST, settings=SHORT))
            return (await stack.enter_async_context(chain(FAST, settings=SHORT))).house

        built = loop.run(start())
        try:
            yield Running(loop, built)
            loop.run(_settled(built))
        finally:
            loop.run(stack.aclose())


async def _settled(built: House) -> None:
    await built.until(lambda: built.snapshot().in_flight == 0)
    built.assert_books_are_clean()


async def _said(address: str, speech: list[bytes]) -> bytes:
    """What comes back when all of this is sent, up to the end; a reset is an end."""
    async with client(address) as wire:
        for part in speech:
            wire.writer.write(part)
            await asyncio.sleep(0)
        return await within(wire.rest(), 20)


@settings(
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(speech=SPEECHES)
def test_any_bytes_give_an_answer_or_an_end_and_no_error(
    running: Running, caplog: pytest.LogCaptureFixture, speech: list[bytes]
) -> None:
    caplog.clear()
    said = running.loop.run(_said(running.house.proxy.addresses[0], speech))
    assert said in (b"", b"<reset>") or _START.match(said), said[:200]
    told = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert not told, [each.getMessage() for each in told]
