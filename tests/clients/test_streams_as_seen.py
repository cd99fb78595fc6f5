"""Items 3 and 4 as the libraries see them: signs of life are nothing, an error event is an error, a
torn line is what it is directly.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import anthropic
import httpx
import openai
import pytest

from pair.core.names import Outcome
from pair.settings import Settings, StreamSettings
from tests.clients.both_ways import pieces_until
from tests.clients.libraries import LIBRARIES, Ask
from tests.support.house import FAST, House, chat, house
from tests.transparency.streams import chunk, fates, scripted, stream_head

# Of a kind that speaks all dialects.
ENGINE = replace(FAST, persona="ollama", slots=1, answer_tokens=16)
SOON = Settings(streams=StreamSettings(keep_alive_after_s=0.03, keep_alive_every_s=0.03))
SIGNS = 3

FIRST_EVENTS = {
    "openai": b'data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"raw",'
    b'"choices":[{"index":0,"delta":{"content":"so far"}}]}\n\n',
    "anthropic": b'event: message_start\ndata: {"type":"message_start","message":{"id":"x",'
    b'"type":"message","role":"assistant","model":"raw","content":[],"stop_reason":null,'
    b'"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}}\n\n'
    b'event: content_block_start\ndata: {"type":"content_block_start","index":0,'
    b'"content_block":{"type":"text","text":""}}\n\n'
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
    b'"delta":{"type":"text_delta","text":"so far"}}\n\n',
    "ollama": b'{"model":"raw","response":"so far","done":false}\n',
}

every_library = pytest.mark.parametrize("name", LIBRARIES)


async def gathered_while_kept_alive(
    built: House, stream: AsyncIterator[str], release: Callable[[], None]
) -> str:
    """The text of a stream that is asked for while the only slot is taken, and given up (after
    `release`) once signs of life must have come.
    """
    holder = await built.raw()
    holder.post(chat(stream=True), x_echo_fault="stall,after_events=1")
    await holder.until(b"data:")

    async def let_go() -> None:
        await built.until(lambda: built.snapshot().waiting == 1)
        # It waits behind, and hears the same.
        behind = await built.raw()
        behind.post(chat(stream=True))
        for _ in range(SIGNS):
            await behind.until(b": waiting")
        release()
        behind.hang_up()
        holder.hang_up()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(let_go())
        return "".join([piece async for piece in stream])


@every_library
async def test_03_signs_of_life_mean_nothing_to_a_library(name: str) -> None:
    library = LIBRARIES[name]
    async with house(ENGINE, settings=SOON) as built:
        directly = "".join([p async for p in library.streamed(Ask(built.engines[0].url))])
        stream = library.streamed(Ask(built.base_url))
        assert await gathered_while_kept_alive(built, stream, lambda: None) == directly != ""
        await built.quiet()
        assert fates(built) == {Outcome.ANSWERED: 1, Outcome.CLIENT_LEFT: 2}


@every_library
@pytest.mark.parametrize("status", [400, 500])
async def test_03_an_error_that_came_as_an_event_is_raised(name: str, status: int) -> None:
    library = LIBRARIES[name]
    async with house(ENGINE, settings=SOON) as built:
        fault = f"status,status={status},message=no such thing"
        stream = library.streamed(Ask(built.base_url))
        with pytest.raises(ExceptionGroup) as raised:
            await gathered_while_kept_alive(
                built, stream, lambda: built.engines[0].faults.set(fault)
            )
        [error] = raised.value.exceptions
        assert isinstance(error, library.broken_stream)
        assert "no such thing" in str(error)
        await built.quiet()


@pytest.mark.parametrize(
    ("name", "how"),
    [
        (name, how)
        for name in LIBRARIES
        for how in ("reset", "mid_chunk")
        # The chunk that an echo engine tears holds a beginning of an event, which is no line.
        if (name, how) != ("ollama", "mid_chunk")
    ],
)
async def test_04_an_engine_that_dies_is_an_error_whatever_way_it_dies(name: str, how: str) -> None:
    library = LIBRARIES[name]
    async with house(replace(ENGINE, decode_rate_tokens_per_s=200.0)) as built:
        built.engines[0].faults.set(f"cut,after_events=2,how={how}")
        stream = library.streamed(Ask(built.base_url))
        text, words = await pieces_until(library.broken_stream, stream)
        assert text
        assert "The answer broke off" in words
        await built.quiet()
        assert fates(built) == {Outcome.FAILED: 1}


async def torn(name: str, last: bytes, *, directly: bool = False) -> Exception:
    """What this library raises when the engine's last words are these."""
    async with scripted() as (built, [engine]):
        url = engine.url if directly else built.base_url

        async def die() -> None:
            call = await engine.next_call()
            await call.send(stream_head(name), chunk(FIRST_EVENTS[name]), chunk(last))
            await call.wire.close()

        async def read() -> None:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(die())
                async for piece in LIBRARIES[name].streamed(Ask(url, model="raw")):
                    assert piece == "so far"

        with pytest.raises(ExceptionGroup) as raised:
            await read()
        [error] = raised.value.exceptions
        return error


@pytest.mark.parametrize("last", [b"d", b"data:", b"data: ", b": pi", b"event: mess", b"id"])
@pytest.mark.parametrize("name", ["openai", "anthropic"])
async def test_04_after_a_line_without_a_value_the_error_is_clean(name: str, last: bytes) -> None:
    error = await torn(name, last)
    if name == "openai":
        assert type(error) is openai.APIError
        assert isinstance(error.body, dict)
        assert error.body["code"] == "engine_error"
    else:
        assert isinstance(error, anthropic.APIStatusError)
        assert isinstance(error.body, dict)
        assert error.body["error"]["code"] == "engine_error"


@pytest.mark.parametrize("name", ["openai", "ollama"])
async def test_04_a_line_torn_in_its_value_is_a_lost_connection_as_directly(name: str) -> None:
    last = {"openai": b'data: {"id":"x","cho', "ollama": b'{"model":"ra'}[name]
    error, direct = await torn(name, last), await torn(name, last, directly=True)
    assert type(error) is type(direct)
    if name == "openai":
        assert type(error) is openai.APIConnectionError
        assert type(error.__cause__) is type(direct.__cause__)
        assert "incomplete chunked read" in str(error.__cause__)
    else:
        assert type(error) is httpx.RemoteProtocolError


async def test_04_anthropics_library_tells_the_error_after_a_torn_line() -> None:
    error = await torn("anthropic", b'event: content_block_delta\ndata: {"type":"con')
    assert isinstance(error, anthropic.APIStatusError)
    assert "The answer broke off" in str(error)
