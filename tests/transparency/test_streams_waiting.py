"""Item 3: a client whose stream waits hears something, and nothing is decided by that."""

from __future__ import annotations

import gzip
import json
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from pair.core.names import Outcome
from pair.settings import QueueSettings, Settings, StreamSettings
from tests.proxy.raw_engine import Call
from tests.relay.wires import Wire
from tests.transparency.streams import (
    EVENTS,
    PATHS,
    PULSES,
    TYPES,
    asking,
    chunk,
    dechunked,
    error_in,
    fates,
    request,
    scripted,
    stream_head,
)

SOON = Settings(streams=StreamSettings(keep_alive_after_s=0.04, keep_alive_every_s=0.04))
DIALECTS = ("openai", "anthropic", "ollama")
END = chunk(b"")
CLOSED = b"Connection: close\r\nContent-Length: 2\r\n\r\n{}"


async def kept_alive(wire: Wire, dialect: str, times: int = 2) -> bytes:
    """Read the head that went ahead and so many signs of life; returns the head."""
    head = await wire.until(b"\r\n\r\n")
    for _ in range(times):
        await wire.until(PULSES[dialect])
    return head


def without_pulses(raw: bytes, dialect: str) -> bytes:
    """The body after the signs of life; the last one that was waited for may be cut."""
    body = raw.partition(b"\r\n")[2] if dialect == "ollama" else raw.partition(b"\n\n\r\n")[2]
    plain, _ = dechunked(body)
    if dialect == "ollama":
        return plain.lstrip(b" ")
    return b"".join(
        event + b"\n\n" for event in plain.split(b"\n\n") if event and not event.startswith(b":")
    )


async def test_03_a_stream_that_waits_is_kept_alive_until_the_engine_speaks() -> None:
    for dialect in DIALECTS:
        async with (
            scripted(settings=SOON) as (built, [engine]),
            asking(built, request(dialect)) as first,
            AsyncExitStack() as stack,
        ):
            call = await engine.next_call()
            waiting = await stack.enter_async_context(asking(built, request(dialect)))
            head = await kept_alive(waiting, dialect)
            assert head.startswith(b"HTTP/1.1 200 OK\r\n")
            assert f"Content-Type: {TYPES[dialect]}\r\n".encode() in head
            assert b"Cache-Control: no-cache, no-transform\r\n" in head
            assert b"X-Accel-Buffering: no\r\n" in head
            assert b"x-request-id: " in head
            assert built.snapshot().waiting == 1
            event, last = EVENTS[dialect]
            await call.send(stream_head(dialect) + chunk(event + last) + END)
            await first.until(END)
            call = await engine.next_call()
            await call.send(stream_head(dialect) + chunk(event) + chunk(last) + END)
            raw = await waiting.until(END)
            assert without_pulses(raw, dialect) == event + last
            await built.quiet()
            assert fates(built) == {Outcome.ANSWERED: 2}


async def test_03_an_engine_that_takes_its_time_is_bridged_and_its_comments_come_with_it() -> None:
    async with (
        scripted(settings=SOON) as (built, [engine]),
        asking(built, request("openai")) as wire,
    ):
        call = await engine.next_call()
        await call.send(stream_head("openai"), chunk(b": loading\n\n"))
        await kept_alive(wire, "openai", 3)
        await call.send(chunk(EVENTS["openai"][0]) + END)
        raw = await wire.until(END)
        assert raw.count(b": loading\n\n") == 1
        assert without_pulses(raw, "openai") == EVENTS["openai"][0]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("fault", ["reset", "502", "comment"])
