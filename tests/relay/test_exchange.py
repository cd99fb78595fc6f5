"""Answers by a handler: framing, the order of calls, and what cannot be undone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pair.errors import BookkeepingError
from pair.relay.exchange import Exchange, plain_answer
from pair.relay.front import Front
from pair.relay.heads import AnswerHead
from tests.relay.relays import FRONT_LIMITS
from tests.relay.wires import Answer, client


def head(status: int = 200, length: int | None = None, *headers: tuple[bytes, bytes]) -> AnswerHead:
    """An answer's head as an upstream gives it."""
    own = [] if length is None else [(b"Content-Length", b"%d" % length)]
    return AnswerHead(status, b"OK", 1, [*headers, *own], {}, length, length is None, True)


async def served(
    act: Callable[[Exchange], None], request: bytes = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
) -> bytes:
    """All that a client gets when its exchange is acted on like this; the connection ends then."""

    async def serve(exchange: Exchange) -> None:
        exchange.close_after()
        act(exchange)

    async with Front(serve, FRONT_LIMITS) as front, client(await front.open("127.0.0.1:0")) as wire:
        await wire.send(request)
        return await wire.rest()


def in_pieces(exchange: Exchange) -> None:
    """An answer of unknown length."""
    exchange.begin(head(), [(b"x-pair-node", b"n")])
    exchange.send(b"ab")
    exchange.send(b"")
    exchange.finish(b"c", [(b"X-Sum", b"1")])


async def test_pieces_become_chunks() -> None:
    assert await served(in_pieces) == (
        b"HTTP/1.1 200 OK\r\nx-pair-node: n\r\nTransfer-Encoding: chunked\r\n"
        b"Connection: close\r\n\r\n"
        b"2\r\nab\r\n1\r\nc\r\n0\r\nX-Sum: 1\r\n\r\n"
    )


async def test_pieces_go_bare_to_1_0_clients() -> None:
    assert await served(in_pieces, b"GET / HTTP/1.0\r\n\r\n") == (
        b"HTTP/1.1 200 OK\r\nx-pair-node: n\r\nConnection: close\r\n\r\nabc"
    )


async def test_a_length_is_kept() -> None:
    def act(exchange: Exchange) -> None:
        exchange.begin(head(200, 3))
        exchange.send(b"ab")
        assert not exchange.open_ended
        exchange.finish(b"c")

    assert (await served(act)).endswith(b"Content-Length: 3\r\nConnection: close\r\n\r\nabc")


async def test_to_head_there_is_no_body() -> None:
    def act(exchange: Exchange) -> None:
        plain_answer(exchange, 200, "abc")

    got = await served(act, b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert got.endswith(b"Content-Length: 4\r\nConnection: close\r\n\r\n")


async def test_an_answer_of_our_own() -> None:
    def act(exchange: Exchange) -> None:
        exchange.answer(429, [(b"Retry-After", b"1\r\nX: y")], b"{}")
        assert exchange.over

    assert await served(act) == (
        b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1  X: y\r\nContent-Length: 2\r\n"
        b"Connection: close\r\n\r\n{}"
    )


async def test_a_cut_after_a_last_piece_of_ours_does_not_look_whole() -> None:
    def act(exchange: Exchange) -> None:
        exchange.begin(head())
        exchange.send(b"data: a\n\n")
        assert exchange.open_ended
        exchange.send(b'data: {"error":{}}\n\n')
        exchange.cut()
        exchange.cut()
        assert not exchange.open_ended

    assert (await served(act)).endswith(b'\r\n14\r\ndata: {"error":{}}\n\n\r\n')


async def test_a_cut_before_anything_was_said_says_nothing() -> None:
    assert await served(Exchange.cut) == b"<reset>"


def _twice(exchange: Exchange) -> None:
    exchange.begin(head())
    exchange.begin(head())


def _too_long(exchange: Exchange) -> None:
    exchange.begin(head(200, 3))
    exchange.send(b"abcd")


def _too_short(exchange: Exchange) -> None:
    exchange.begin(head(200, 3))
    exchange.finish(b"ab")


def _before(exchange: Exchange) -> None:
    try:
        exchange.send(b"ab")
    finally:
        exchange.cut()


def _after(exchange: Exchange) -> None:
    exchange.answer(200, [], b"ab")
    exchange.send(b"c")


@pytest.mark.parametrize("act", [_twice, _too_long, _too_short, _before, _after])
async def test_an_answer_that_would_be_wrong_is_our_fault_and_never_looks_whole(
    act: Callable[[Exchange], None], caplog: pytest.LogCaptureFixture
) -> None:
    raised = []

    def checked(exchange: Exchange) -> None:
        try:
            act(exchange)
        except BookkeepingError as error:
            raised.append(error)
            raise

    got = await served(checked)
    assert len(raised) == 1
    if act is _after:
        assert got.endswith(b"\r\n\r\nab")
    else:
        body = got.partition(b"\r\n\r\n")[2]
        assert body in (b"", b"ab")
    assert "BookkeepingError at exchange.py" in caplog.text
    caplog.clear()


def test_the_answer_type_of_these_tests_reads_what_it_should() -> None:
    got = Answer(200, b"HTTP/1.1 200 OK\r\nA: 1\r\na: 2\r\n\r\n", b"")
    assert got.values("a") == ["1", "2"]
