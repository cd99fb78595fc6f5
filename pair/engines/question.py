"""One question over HTTP, with a limit on time and size, and the session that it is asked in.

The seam where aiohttp's exceptions become ours; whether a connection came about is told apart,
because a machine that computes still accepts and a dead one does not. Every option of aiohttp that
matters is said here, once.
"""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from pair.errors import (
    GarbledAnswer,
    LostUpstream,
    NoConnectionYet,
    NodeFault,
    SilentNode,
    UnreachableNode,
)
from pair.wire.engine_reports.recognition import Said

ANSWER_LIMIT_BYTES = 4 * 1024 * 1024
"""Largest answer read. The largest real one of an engine is vLLM's `/metrics`, below 1 MiB; a
node's report with 4,096 replicas has about 1 MiB."""

CONNECT_SHARE = 0.6
"""The part of a question's limit that connecting may take, so that "no connection" and "no answer"
stay apart: a machine that computes still accepts."""

CONNECT_LIMIT_S = 3.0
"""Longest wait for a connection where the question has no limit."""

KEPT_S = 4.0
"""A connection that is idle for longer is not used again: llama-server closes it after 5 s."""

_CHUNK_BYTES = 64 * 1024

_HEAD_LIMIT_BYTES = 16 * 1024
"""Of the status line, and of each header line: twice aiohttp's own, as some engines repeat much."""

_HEADERS = {"Accept": "*/*", "Accept-Encoding": "identity"}
"""Nothing packed, so that the limit on size is one on what must be unpacked, too."""

_JSON = {"Content-Type": "application/json"}


class TooLarge(GarbledAnswer):
    """An answer that was not read to its end: it lives, and says too much."""


NO_HEADERS: Mapping[str, str] = MappingProxyType({})


LookUp = Callable[[str, int], Awaitable[Sequence[tuple[Any, ...]]]]
"""Name and port to what `socket.getaddrinfo` returns."""


class _Resolver(AbstractResolver):
    """aiohttp's way to ask, with our way to look up."""

    def __init__(self, look_up: LookUp) -> None:
        self._look_up = look_up

    async def resolve(
        self, name: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=name,
                host=where[0],
                port=port,
                family=kind,
                proto=protocol,
                flags=socket.AI_NUMERICHOST,
            )
            for kind, _, protocol, _, where in await self._look_up(name, port)
            if family in (socket.AF_UNSPEC, kind)
        ]

    async def close(self) -> None:
        """Nothing is held."""


def question_session(
    limit_s: float | None,
    *,
    fresh: bool = False,
    connections_limit: int = 0,
    look_up: LookUp | None = None,
) -> aiohttp.ClientSession:
    """A session for `ask`, to be entered or closed.

    Args:
        limit_s: for each question that says nothing else.
        fresh: a connection of its own for each question.
        connections_limit: at once, 0 for any number; further questions wait within their limit.
        look_up: how names are looked up, None for the event loop's few threads.
    """
    connector = aiohttp.TCPConnector(
        limit=connections_limit,
        limit_per_host=0,
        # A machine's address changes with its lease.
        use_dns_cache=False,
        resolver=None if look_up is None else _Resolver(look_up),
        force_close=fresh,
        keepalive_timeout=None if fresh else KEPT_S,
        enable_cleanup_closed=False,
    )
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        # HTTP_PROXY must not capture what stays in the house.
        trust_env=False,
        auto_decompress=True,
        raise_for_status=False,
        read_bufsize=_CHUNK_BYTES,
        max_line_size=_HEAD_LIMIT_BYTES,
        max_field_size=_HEAD_LIMIT_BYTES,
        timeout=aiohttp.ClientTimeout(
            total=limit_s, connect=None, sock_connect=CONNECT_LIMIT_S, sock_read=None
        ),
    )


