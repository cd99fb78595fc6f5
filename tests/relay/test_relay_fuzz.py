"""The whole front door under any bytes: a valid answer or a closed connection, and a quiet log.

Mirrors no single source: it is the property that all of them have together.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
from collections.abc import Callable
from contextlib import suppress

import pytest
import uvloop
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.relay.relays import front_limits, relay, upstream_limits
from tests.relay.wires import Upstream, Wire, chunked, client, eventually, upstream, within

PART = st.sampled_from(
    [
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"HEAD /h HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.0\r\n\r\n",
        b"POST /x HTTP/1.1\r\nHost: a\r\n",
        b"Host: a\r\n",
        b"\r\n",
        b"\n",
        b"\r",
        b"Content-Length: 3\r\n",
        b"Content-Length: 100000\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Connection: Upgrade\r\nUpgrade: h2c\r\n",
        b"Connection: close\r\n",
        b"Expect: 100-continue\r\n",
        b"3\r\nabc\r\n",
        b"0\r\n\r\n",
        b"abc",
        b"\0",
        b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\n",
    ]
)
REQUESTS = st.lists(PART | st.binary(max_size=20), max_size=8)
ANSWER_PART = st.sampled_from(
    [
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 204 No\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 500 E\r\n",
        b"HTTP/1.0 200 OK\r\n",
        b"HTTP/1.1 101 S\r\n",
        b"Content-Length: 3\r\n",
        b"Content-Length: 0\r\n",
        b"\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Content-Type: text/event-stream\r\n",
        b"Connection: close\r\n",
        b"3\r\nabc\r\n",
        b"0\r\n\r\n",
        b"abc",
        b": ping\n\n",
        b"\0",
        b"\n",
    ]
)
ANSWERS = st.lists(ANSWER_PART | st.binary(max_size=20), max_size=8)

_ANSWER_START = re.compile(rb"HTTP/1\.1 (\d{3}) [^\r\n]*\r\n")


async def _talk(requests: list[bytes], answers: list[bytes]) -> bytes:
    """What a client gets that sends these, from an upstream that answers with those."""

    async def script(wire: Wire, told: Upstream) -> None:
        await wire.until(b"\r\n\r\n")
        for part in answers:
            await wire.send(part)

    limits = front_limits(head_limit_s=0.05, idle_client_s=0.05)
    async with (
        upstream(script) as up,
        relay(up.address, limits, upstream_limits(connect_limit_s=0.5)) as bare,
        client(bare.address) as wire,
    ):
        with suppress(ConnectionError):  # refused and closed already
            for part in requests:
                await wire.send(part)
        came = await within(wire.rest())
        await wire.close()
        await eventually(lambda: not bare.serving and not bare.front.connections)
    return came


@pytest.mark.parametrize(
    "loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
@given(requests=REQUESTS, answers=ANSWERS)
@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_bytes_on_both_sides_give_valid_answers_or_a_closed_connection(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    loop: Callable[[], asyncio.AbstractEventLoop],
    requests: list[bytes],
    answers: list[bytes],
) -> None:
    monkeypatch.setattr("pair.relay.sweep.INTERVAL_S", 0.01)
    with asyncio.Runner(loop_factory=loop) as runner:
        came = runner.run(_talk(requests, answers))
    if came and came != b"<reset>":
        assert _ANSWER_START.match(came), came
    assert not [told for told in caplog.records if told.levelno >= logging.WARNING]


async def _unreliable(wire: Wire, told: Upstream) -> None:
    """An upstream that answers, stalls, cuts or resets, whatever its dice say."""
    dice = random.Random(told.connections)
    while True:
        await wire.request()
        match dice.randrange(6):
            case 0:
                wire.reset()
                return
            case 1:
                await wire.ended()
                return
            case 2:
                await wire.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab")
                return
            case 3:
                await wire.send(b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy")
            case _:
                await wire.send(
                    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                    b"Transfer-Encoding: chunked\r\n\r\n" + chunked(*[b"data: x\n\n"] * 50)
                )


async def _impatient(address: str, seed: int) -> None:
    """A client that sends some requests and leaves at any moment."""
    dice = random.Random(seed)
    async with client(address) as wire:
        with suppress(ConnectionError, asyncio.IncompleteReadError, TimeoutError):
            for _ in range(dice.randrange(1, 5)):
                body = bytes(dice.randrange(100_000))
                head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body)
                sent = head + body
                await wire.send(sent[: dice.choice([len(sent), len(sent), dice.randrange(1, 200)])])
                await within(wire.reader.read(dice.randrange(1, 5000)), dice.random() * 0.05)
        if dice.random() < 0.5 and not wire.writer.is_closing():
            wire.reset()


async def test_a_storm_leaves_nothing_behind(caplog: pytest.LogCaptureFixture) -> None:
    """Counters, connections and the budget are where they were, and each exchange had one fate."""
    limits = front_limits(buffered_limit_bytes=300_000)
    async with upstream(_unreliable) as up, relay(up.address, limits) as bare:
        for wave in range(10):
            async with asyncio.TaskGroup() as tasks:
                for number in range(30):
                    tasks.create_task(_impatient(bare.address, wave * 100 + number))
        await eventually(lambda: not bare.serving and not bare.front.connections)
        assert bare.fates.qsize() == bare.started.qsize() > 100
        assert bare.front.buffered_bytes == 0
        assert bare.pool.idle <= 64
