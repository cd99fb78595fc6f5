"""Bytes on the wire, read from bare sockets, because a client library would hide what differs."""

from __future__ import annotations

import hashlib
import time

import pytest

from pair.bench.echo_engine.faults import (
    AnyFault,
    CloseAfterHead,
    Cut,
    Garbage,
    Piece,
    Reset,
    Script,
    SlowHead,
    header_text,
)
from tests.bench.echo_engine.calling import (
    CHAT,
    LATE_S,
    LIMIT_S,
    Client,
    RawConnection,
    chat_body,
    engine_and_client,
    raw_connection,
    settings,
)


def split(answer: bytes) -> tuple[bytes, bytes]:
    head, mark, body = answer.partition(b"\r\n\r\n")
    assert mark, answer
    return head, body


def unchunked(body: bytes) -> bytes:
    """The content of a complete chunked body."""
    content = b""
    while body != b"0\r\n\r\n":
        size, _, body = body.partition(b"\r\n")
        length = int(size, 16)
        assert body[length : length + 2] == b"\r\n"
        content += body[:length]
        body = body[length + 2 :]
    return content


async def ask(client: Client, fault: AnyFault, *, stream: bool = True, tokens: int = 4) -> bytes:
    """All bytes of the answer to one chat under `fault`, until the engine closes."""
    async with raw_connection(client.engine) as connection:
        body = chat_body(tokens=tokens, stream=stream)
        connection.send_json(CHAT, body, f"x-echo-fault: {header_text(fault)}")
        return await connection.read_to_end()


async def test_a_whole_answer_keeps_the_connection() -> None:
    async with engine_and_client() as client, raw_connection(client.engine) as connection:
        for _ in range(2):
            connection.send_json(CHAT, chat_body())
            head, body = await connection.read_answer()
            assert head.startswith(b"HTTP/1.1 200 OK\r\nServer: llama.cpp\r\n")
            assert b"Connection:" not in head
            assert body.startswith(b'{"choices"')
            entry = client.engine.journal.entries[-1]
            assert entry.body_sha256 == hashlib.sha256(body).hexdigest()
            assert (entry.body_bytes, entry.status) == (len(body), 200)


async def test_a_stream_is_chunked_and_keeps_the_connection() -> None:
    async with engine_and_client() as client, raw_connection(client.engine) as connection:
        connection.send_json(CHAT, chat_body(stream=True))
        head, body = split(await connection.read_until(b"\r\n0\r\n\r\n"))
        assert b"Transfer-Encoding: chunked" in head
        assert b"Content-Length" not in head
        content = unchunked(body)
        assert content.endswith(b"data: [DONE]\n\n")
        entry = client.engine.journal.entries[-1]
        assert entry.body_sha256 == hashlib.sha256(content).hexdigest()
        connection.send_json(CHAT, chat_body())
        assert (await connection.read_answer())[0].startswith(b"HTTP/1.1 200")


async def test_older_clients_get_no_chunks() -> None:
    async with engine_and_client() as client:
        async with raw_connection(client.engine) as connection:
            connection.send_json(CHAT, chat_body(stream=True), version="1.0")
            head, body = split(await connection.read_to_end())
        async with raw_connection(client.engine) as connection:
            connection.send_json(CHAT, chat_body(), "Connection: keep-alive", version="1.0")
            kept, _ = await connection.read_answer()
    assert b"chunked" not in head
    assert b"Connection: close" in head
    assert body.endswith(b"data: [DONE]\n\n")
    assert b"Connection: keep-alive" in kept


async def test_a_client_that_asks_for_it_is_closed_on() -> None:
    async with engine_and_client() as client, raw_connection(client.engine) as connection:
        connection.send_json(CHAT, chat_body(), "Connection: close")
        head, body = split(await connection.read_to_end())
    assert b"Connection: close" in head
    assert body.endswith(b"}")


async def test_a_head_request_gets_no_body() -> None:
    async with engine_and_client() as client, raw_connection(client.engine) as connection:
        connection.send("HEAD /health HTTP/1.1\nHost: echo\nConnection: close\n\n")
        head, body = split(await connection.read_to_end())
    assert b"Content-Length: 15" in head
    assert body == b""


@pytest.mark.parametrize("events", [0, 1, 3])
async def test_a_stream_is_cut_after_so_many_tokens(events: int) -> None:
    async with engine_and_client() as client:
        head, body = split(await ask(client, Cut(after_events=events)))
        entry = client.engine.journal.entries[-1]
    assert head.startswith(b"HTTP/1.1 200")
    assert body.count(b'"content":"') == events
    assert not body.endswith(b"0\r\n\r\n")
    assert (entry.fate, entry.fault) == ("faulted", "cut")


async def test_a_cut_of_a_paced_stream_comes_when_its_token_is_due() -> None:
    async with engine_and_client(settings(decode_rate_tokens_per_s=20)) as client:
        began_s = time.monotonic()
        _, body = split(await ask(client, Cut(after_events=4), tokens=100))
        assert 0.2 <= time.monotonic() - began_s < 0.2 + LATE_S
    assert body.count(b'"content":"') == 4


async def test_a_cut_inside_a_chunk_announces_more_than_it_sends() -> None:
    async with engine_and_client() as client:
        _, body = split(await ask(client, Cut(after_events=2, how="mid_chunk")))
    size, _, rest = body[body.rindex(b"\r\n", 0, body.rindex(b"data: ") - 2) + 2 :].partition(
        b"\r\n"
    )
    assert int(size, 16) > len(rest)


