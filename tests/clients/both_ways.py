"""One client library pointed at an engine twice: at the engine itself, and at `pair` before it.

What a person of the house notices is what their library returns, so that is what is compared: the
library's own objects, as plain values, without what differs from one call to the next anyway (ids,
moments, durations).
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

import pytest
from pydantic import BaseModel

from tests.support.house import House

PASSING = frozenset(
    (
        "id",
        "item_id",
        "call_id",
        "response_id",
        "created",
        "created_at",
        "completed_at",
        "timings",
        "total_duration",
        "load_duration",
        "prompt_eval_duration",
        "eval_duration",
    )
)
"""Names of fields that no two calls share."""

Call = Callable[[str], Awaitable[Any]]
"""Makes a client for the URL (without `/v1`), uses it, and returns what came of it."""


async def both(built: House, call: Call, *, tickets: int = 1) -> Any:
    """What `call` returns through the proxy, asserted to be what it returns at the engine itself.

    Args:
        built: a house of one engine.
        tickets: so many requests of `call` become tickets; the others are answered from memory.
    """
    (engine,) = built.engines
    ways = []
    for url in (engine.url, built.base_url):
        # Both find the prefix cache empty, or the second would be told of cached tokens.
        async with built.client.post(f"{engine.url}/echo/reset") as answer:
            assert answer.status == 200
        opened = built.snapshot().opened
        ways.append(plain(await call(url)))
        await built.quiet()
        assert built.snapshot().opened - opened == (0 if url == engine.url else tickets)
    direct, through = ways
    assert through == direct
    built.assert_books_are_clean()
    return through


def plain(value: Any) -> Any:
    """A library's object as dicts and lists, without the passing fields."""
    if isinstance(value, BaseModel):
        # `warnings`: the libraries build their objects unchecked and mix in types of their own.
        return plain(value.model_dump(mode="json", warnings=False))
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items() if name not in PASSING}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value


async def gathered(stream: AsyncIterable[Any]) -> list[Any]:
    """All parts of a stream."""
    return [part async for part in stream]


async def complaint(kind: type[Exception], call: Awaitable[Any]) -> dict[str, Any]:
    """What a library raises, as its user sees it: the very type, the words, the status."""
    with pytest.raises(kind) as caught:
        await call
    error = caught.value
    status = getattr(error, "status_code", None)
    return {"type": type(error).__name__, "words": str(error), "status": status}


async def pieces_until(kind: type[Exception], stream: AsyncIterator[str]) -> tuple[str, str]:
    """The text that came before a stream ended with this error, and the error's words."""
    pieces: list[str] = []

    async def read() -> None:
        async for piece in stream:
            pieces.append(piece)  # noqa: PERF401 - what came before the error must be kept

    with pytest.raises(kind) as caught:
        await read()
    return "".join(pieces), str(caught.value)


def text_of(chunks: Iterable[dict[str, Any]]) -> str:
    """The text of a streamed OpenAI chat, as plain chunks."""
    return "".join(
        choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"]
    )