async def ask(
    session: aiohttp.ClientSession,
    url: str,
    limit_s: float | None,
    *,
    connect_limit_s: float | None = None,
    limit_bytes: int = ANSWER_LIMIT_BYTES,
    headers: Mapping[str, str] = NO_HEADERS,
    put: bytes | None = None,
) -> Said:
    """The answer to GET, whatever its status; a redirection is an answer, too.

    Args:
        limit_s: for the whole of it; None leaves that to the caller.
        connect_limit_s: for connecting, None for `CONNECT_SHARE` of the limit.
        limit_bytes: of the answer's body.
        headers: besides our own, such as the key that the user has named for this node.
        put: JSON to PUT there instead.

    Raises:
        UnreachableNode: no connection.
        SilentNode: connected, but no answer within the limit.
        LostUpstream: the connection ended before the answer was whole.
        GarbledAnswer: not HTTP, or too large.
    """
    if connect_limit_s is None:
        connect_limit_s = CONNECT_LIMIT_S if limit_s is None else limit_s * CONNECT_SHARE
    timeout = aiohttp.ClientTimeout(
        total=limit_s, connect=None, sock_connect=connect_limit_s, sock_read=None
    )
    try:
        async with session.request(
            "GET" if put is None else "PUT",
            url,
            data=put,
            timeout=timeout,
            allow_redirects=False,
            headers={**_HEADERS, **({} if put is None else _JSON), **headers},
        ) as answer:
            return Said(answer.status, await _body(answer, url, limit_bytes))
    except (aiohttp.ClientError, OSError) as fault:
        raise _ours(fault, url, connect_limit_s) from fault


async def latest_lines(
    session: aiohttp.ClientSession,
    url: str,
    *,
    silence_limit_s: float,
    headers: Mapping[str, str] = NO_HEADERS,
) -> AsyncGenerator[Said, None]:
    """The answer to GET, a line at a time as they come, each with the status of the answer; of
    several that come together the last, since each says how things are by then. One that is no
    success has one line at the most, and is not read to its end. To be closed.

    Args:
        silence_limit_s: longest wait for more of it.
        headers: besides our own.

    Raises:
        UnreachableNode: no connection.
        SilentNode: nothing came for so long.
        LostUpstream: the connection ended in the middle.
        GarbledAnswer: not HTTP, or a line that is too large.
    """
    timeout = aiohttp.ClientTimeout(
        total=None, connect=None, sock_connect=CONNECT_LIMIT_S, sock_read=silence_limit_s
    )
    try:
        async with session.get(
            url, timeout=timeout, allow_redirects=False, headers={**_HEADERS, **headers}
        ) as answer:
            if answer.status != HTTPStatus.OK:
                yield Said(answer.status, b"")
                return
            held = bytearray()
            async for chunk in answer.content.iter_any():
                *whole, rest = chunk.rsplit(b"\n", 2)
                if whole:
                    line = whole[-1] if len(whole) > 1 else bytes(held) + whole[0]
                    held.clear()
                    yield Said(answer.status, line)
                held += rest
                if len(held) > ANSWER_LIMIT_BYTES:
                    raise TooLarge(f"a line of {url} is larger than {ANSWER_LIMIT_BYTES} bytes")
    except (aiohttp.ClientError, OSError) as fault:
        raise _ours(fault, url, CONNECT_LIMIT_S) from fault


async def _body(answer: aiohttp.ClientResponse, url: str, limit_bytes: int) -> bytes:
    body = bytearray()
    async for chunk in answer.content.iter_chunked(_CHUNK_BYTES):
        body += chunk
        if len(body) > limit_bytes:
            raise TooLarge(f"the answer of {url} is larger than {limit_bytes} bytes")
    return bytes(body)


def _ours(fault: Exception, url: str, connect_limit_s: float) -> NodeFault:
    """The same in our words. TimeoutError is an OSError, and aiohttp's are both."""
    match fault:
        case aiohttp.ConnectionTimeoutError():
            return NoConnectionYet(f"no connection to {url} within {connect_limit_s:g} s")
        case TimeoutError():
            return SilentNode(f"no answer from {url}")
        case aiohttp.ClientConnectorError() | aiohttp.InvalidURL():
            return UnreachableNode(f"no connection to {url}: {_words(fault)}")
        case aiohttp.ClientPayloadError():
            return LostUpstream(f"{url} broke its answer off", reused=False, answered=True)
        case aiohttp.ServerDisconnectedError() | OSError():
            return LostUpstream(
                f"{url} closed the connection without an answer", reused=False, answered=False
            )
        case _:
            return GarbledAnswer(f"{url} does not answer as HTTP: {_words(fault)}")


def _words(fault: Exception) -> str:
    """The first line: an HTTP parser's text quotes what it could not read below. Of a connection
    only the system's own words, for aiohttp calls every one SSL.
    """
    if isinstance(fault, aiohttp.ClientConnectorError):
        number = fault.os_error.errno
        if number and number > 0:
            return os.strerror(number)
        # The resolver's numbers are not the system's, and say nothing to people.
        return fault.os_error.strerror or str(fault.os_error)
    return str(fault).partition("\n")[0] or type(fault).__name__