async def test_a_cut_by_reset_is_a_reset() -> None:
    async with engine_and_client() as client:
        with pytest.raises(ConnectionResetError):
            await ask(client, Cut(after_events=1, how="reset"))


async def test_a_whole_answer_is_cut_short_of_its_length() -> None:
    async with engine_and_client() as client:
        head, body = split(await ask(client, Cut(), stream=False))
    length = int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0])
    assert 0 < len(body) < length


async def test_a_reset_comes_before_any_byte() -> None:
    async with engine_and_client() as client:
        for stream in (True, False):
            with pytest.raises(ConnectionResetError):
                await ask(client, Reset(), stream=stream)
        assert client.engine.journal.counters.started == 0
        assert [entry.status for entry in client.engine.journal.entries] == [0, 0]


async def test_nothing_follows_a_head() -> None:
    async with engine_and_client() as client:
        streamed = await ask(client, CloseAfterHead())
        whole = await ask(client, CloseAfterHead(), stream=False)
    assert split(streamed)[1] == b""
    assert b"Transfer-Encoding: chunked" in streamed
    assert split(whole)[1] == b""
    assert b"Content-Length: 512" in whole


@pytest.mark.parametrize("stream", [True, False])
async def test_a_slow_head_trickles_and_the_answer_is_whole(stream: bool) -> None:
    async with engine_and_client() as client, raw_connection(client.engine) as connection:
        began_s = time.monotonic()
        fault = header_text(SlowHead(for_s=0.3))
        connection.send_json(CHAT, chat_body(stream=stream), f"x-echo-fault: {fault}")
        await connection.read_until(b"HTTP/1.1 200 OK")
        early_s = time.monotonic() - began_s
        await connection.read_until(b"0\r\n\r\n" if stream else b'"timings"')
        assert 0.3 <= time.monotonic() - began_s < 0.3 + LATE_S
    assert early_s < 0.25
    assert client.engine.journal.entries[-1].fate == "done"


async def test_garbage_is_what_was_scripted() -> None:
    async with engine_and_client() as client:
        assert await ask(client, Garbage(content=b"\x00\xffgo away")) == b"\x00\xffgo away"
        assert not (await ask(client, Garbage())).startswith(b"HTTP")


PIECES = (
    Piece(at_s=0.0, content=b": ping\n\n"),
    Piece(at_s=0.1, content=b'data: {"a":"\xc3'),
    Piece(at_s=0.2, content=b'\xbc"}\n\ndata: [DONE]\n\n'),
)
SCRIPTED = b"".join(piece.content for piece in PIECES)


async def arrivals(connection: RawConnection) -> list[float]:
    """When each scripted piece was there, in s from now."""
    began_s = time.monotonic()
    times = []
    for piece in PIECES:
        await connection.read_until(piece.content)
        times.append(time.monotonic() - began_s)
    return times


async def test_scripted_bytes_come_at_their_times_in_chunks_of_their_own() -> None:
    fault = Script(pieces=PIECES, headers=(("X-Odd", "1"), ("X-Odd", "2")))
    async with engine_and_client() as client, raw_connection(client.engine) as connection:
        connection.send_json(CHAT, chat_body(), f"x-echo-fault: {header_text(fault)}")
        times = await arrivals(connection)
        head, body = split(await connection.read_until(b"\r\n0\r\n\r\n"))
        entry = client.engine.journal.entries[-1]
    assert all(
        0 <= time_s - at_s < LATE_S for time_s, at_s in zip(times, (0, 0.1, 0.2), strict=True)
    )
    assert b"X-Odd: 1\r\nX-Odd: 2\r\n" in head
    assert body.split(b"\r\n")[1] == PIECES[0].content
    assert unchunked(body) == SCRIPTED
    assert entry.body_sha256 == hashlib.sha256(SCRIPTED).hexdigest()


async def test_scripted_bytes_in_the_other_framings() -> None:
    async with engine_and_client() as client:
        fault = Script(pieces=PIECES, framing="close", status=206, content_type="a/b")
        head, body = split(await ask(client, fault))
        assert head.startswith(b"HTTP/1.1 206 Partial Content\r\n")
        assert b"Content-Type: a/b" in head
        assert b"Length" not in head
        assert body == SCRIPTED
        async with raw_connection(client.engine) as connection:
            fault = Script(pieces=PIECES, framing="length")
            connection.send_json(CHAT, chat_body(), f"x-echo-fault: {header_text(fault)}")
            assert (await connection.read_answer())[1] == SCRIPTED


async def test_a_reader_that_takes_nothing_delays_nobody() -> None:
    async with (
        engine_and_client(settings(context_tokens=200_000)) as client,
        raw_connection(client.engine) as connection,
    ):
        connection.send_json(CHAT, chat_body(tokens=100_000, stream=True))
        journal = client.engine.journal
        await journal.until(lambda: journal.counters.fates["done"] == 1, LIMIT_S)
        # Far more than socket buffers hold, and nothing was read yet.
        assert journal.entries[-1].body_bytes > 10_000_000
        assert (await client.chat()).status == 200
        got = await connection.read_until(b"\r\n0\r\n\r\n")
    assert got.count(b'"content":"') == 100_000
