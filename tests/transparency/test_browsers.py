"""Issue 3, item 18: web pages, by real sockets to the production proxy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import pytest

from pair.settings import ProxySettings, QueueSettings, Settings
from tests.support.chain import chain
from tests.support.house import FAST, House, chat, house

PAGE = "http://localhost:3000"
FOREIGN = "https://evil.example"


@dataclass(frozen=True)
class Got:
    """An answer as it came by the wire."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name]


async def ask(
    address: tuple[str, int], request: str, *headers: str, called: str = "localhost"
) -> Got:
    """One request on a connection of its own."""
    reader, writer = await asyncio.open_connection(*address)
    lines = [f"{request} HTTP/1.1", f"Host: {called}", "Connection: close", *headers, "", ""]
    writer.write("\r\n".join(lines).encode())
    async with asyncio.timeout(10):
        received = await reader.read()
    writer.close()
    head, _, body = received.partition(b"\r\n\r\n")
    status, *rest = head.decode().split("\r\n")
    named = [line.partition(": ") for line in rest]
    return Got(int(status.split()[1]), [(key.lower(), value) for key, _, value in named], body)


@pytest.fixture
async def home() -> AsyncIterator[House]:
    async with house(FAST) as built:
        yield built


def preflight(origin: str = PAGE) -> tuple[str, ...]:
    return (
        f"Origin: {origin}",
        "Access-Control-Request-Method: POST",
        "Access-Control-Request-Headers: authorization, content-type, x-stainless-os",
        "Access-Control-Request-Private-Network: true",
    )


async def test_18_preflight_is_answered_before_auth_and_without_a_ticket(home: House) -> None:
    got = await ask(home.address, "OPTIONS /v1/chat/completions", *preflight())
    assert got.status == 200
    assert got.body == b""
    assert got.all("content-length") == ["0"]
    assert got.all("access-control-allow-origin") == [PAGE]
    assert "POST" in got.all("access-control-allow-methods")[0]
    assert got.all("access-control-allow-headers") == [
        "authorization, content-type, x-stainless-os"
    ]
    assert got.all("access-control-allow-private-network") == ["true"]
    assert int(got.all("access-control-max-age")[0]) > 0
    assert "Origin" in got.all("vary")
    assert home.snapshot().opened == 0


async def test_18_answers_to_an_allowed_page_are_readable_with_our_headers(home: House) -> None:
    for streamed in (False, True):
        reply = await home.send(chat(stream=streamed), Origin=PAGE)
        assert reply.status == 200
        assert reply.headers["access-control-allow-origin"] == PAGE
        assert "x-pair-node" in reply.headers["access-control-expose-headers"]
    listed = await ask(home.address, "GET /v1/models", f"Origin: {PAGE}")
    assert listed.all("access-control-allow-origin") == [PAGE]


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        ("GET /nowhere", 404),
        ("POST /v1/chat/completions", 400),
        ("GET /pair/v1/jobs/none", 404),
    ],
)
async def test_18_errors_of_ours_carry_the_same(
    home: House, request_line: str, status: int
) -> None:
    got = await ask(home.address, request_line, f"Origin: {PAGE}", "Content-Length: 0")
    assert got.status == status
    assert got.all("access-control-allow-origin") == [PAGE]


async def test_18_refusals_at_the_bounds_carry_the_same() -> None:
    settings = Settings(
        queue=QueueSettings(limit=0, start_grace_s=0.0), proxy=ProxySettings(body_limit_bytes=1024)
    )
    async with house(replace(FAST, slots=1, decode_rate_tokens_per_s=5), settings=settings) as home:
        running = await home.raw()
        running.post(chat(tokens=50, stream=True))
        await home.until(lambda: home.snapshot().in_flight == 1)
        full = await home.send(chat(), Origin=PAGE)
        large = await home.send(chat(filler="x" * 2000), Origin=PAGE)
        running.reset()
        await home.quiet()
    assert (full.status, full.headers["access-control-allow-origin"]) == (429, PAGE)
    assert (large.status, large.headers["access-control-allow-origin"]) == (413, PAGE)


