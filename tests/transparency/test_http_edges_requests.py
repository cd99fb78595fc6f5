"""Item 14: what clients may send, and what an engine gets of it."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator

import pytest

from pair.settings import ProxySettings, Settings
from tests.relay.wires import chunked, client, ok
from tests.transparency.edges import CHAT, PATH, Edge, asked, edge, post, values

MODELS = b"GET /v1/models HTTP/1.1\r\nHost: test\r\n\r\n"
OK = ok(b"fine", "Connection: close")


@pytest.fixture
async def door() -> AsyncIterator[Edge]:
    async with edge() as opened:
        yield opened


async def test_14_a_chunked_body_goes_on_with_its_length(door: Edge) -> None:
    body = chunked(CHAT[:5], CHAT[5:])
    head, got, answer = await door.through(
        post(body, b"Transfer-Encoding: chunked", b"Trailer: X", length=False), OK
    )
    assert (got, answer.body) == (CHAT, b"fine")
    assert values(head, b"content-length") == [b"%d" % len(CHAT)]
    assert values(head, b"transfer-encoding") == values(head, b"trailer") == []


async def test_14_trailers_and_extensions_of_chunks_end_here(door: Edge) -> None:
    body = b"%x;a=b\r\n%b\r\n0\r\nX-Late: 1\r\n\r\n" % (len(CHAT), CHAT)
    head, got, _ = await door.through(post(body, b"Transfer-Encoding: chunked", length=False), OK)
    assert got == CHAT
    assert values(head, b"x-late") == []


@pytest.mark.parametrize("encoding", [b"gzip", b"deflate"])
async def test_14_a_packed_body_goes_on_as_it_is(door: Edge, encoding: bytes) -> None:
    packed = gzip.compress(CHAT)
    head, got, answer = await door.through(post(packed, b"Content-Encoding: " + encoding), OK)
    assert (got, answer.status) == (packed, 200)
    assert values(head, b"content-encoding") == [encoding]


async def test_14_a_client_that_waits_for_100_continue_gets_it(door: Edge) -> None:
    async with client(door.address) as wire, asyncio.TaskGroup() as tasks:
        await wire.send(post(CHAT, b"Expect: 100-continue")[: -len(CHAT)])
        assert await wire.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        answering = tasks.create_task(asked(wire, CHAT))
        call = await door.engine.next_call()
        assert values(call.head, b"expect") == []
        assert call.body == CHAT
        await call.send(OK)
        assert (await answering).body == b"fine"


async def test_14_an_engines_413_reaches_a_client_that_expected_to_go_on(door: Edge) -> None:
    refusal = b"HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno"
    async with client(door.address) as wire, asyncio.TaskGroup() as tasks:
        await wire.send(post(CHAT, b"Expect: 100-continue")[: -len(CHAT)])
        await wire.until(b"\r\n\r\n")
        answering = tasks.create_task(asked(wire, CHAT))
        await (await door.engine.next_call()).send(refusal)
        answer = await answering
        assert (answer.status, answer.body) == (413, b"no")


async def test_14_a_body_that_is_too_large_is_refused_before_100_continue() -> None:
    settings = Settings(proxy=ProxySettings(body_limit_bytes=4096))
    async with edge(settings) as door, client(door.address) as wire:
        answer = await asked(wire, post(bytes(5000), b"Expect: 100-continue")[:-5000])
        assert (answer.status, answer.values("connection")) == (413, ["close"])
        assert await wire.rest() == b""


@pytest.mark.parametrize(
    ("wish", "said"), [((), "close"), ((b"Connection: keep-alive",), "keep-alive")]
)
async def test_14_a_client_of_1_0(door: Edge, wish: tuple[bytes, ...], said: str) -> None:
    head, got, answer = await door.through(post(CHAT, *wish, version=0), OK)
    assert head.startswith(b"POST %b HTTP/1.1\r\n" % PATH)
    assert (got, answer.body, answer.values("connection")) == (CHAT, b"fine", [said])


async def test_14_a_client_of_1_0_gets_a_chunked_answer_unchunked(door: Edge) -> None:
    chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(b"a", b"b")
    _, _, answer = await door.through(post(CHAT, b"Connection: keep-alive", version=0), chunks)
    assert (answer.body, answer.values("transfer-encoding")) == (b"ab", [])
    assert answer.values("connection") == ["close"]


async def test_14_pipelined_requests_are_answered_in_their_order(door: Edge) -> None:
    async with client(door.address) as wire, asyncio.TaskGroup() as tasks:
        await wire.send(MODELS + post() + b"GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n")
        answers = tasks.create_task(asked(wire, post() + MODELS))
        for word in (b"first", b"second"):
            await (await door.engine.next_call()).send(ok(word, "Connection: close"))
        got = [await answers, *[await wire.answer() for _ in range(4)]]
        assert [b"raw" in got[0].body, got[1].body, b"ok" in got[2].body] == [True, b"first", True]
        assert [got[3].body, b"raw" in got[4].body] == [b"second", True]


async def test_14_head_has_the_head_of_get_and_no_body(door: Edge) -> None:
    async with client(door.address) as wire:
        plain = await asked(wire, MODELS)
        bare = await asked(wire, MODELS.replace(b"GET", b"HEAD"))
        assert (bare.status, bare.values("content-length")) == (200, [str(len(plain.body))])
        assert (await asked(wire, MODELS)).status == 200


@pytest.mark.parametrize("method", [b"HEAD", b"OPTIONS", b"DELETE", b"PATCH", b"PROPFIND"])
async def test_14_any_method_goes_on(door: Edge, method: bytes) -> None:
    request = post(b"", path=b"/v1/things?model=raw").replace(b"POST", method)
    bodyless = method == b"HEAD"
    answer = b"HTTP/1.1 200 OK\r\nX: y\r\nConnection: close\r\nContent-Length: 5\r\n\r\n"
    head, _, got = await door.through(request, answer if bodyless else answer + b"abcde")
    assert head.startswith(method + b" /v1/things?model=raw HTTP/1.1\r\n")
    assert (got.values("x"), got.values("content-length")) == (["y"], ["5"])
    assert got.body == (b"" if bodyless else b"abcde")


async def test_14_what_concerns_one_connection_does_not_go_on(door: Edge) -> None:
    head, _, _ = await door.through(
        post(
            CHAT,
            b"TE: trailers",
            b"Connection: X-Mine, te , keep-alive",
            b"X-Mine: 1",
            b"Keep-Alive: timeout=9",
            b"Proxy-Authorization: Basic eA==",
            b"X-Kept: 1",
            b"x-kept: 2",
        ),
        OK,
    )
    for name in (b"te", b"connection", b"x-mine", b"keep-alive", b"proxy-authorization"):
        assert values(head, name) == [], name
    assert values(head, b"x-kept") == [b"1", b"2"]


async def test_14_a_url_as_the_target_means_its_path(door: Edge) -> None:
    head, _, answer = await door.through(
        post(CHAT, path=b"http://localhost:1/v1/chat/completions?a=%2f"), OK
    )
    assert answer.status == 200
    assert head.startswith(b"POST /v1/chat/completions?a=%2f HTTP/1.1\r\n")
    assert values(head, b"host") == [door.engine.url.removeprefix("http://").encode()]


@pytest.mark.parametrize(
    "path",
    [
        b"//v1/chat/completions",
        b"/v1//chat/completions",
        b"/v1/v1/chat/completions",
        b"/v1/v1//chat/completions/",
        b"/v1/chat/completions/",
    ],
)
async def test_14_a_wrong_base_url_works_and_a_post_is_never_redirected(
    door: Edge, path: bytes
) -> None:
    head, got, answer = await door.through(post(CHAT, path=path), OK)
    assert head.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")
    assert (got, answer.status) == (CHAT, 200)


@pytest.mark.parametrize("path", [b"//v1/models", b"/v1/v1/models", b"/v1/models/", b"/models/"])
async def test_14_the_list_is_found_with_a_wrong_base_url(door: Edge, path: bytes) -> None:
    async with client(door.address) as wire:
        answer = await asked(wire, MODELS.replace(b"/v1/models", path))
        assert (answer.status, b'"raw"' in answer.body) == (200, True)


@pytest.mark.parametrize(
    "target",
    [
        b"/v1/files/a%2Fb%20c%c3%A9?x=%2F&y=+&&z",
        b"/v1/%7Euser/%2e%2E/x?",
        b"/v1/a;b=c/d,e@f:g!*'()?q=a/b//c?d",
        b"/v1/a/../b/./c",
    ],
)
async def test_14_paths_and_queries_stay_as_they_are_encoded(door: Edge, target: bytes) -> None:
    mark = b"&" if b"?" in target else b"?"
    target += mark + b"model=raw"
    head, _, _ = await door.through(post(b"", path=target).replace(b"POST", b"DELETE"), OK)
    assert head.startswith(b"DELETE %b HTTP/1.1\r\n" % target)