async def test_03_a_call_that_is_kept_alive_is_still_tried_elsewhere(
    dialect: str, fault: str
) -> None:
    async with (
        scripted(engines=2, settings=SOON) as (built, engines),
        asking(built, request(dialect)) as wire,
    ):
        await kept_alive(wire, dialect, 1)
        await built.until(lambda: any(engine.has_call for engine in engines))
        first, second = sorted(engines, key=lambda engine: not engine.has_call)
        call = await first.next_call()
        if fault == "502":
            await call.send(b"HTTP/1.1 502 X\r\n" + CLOSED)
        elif fault == "comment":
            comment = b"" if dialect == "ollama" else chunk(b": x\n")
            await call.send(stream_head(dialect) + comment)
            await call.wire.close()
        else:
            call.wire.reset()
        call = await second.next_call()
        event, last = EVENTS[dialect]
        await call.send(stream_head(dialect) + chunk(event + last) + END)
        assert without_pulses(await wire.until(END), dialect) == event + last
        await built.quiet()
        assert fates(built) == {Outcome.ANSWERED: 1}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("status", [400, 500])
async def test_03_an_engines_error_becomes_an_event_and_the_end(dialect: str, status: int) -> None:
    words = {"error": "bad prompt" if dialect == "ollama" else {"message": "bad prompt"}}
    body = json.dumps(words, indent=2).encode()
    async with (
        scripted(settings=SOON) as (built, [engine]),
        asking(built, request(dialect)) as wire,
    ):
        await kept_alive(wire, dialect)
        call = await engine.next_call()
        length = f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        await call.send(b"HTTP/1.1 %d X\r\n" % status + length + body)
        raw = await wire.until(b"\r\n" + END)
        error = error_in(dialect, without_pulses(raw, dialect))
        assert error == words["error"]
        await built.quiet()
        assert fates(built) == {Outcome.ANSWERED if status == 400 else Outcome.FAILED: 1}


@pytest.mark.parametrize("status", [400, 500])
async def test_03_an_engines_compressed_error_becomes_an_event_that_can_be_read(
    status: int,
) -> None:
    body = gzip.compress(b'{"error":{"message":"bad prompt"}}')
    async with (
        scripted(settings=SOON) as (built, [engine]),
        asking(built, request("openai")) as wire,
    ):
        await kept_alive(wire, "openai")
        call = await engine.next_call()
        length = f"Content-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        await call.send(b"HTTP/1.1 %d X\r\n" % status + length + body)
        raw = await wire.until(b"\r\n" + END)
        error = error_in("openai", without_pulses(raw, "openai"))
        assert error["message"].strip() == f"The engine answered with status {status}:"
        await built.quiet()


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("why", ["wait limit", "shutdown"])
async def test_03_a_refusal_of_our_own_becomes_an_event_and_the_end(dialect: str, why: str) -> None:
    limit_s = 0.2 if why == "wait limit" else 0.0
    settings = replace(SOON, queue=QueueSettings(wait_limit_s=limit_s))
    async with (
        scripted(settings=settings) as (built, [engine]),
        asking(built, request(dialect, stream=False)),
        AsyncExitStack() as stack,
    ):
        await engine.next_call()
        waiting = await stack.enter_async_context(asking(built, request(dialect)))
        await kept_alive(waiting, dialect, 1)
        if why == "shutdown":
            await built.proxy.drain(0.01)
        raw = await waiting.until(b"\r\n" + END)
        error = error_in(dialect, without_pulses(raw, dialect))
        words = error if dialect == "ollama" else error["message"]
        assert ("limit" if why == "wait limit" else "Try again when it is up") in words


@pytest.mark.parametrize("kind", ["json", "gzip"])
async def test_03_an_answer_that_cannot_follow_ends_the_stream_and_says_why(kind: str) -> None:
    async with (
        scripted(settings=SOON) as (built, [engine]),
        asking(built, request("openai")) as wire,
    ):
        await kept_alive(wire, "openai")
        call = await engine.next_call()
        if kind == "json":
            lines = b"Content-Type: application/json\r\nContent-Length: 14\r\n\r\n"
            await call.send(b"HTTP/1.1 200 OK\r\n" + lines + b'{"choices":[]}')
        else:
            await call.send(stream_head("openai", "Content-Encoding: gzip"), chunk(b"x") + END)
        raw = await wire.rest()
        assert not raw.endswith(END)
        assert "not the stream" in error_in("openai", without_pulses(raw, "openai"))["message"]
        await built.quiet()
        assert fates(built) == {Outcome.FAILED: 1}


