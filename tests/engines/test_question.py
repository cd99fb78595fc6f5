from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress

import aiohttp
import pytest

from pair.engines.question import ANSWER_LIMIT_BYTES, ask, latest_lines, question_session
from pair.errors import GarbledAnswer, LostUpstream, SilentNode, UnreachableNode
from pair.wire.engine_reports.recognition import Said
from tests.engines.scripted_engine import ScriptedEngine, never, session


@asynccontextmanager
async def raw(answer: bytes, *, end: bool = True) -> AsyncIterator[str]:
    """The URL of something that answers each connection with these bytes."""
    ended = asyncio.Queue[None]()
    begun = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal begun
        begun += 1
        with suppress(ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            if not end:
                await reader.read()
            writer.close()
            await writer.wait_closed()
        ended.put_nowait(None)

    listener = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with listener:
        yield f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        async with asyncio.timeout(5.0):
            for _ in range(begun):
                await ended.get()


async def test_any_status_is_an_answer() -> None:
    pages = {"/a": (503, b"busy"), "/b": b"fine", "/c": (302, b"elsewhere")}
    async with ScriptedEngine(pages) as scripted, session() as asking:
        answers = [await ask(asking, scripted.url + path, None) for path in pages]
        assert scripted.methods == {"GET"}
    assert answers == [(503, b"busy"), (200, b"fine"), (302, b"elsewhere")]


async def test_the_session_goes_past_proxies_keeps_no_cookies_and_reuses_its_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    heads: list[bytes] = []
    ended = asyncio.Queue[None]()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                heads.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(b"HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nContent-Length: 0\r\n\r\n")
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        ended.put_nowait(None)

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as listener:
        # By name, for cookies of a bare address would not be kept anyway.
        url = f"http://localhost:{listener.sockets[0].getsockname()[1]}/"
        for fresh, expected in ((False, 1), (True, 2)):
            async with question_session(5.0, fresh=fresh) as asking:
                for _ in range(2):
                    assert (await ask(asking, url, None)).status == 200
            async with asyncio.timeout(5.0):
                for _ in range(expected):
                    await ended.get()
            assert ended.empty()
    assert len(heads) == 4
    assert all(b"cookie" not in head.lower() for head in heads)


async def test_nobody_listens() -> None:
    async with ScriptedEngine() as scripted:
        url = scripted.url
    async with session() as asking:
        with pytest.raises(UnreachableNode, match="no connection"):
            await ask(asking, url, 5.0)


async def test_a_name_that_is_none() -> None:
    async with session() as asking:
        with pytest.raises(UnreachableNode) as raised:
            await ask(asking, "http://name.invalid:1/", 5.0)
        assert "rrno" not in str(raised.value), "words only"
        with pytest.raises(UnreachableNode):
            await ask(asking, "http://[fe80::1", 5.0)


async def test_connected_and_no_answer() -> None:
    async with ScriptedEngine({"/": never}) as scripted, session() as asking:
        with pytest.raises(SilentNode, match="no answer"):
            await ask(asking, scripted.url + "/", 0.05)


async def test_an_answer_that_stops_halfway_is_silence() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"
    async with raw(head, end=False) as url, session() as asking:
        with pytest.raises(SilentNode):
            await ask(asking, url, 0.05)


@pytest.mark.parametrize(
    ("answer", "answered"),
    [(b"", False), (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", True)],
)
async def test_a_connection_that_ends_too_early(answer: bytes, answered: bool) -> None:
    async with raw(answer) as url, session() as asking:
        with pytest.raises(LostUpstream) as raised:
            await ask(asking, url, 5.0)
    assert raised.value.answered is answered


@pytest.mark.parametrize(
    "answer", [b"SSH-2.0-OpenSSH_9.6\r\n", b"\x00\x01\x02\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n"]
)
async def test_what_is_not_http(answer: bytes) -> None:
    async with raw(answer) as url, session() as asking:
        with pytest.raises(GarbledAnswer, match="does not answer as HTTP") as raised:
            await ask(asking, url, 5.0)
    assert "\n" not in str(raised.value)


async def test_an_endless_answer_is_not_read_to_its_end() -> None:
    chunk = b"%x\r\n%s\r\n" % (65536, b"x" * 65536)
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    endless = head + chunk * (ANSWER_LIMIT_BYTES // 65536 + 1)
    async with raw(endless, end=False) as url, session() as asking:
        with pytest.raises(GarbledAnswer, match="larger than"):
            await ask(asking, url, 5.0)


async def test_a_packed_answer_is_limited_by_what_it_unpacks_to() -> None:
    bomb = gzip.compress(b"0" * (2 * ANSWER_LIMIT_BYTES))
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb)
    async with raw(head + bomb) as url, session() as asking:
        with pytest.raises(GarbledAnswer):
            await ask(asking, url, 5.0)


LINES = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"


async def read_lines(url: str, silence_limit_s: float = 5.0) -> list[tuple[int, bytes]]:
    async with session() as asking:
        return [(one.status, one.body) async for one in lines_of(asking, url, silence_limit_s)]


def lines_of(
    asking: aiohttp.ClientSession, url: str, silence_limit_s: float
) -> AsyncGenerator[Said, None]:
    return latest_lines(asking, url, silence_limit_s=silence_limit_s)


async def test_of_lines_that_come_together_the_last_is_read_and_what_has_no_end_is_none() -> None:
    async with raw(LINES + b"one\n\ntwo\nhalf") as url:
        assert await read_lines(url) == [(200, b"two")]
    long = b"a" * 200_000  # in more than one piece
    async with raw(LINES + long + b"\n") as url:
        assert await read_lines(url) == [(200, long)]


async def test_a_line_comes_when_it_comes() -> None:
    async with (
        raw(LINES + b"one\n", end=False) as url,
        session() as asking,
        aclosing(lines_of(asking, url, 5.0)) as said,
    ):
        assert (await anext(said)).body == b"one"


async def test_what_is_no_success_has_no_lines() -> None:
    async with raw(b"HTTP/1.1 404 No\r\nConnection: close\r\n\r\na\nb\n") as url:
        assert await read_lines(url) == [(404, b"")]


async def test_a_line_without_end_is_not_read_to_its_end() -> None:
    async with raw(LINES + b"a" * (ANSWER_LIMIT_BYTES + 100_000)) as url:
        with pytest.raises(GarbledAnswer, match="larger than"):
            await read_lines(url)


async def test_lines_that_stop_coming_are_silence() -> None:
    async with raw(LINES + b"one\n", end=False) as url:
        with pytest.raises(SilentNode):
            await read_lines(url, 0.05)
