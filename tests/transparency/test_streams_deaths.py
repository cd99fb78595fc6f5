"""Item 4: an engine that dies in the middle of its answer never leaves a whole one."""

from __future__ import annotations

import gzip
import logging

import pytest

from pair.core.names import Outcome
from tests.proxy.raw_engine import Call
from tests.relay.wires import Wire
from tests.support.house import House
from tests.transparency.streams import (
    EVENTS,
    asking,
    chunk,
    dechunked,
    error_in,
    fates,
    request,
    scripted,
    stream_head,
)

DIALECTS = ("openai", "anthropic", "ollama")
DEATHS = ("close", "reset", "mid_chunk", "mid_line", "garbage")


# Beginnings of an event after which one of ours can still be read.
BEGINNINGS = {"openai": b"data: ", "anthropic": b'event: x\ndata: {"ty', "ollama": b" "}
TORN = {"openai": b'data: {"choi', "ollama": b'{"do'}


async def die(call: Call, how: str, beginning: bytes) -> None:
    """After a whole event."""
    match how:
        case "mid_chunk":
            await call.send(b"ff\r\n" + beginning)
        case "mid_line":
            await call.send(chunk(beginning))
        case "garbage":
            await call.send(b"this is no chunk\r\n")
    if how == "reset":
        call.wire.reset()
    else:
        await call.wire.close()


async def assert_failed_once(built: House) -> None:
    await built.quiet()
    assert fates(built) == {Outcome.FAILED: 1}
    [job] = built.proxy.scheduler.desk.jobs.jobs()
    [call] = job.calls.values()
    assert call.outcome is Outcome.FAILED
    assert call.detail
    [node] = built.snapshot().nodes
    assert [replica.failed for replica in node.replicas] == [1]


@pytest.mark.parametrize("through_nodes", [False, True], ids=["direct", "node"])
@pytest.mark.parametrize("how", DEATHS)
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_04_a_stream_whose_engine_dies_ends_with_an_error_event_and_no_end(
    dialect: str, how: str, through_nodes: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pair.proxy.forward")
    event, last = EVENTS[dialect]
    async with (
        scripted(through_nodes=through_nodes) as (built, [engine]),
        asking(built, request(dialect)) as wire,
    ):
        call = await engine.next_call()
        await call.send(stream_head(dialect), chunk(event))
        head = await wire.until(b"\r\n\r\n")
        first = await wire.until(event)
        await die(call, how, BEGINNINGS[dialect])
        body, whole = dechunked(first + await wire.rest())
        assert head.startswith(b"HTTP/1.1 200 ")
        assert not whole, "the end of the chunks must be missing"
        assert last not in body
        error = error_in(dialect, body)
        assert "broke off" in (error if dialect == "ollama" else error["message"])
        await assert_failed_once(built)
        assert caplog.text.count("outcome=failed why=engine_error") == 1


@pytest.mark.parametrize("through_nodes", [False, True], ids=["direct", "node"])
@pytest.mark.parametrize("how", ["mid_chunk", "mid_line"])
@pytest.mark.parametrize("dialect", TORN)
async def test_04_a_stream_that_is_torn_in_a_value_gets_no_event_but_the_cut(
    dialect: str, how: str, through_nodes: bool
) -> None:
    """Whatever came after it would be read as its other half."""
    event, _ = EVENTS[dialect]
    async with (
        scripted(through_nodes=through_nodes) as (built, [engine]),
        asking(built, request(dialect)) as wire,
    ):
        call = await engine.next_call()
        await call.send(stream_head(dialect), chunk(event))
        await wire.until(b"\r\n\r\n")
        await die(call, how, TORN[dialect])
        assert dechunked(await wire.rest()) == (event + TORN[dialect], False)
        await assert_failed_once(built)


@pytest.mark.parametrize("through_nodes", [False, True], ids=["direct", "node"])
@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_04_a_torn_body_that_is_not_streamed_does_not_look_whole(
    framing: str, through_nodes: bool
) -> None:
    kind = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    async with (
        scripted(through_nodes=through_nodes) as (built, [engine]),
        asking(built, request("openai", stream=False)) as wire,
    ):
        call = await engine.next_call()
        if framing == "length":
            await call.send(kind + b'Content-Length: 50\r\n\r\n{"choices":')
        else:
            await call.send(kind + b"Transfer-Encoding: chunked\r\n\r\n" + chunk(b'{"choices":'))
        head = await wire.until(b"\r\n\r\n")
        first = await wire.until(b'{"choices":')
        await call.wire.close()
        raw = first + await wire.rest()
        if framing == "length":
            assert b"Content-Length: 50\r\n" in head
            assert len(raw) < 50
        else:
            assert dechunked(raw) == (b'{"choices":', False)
        await assert_failed_once(built)


@pytest.mark.parametrize("kind", ["gzip", "length"])
async def test_04_where_no_event_can_be_put_in_the_stream_is_cut(kind: str) -> None:
    async def told(wire: Wire, call: Call) -> bytes:
        if kind == "gzip":
            packed = gzip.compress(EVENTS["openai"][0])
            await call.send(stream_head("openai", "Content-Encoding: gzip"), chunk(packed))
            first = await wire.until(packed)
        else:
            event = EVENTS["openai"][0]
            lines = b"Content-Type: text/event-stream\r\nContent-Length: 9999\r\n\r\n"
            await call.send(b"HTTP/1.1 200 OK\r\n" + lines + event)
            first = await wire.until(event)
        await call.wire.close()
        return first + await wire.rest()

    async with scripted() as (built, [engine]), asking(built, request("openai")) as wire:
        raw = await told(wire, await engine.next_call())
        assert b"error" not in raw
        assert not raw.endswith(b"0\r\n\r\n")
        await assert_failed_once(built)


async def test_04_a_client_of_1_0_to_whom_the_end_would_be_the_end_gets_a_reset() -> None:
    event, last = EVENTS["openai"]
    old = request("openai").replace(b"HTTP/1.1", b"HTTP/1.0")
    async with scripted() as (built, [engine]), asking(built, old) as wire:
        call = await engine.next_call()
        await call.send(stream_head("openai"), chunk(event))
        await wire.until(event)
        await call.wire.close()
        raw = await wire.rest()
        assert raw.endswith(b"<reset>")
        assert last not in raw
        await assert_failed_once(built)