async def test_03_an_answer_that_is_no_stream_ends_it_without_its_body() -> None:
    """Whose rest may never come: the client would hear nothing more."""
    async with (
        scripted(settings=SOON) as (built, [engine]),
        asking(built, request("openai")) as wire,
    ):
        await kept_alive(wire, "openai")
        call = await engine.next_call()
        lines = b"Content-Type: application/json\r\nContent-Length: 14\r\n\r\n"
        await call.send(b"HTTP/1.1 200 OK\r\n" + lines + b"{")
        assert b"not the stream" in await wire.rest()
        await call.until_hung_up()
        await built.quiet()
        assert fates(built) == {Outcome.FAILED: 1}


async def test_03_no_head_goes_before_an_answer_that_may_be_a_switch() -> None:
    upgrade = b"Host: test\r\nConnection: Upgrade\r\nUpgrade: tube/1\r\n"
    switch = b"HTTP/1.1 101 Yes\r\nConnection: Upgrade\r\nUpgrade: tube/1\r\n\r\nhello"
    async with (
        scripted(settings=SOON) as (built, [engine]),
        asking(built, request("openai").replace(b"Host: test\r\n", upgrade)) as wire,
        asking(built, request("openai")) as other,
    ):
        call = await engine.next_call()
        await kept_alive(other, "openai")
        await call.send(switch)
        assert (await wire.until(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
        assert await wire.until(b"hello")
        await wire.close()
        await other.close()


async def test_03_a_single_object_is_a_stream_of_lines() -> None:
    async with (
        scripted(settings=SOON) as (built, [engine]),
        asking(built, request("ollama")) as wire,
    ):
        await kept_alive(wire, "ollama")
        call = await engine.next_call()
        lines = b"Content-Type: application/json\r\nContent-Length: 13\r\n\r\n"
        await call.send(b"HTTP/1.1 200 OK\r\n" + lines + b'{"done":true}')
        assert without_pulses(await wire.until(b"\r\n" + END), "ollama") == b'{"done":true}'


async def test_03_nothing_is_invented_for_a_call_that_is_not_streamed() -> None:
    old = request("openai").replace(b"HTTP/1.1", b"HTTP/1.0")
    sound = request("openai").replace(PATHS["openai"].encode(), b"/v1/audio/speech")
    async with (
        scripted(settings=SOON) as (built, [engine]),
        asking(built, request("openai", stream=False)) as plain,
        asking(built, old) as older,
        asking(built, sound) as speech,
        asking(built, request("openai")) as streamed,
    ):
        await kept_alive(streamed, "openai", 4)
        for _ in range(4):
            call = await engine.next_call()
            await call.send(b"HTTP/1.1 200 OK\r\nX-Own: head\r\n" + CLOSED)
        for wire in (plain, older, speech):
            answer = await wire.answer()
            assert answer.values("x-own") == ["head"]
            assert answer.body == b"{}"
        assert b"not the stream" in await streamed.rest()


async def test_03_a_hang_up_of_a_client_that_is_kept_alive_frees_everything() -> None:
    async with (
        scripted(settings=SOON) as (built, [engine]),
        asking(built, request("openai")) as first,
        asking(built, request("openai")) as waiting,
    ):
        call: Call = await engine.next_call()
        await kept_alive(first, "openai")
        await kept_alive(waiting, "openai")
        waiting.reset()
        await built.until(lambda: fates(built) == {Outcome.CLIENT_LEFT: 1})
        first.reset()
        await call.until_hung_up()
        await built.quiet()
        assert fates(built) == {Outcome.CLIENT_LEFT: 2}