@pytest.mark.parametrize(
    ("origin", "welcome"),
    [
        ("http://localhost", True),
        ("https://127.0.0.1:8443", True),
        ("http://[::1]:5173", True),
        ("http://tauri.localhost", True),
        ("tauri://localhost", True),
        ("app://obsidian.md", True),
        ("vscode-webview://1abc", True),
        ("https://evil.example", False),
        ("http://localhost.evil.example", False),
        ("http://127.0.0.1.evil.example", False),
        ("http://192.168.1.9:3000", False),
        ("chrome-extension://abcdef", False),
        ("null", False),
    ],
)
async def test_18_pages_of_this_machine_and_its_apps_are_allowed_by_default(
    home: House, origin: str, welcome: bool
) -> None:
    got = await ask(home.address, "OPTIONS /v1/chat/completions", *preflight(origin))
    assert got.status == 200
    assert got.all("access-control-allow-origin") == ([origin] if welcome else [])
    assert bool(got.all("access-control-allow-methods")) == welcome
    reply = await ask(home.address, "GET /v1/models", f"Origin: {origin}")
    assert reply.status == (200 if welcome else 403)


async def test_18_a_foreign_page_can_start_no_work(home: House) -> None:
    """A form needs no preflight; nor does a text/plain POST or a WebSocket."""
    reply = await home.send(chat(), Origin=FOREIGN, Content_Type="text/plain")
    assert reply.status == 403
    assert "access-control-allow-origin" not in reply.headers
    assert "proxy.cors_origins" in reply.json["error"]["message"]
    assert home.snapshot().opened == 0


@pytest.mark.parametrize("origins", [(FOREIGN,), ("*",)])
async def test_18_origins_are_a_setting(origins: tuple[str, ...]) -> None:
    settings = Settings(proxy=ProxySettings(cors_origins=origins))
    async with house(FAST, settings=settings) as home:
        reply = await home.send(chat(), Origin=FOREIGN)
        assert reply.status == 200
        assert reply.headers["access-control-allow-origin"] == FOREIGN
        other = await home.send(chat(), Origin=PAGE)
        assert other.status == (200 if "*" in origins else 403)


async def test_18_the_proxy_s_own_pages_are_always_allowed(home: House) -> None:
    own = f"http://127.0.0.9:{home.address[1]}"
    settings = Settings(proxy=ProxySettings(cors_origins=()))
    async with house(FAST, settings=settings) as strict:
        got = await ask(
            strict.address, "GET /v1/models", f"Origin: {own}", called=own.removeprefix("http://")
        )
    assert got.status == 200


@pytest.mark.parametrize(
    ("called", "known"),
    [
        ("127.0.0.1:7247", True),
        ("[::1]:7247", True),
        ("192.168.1.5:7247", True),
        ("LOCALHOST", True),
        ("studio", True),
        ("studio.local:7247", True),
        ("host.docker.internal:7247", True),
        ("rebound.evil.example:7247", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.nip.io", False),
    ],
)
async def test_18_no_rebound_name_is_answered(home: House, called: str, known: bool) -> None:
    got = await ask(home.address, "GET /v1/models", called=called)
    assert got.status == (200 if known else 403)
    assert known or b"proxy.names" in got.body


async def test_18_a_rebound_page_has_no_preflight_and_no_own_origin(home: House) -> None:
    name = "rebound.evil.example:7247"
    got = await ask(home.address, "OPTIONS /v1/models", *preflight(f"http://{name}"), called=name)
    assert got.status == 403
    assert got.all("access-control-allow-origin") == []


async def test_18_names_are_a_setting() -> None:
    settings = Settings(proxy=ProxySettings(names=("pair.example.org",)))
    async with house(FAST, settings=settings) as home:
        assert (await ask(home.address, "GET /v1/models", called="pair.example.org")).status == 200
        assert (await ask(home.address, "GET /v1/models", called="x.example.org")).status == 403


async def test_18_a_node_answers_no_page_but_an_allowed_page_s_calls_pass_through_it() -> None:
    async with chain(FAST) as built:
        assert (await built.house.send(chat(), Origin=PAGE)).status == 200
        name, _, port = built.nodes[0].address.rpartition(":")
        got = await ask((name, int(port)), "GET /v1/models", f"Origin: {PAGE}")
        assert got.status == 403
        assert got.all("access-control-allow-origin") == []
