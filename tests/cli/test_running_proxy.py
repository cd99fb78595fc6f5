from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

import pytest

from pair.cli.running_proxy import RunningProxy, proxy_url
from pair.errors import GarbledAnswer, RequestFault, SettingsError, UnreachableNode
from pair.settings import ProxySettings, Settings
from tests.cli.conftest import Pages, Pair
from tests.terminal.samples import call, job, node, snapshot


@pytest.mark.parametrize(
    ("listen", "given", "url"),
    [
        ("127.0.0.1:7247", None, "http://127.0.0.1:7247"),
        ("0.0.0.0:9000", None, "http://127.0.0.1:9000"),
        ("[::]:9000", None, "http://[::1]:9000"),
        ("attic.local:9000", None, "http://attic.local:9000"),
        ("127.0.0.1:7247", "http://attic:1/", "http://attic:1"),
        ("127.0.0.1:7247", "http://attic:1/v1", "http://attic:1"),
        ("127.0.0.1:7247", "http://attic:1/house/v1/", "http://attic:1/house"),
    ],
)
def test_the_proxy_is_where_the_settings_let_it_listen(
    listen: str, given: str | None, url: str
) -> None:
    settings = Settings(proxy=ProxySettings(listen=(listen, "10.0.0.1:1")))
    assert proxy_url(settings, given) == url


def test_a_path_is_passed_over_for_an_address_that_has_a_url() -> None:
    both = ProxySettings(listen=("/run/pair.sock", "127.0.0.1:1"))
    assert proxy_url(Settings(proxy=both), None) == "http://127.0.0.1:1"
    with pytest.raises(SettingsError, match="say where the proxy is with --proxy URL"):
        proxy_url(Settings(proxy=ProxySettings(listen=("/run/pair.sock",))), None)


async def test_its_pages_are_given_as_they_are(pages: Pages) -> None:
    shown = snapshot(node("attic"))
    told = job(call("a", 0, 0, 1, 2))
    pages.put("/pair/v1/snapshot", shown)
    pages.put("/pair/v1/jobs", {"v": 1, "jobs": [told]})
    pages.put("/pair/v1/jobs/a%2Fb%3F", told)
    async with RunningProxy(pages.url) as proxy:
        assert await proxy.snapshot() == shown
        assert await proxy.jobs() == [told]
        assert await proxy.job("a/b?") == told
        with pytest.raises(RequestFault, match="the proxy remembers no job 'nope'"):
            await proxy.job("nope")


async def test_nobody_there_is_told_with_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    async with RunningProxy(url) as proxy:
        with pytest.raises(UnreachableNode, match=r"no pair proxy answers at .*`pair serve`"):
            await proxy.snapshot()


def test_a_url_that_is_none_is_wrong_usage(pair: Pair) -> None:
    run = pair("nodes", "--proxy", "attic")
    assert (run.code, run.out) == (2, "")
    assert run.err == "pair: --proxy takes a URL such as http://127.0.0.1:7247, not 'attic'\n"


async def test_an_endless_page_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pair.cli.running_proxy.PAGE_LIMIT_BYTES", 100_000)
    ended = asyncio.Event()

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        with suppress(ConnectionError):
            while True:
                writer.write(b" " * 65536)
                await writer.drain()
        writer.close()
        ended.set()

    async with asyncio.timeout(20), await asyncio.start_server(endless, "127.0.0.1", 0) as opened:
        url = f"http://127.0.0.1:{opened.sockets[0].getsockname()[1]}"
        async with RunningProxy(url) as proxy:
            with pytest.raises(GarbledAnswer, match="is not a pair proxy"):
                await proxy.snapshot()
        await ended.wait()


@pytest.mark.parametrize(
    ("status", "body"),
    [(200, b"<html>"), (200, b"[1]"), (200, b'{"models": []}'), (404, b"{}"), (500, b'{"v": 1}')],
)
async def test_a_stranger_on_that_port_is_told_as_one(
    pages: Pages, status: int, body: bytes
) -> None:
    pages.put("/pair/v1/snapshot", body, status)
    async with RunningProxy(pages.url) as proxy:
        with pytest.raises(GarbledAnswer, match="is not a pair proxy"):
            await proxy.snapshot()


async def test_another_version_is_told_with_what_to_do(pages: Pages) -> None:
    pages.put("/pair/v1/snapshot", {"v": 2})
    async with RunningProxy(pages.url) as proxy:
        with pytest.raises(GarbledAnswer, match="speaks version 2 and this pair version 1"):
            await proxy.snapshot()


async def test_an_answer_that_breaks_off_is_no_answer() -> None:
    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{")
        writer.close()

    async with await asyncio.start_server(half, "127.0.0.1", 0) as listening:
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        async with RunningProxy(url) as proxy:
            with pytest.raises(UnreachableNode):
                await proxy.snapshot()
