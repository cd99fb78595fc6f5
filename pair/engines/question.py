"""One question to an engine: a GET with a limit on time and size.

The seam where aiohttp's exceptions become ours; whether a connection came about is told apart,
because a machine that computes still accepts and a dead one does not.
"""

from __future__ import annotations

import aiohttp

from pair.errors import GarbledAnswer, LostUpstream, NodeFault, SilentNode, UnreachableNode
from pair.wire.engine_reports.recognition import Said

ANSWER_LIMIT_BYTES = 4 * 1024 * 1024
"""Largest answer read. The largest real one is vLLM's `/metrics`, below 1 MiB."""

CONNECT_LIMIT_S = 0.8
"""Longest wait for a connection: below a proxy's limit for a probe (1.5 s), so that it learns which
of the two did not come, the connection or the answer."""

_CHUNK_BYTES = 64 * 1024

_HEADERS = {"Accept": "*/*", "Accept-Encoding": "identity"}
"""Nothing packed, so that the limit on size is one on what must be unpacked, too."""


async def ask(session: aiohttp.ClientSession, url: str, limit_s: float | None) -> Said:
    """The answer to GET, whatever its status; a redirection is an answer, too.

    Args:
        limit_s: for the whole of it; None leaves that to the caller.

    Raises:
        UnreachableNode: no connection.
        SilentNode: connected, but no answer within the limit.
        LostUpstream: the connection ended before the answer was whole.
        GarbledAnswer: not HTTP, or too large.
    """
    timeout = aiohttp.ClientTimeout(
        total=limit_s, connect=None, sock_connect=CONNECT_LIMIT_S, sock_read=None
    )
    try:
        async with session.get(
            url, timeout=timeout, allow_redirects=False, headers=_HEADERS
        ) as answer:
            return Said(answer.status, await _body(answer, url))
    except (aiohttp.ClientError, OSError) as fault:
        raise _ours(fault, url) from fault


async def _body(answer: aiohttp.ClientResponse, url: str) -> bytes:
    body = bytearray()
    async for chunk in answer.content.iter_chunked(_CHUNK_BYTES):
        body += chunk
        if len(body) > ANSWER_LIMIT_BYTES:
            raise GarbledAnswer(f"the answer of {url} is larger than {ANSWER_LIMIT_BYTES} bytes")
    return bytes(body)


def _ours(fault: Exception, url: str) -> NodeFault:
    """The same in our words. TimeoutError is an OSError, and aiohttp's are both."""
    match fault:
        case aiohttp.ConnectionTimeoutError():
            return UnreachableNode(f"no connection to {url} within {CONNECT_LIMIT_S} s")
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
    """The first line: an HTTP parser's text quotes what it could not read below."""
    return str(fault).partition("\n")[0] or type(fault).__name__
