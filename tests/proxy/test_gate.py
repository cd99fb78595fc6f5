"""The gate beside an engine that has a word of its own for pages."""

from __future__ import annotations

from dataclasses import replace

from pair.settings import FixedNode, Settings
from tests.proxy.raw_engine import page, raw_engine
from tests.relay.wires import client
from tests.support.house import house

PAGE = "http://localhost:3000"
OWN = (
    "Access-Control-Allow-Origin: *",
    "Access-Control-Allow-Credentials: true",
    "Vary: Accept-Encoding",
)


async def relayed(*headers: str) -> tuple[bytes, bytes]:
    """What the engine gets and what the client gets of one call with these headers."""
    async with raw_engine() as engine:
        settings = replace(Settings(), nodes=(FixedNode(engine.url),))
        async with house(settings=settings) as home, client(home.proxy.addresses[0]) as wire:
            await home.ready(1)
            lines = ["POST /v1/embeddings?model=raw HTTP/1.1", "Host: localhost", *headers]
            await wire.send("\r\n".join([*lines, "Content-Length: 0", "", ""]).encode())
            call = await engine.next_call()
            await call.send(page(b"{}", 200, *OWN))
            await call.wire.close()
            return call.head.lower(), (await wire.answer()).head.lower()


async def test_what_a_page_gets_is_said_once_and_by_us() -> None:
    asked, answered = await relayed(f"Origin: {PAGE}")
    assert b"origin" not in asked
    assert answered.count(b"access-control-allow-origin") == 1
    assert f"access-control-allow-origin: {PAGE}".encode() in answered
    assert b"allow-credentials" not in answered
    assert answered.count(b"vary: ") == 2


async def test_without_a_page_the_engine_s_words_pass() -> None:
    _, answered = await relayed()
    assert b"access-control-allow-origin: *" in answered
    assert b"expose-headers" not in answered
