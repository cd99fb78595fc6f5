"""Requests on their way up: piece by piece, and not at all once they are refused."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest

from pair.errors import BookkeepingError
from pair.relay.sockets import WRITE_HIGH_BYTES
from pair.relay.upstream_connection import SLICE_BYTES, UpstreamConnection, slices
from pair.relay.upstream_pool import UpstreamPool
from tests.relay.relays import UPSTREAM_LIMITS
from tests.relay.wires import Upstream, Wire, answering, ok, upstream, within

PIECE = bytes(range(256)) * 256  # 64 KiB


@dataclass
class Counter:
    """How many pieces of a body were taken to be sent."""

    taken: int = 0

    def slices(self, body: Sequence[bytes]) -> Iterator[bytes | memoryview]:
        for piece in slices(body):
            self.taken += 1
            yield piece


@pytest.fixture
def counter(monkeypatch: pytest.MonkeyPatch) -> Counter:
    counting = Counter()
    monkeypatch.setattr("pair.relay.upstream_connection.slices", counting.slices)
    return counting


def head(pieces: int) -> bytes:
    """Of a request with that many."""
    length = pieces * len(PIECE)
    return b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % length


async def test_a_large_body_goes_piece_by_piece_as_the_upstream_takes_it(counter: Counter) -> None:
    go_on = asyncio.Event()

    async def script(wire: Wire, told: Upstream) -> None:
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        connected.set()
        await go_on.wait()
        wire.writer.transport.resume_reading()  # type: ignore[attr-defined]
        _, body = await wire.request()
        assert body == PIECE * 400
        await wire.send(ok(b"done"))
        await wire.ended()

    connected = asyncio.Event()
    async with upstream(script) as up, asyncio.TaskGroup() as tasks:
        pool = UpstreamPool(up.address, UPSTREAM_LIMITS)
        asking = tasks.create_task(pool.ask(head(400), [PIECE] * 400))
        await within(connected.wait())
        stalled = -1
        async with asyncio.timeout(5):
            while stalled != counter.taken or not counter.taken:
                stalled = counter.taken
                await asyncio.sleep(0.05)
        assert 0 < counter.taken < 300  # 400 are 25 MiB; the kernel takes some
        go_on.set()
        answer, answer_head = await within(asking)
        assert (answer_head.status, await answer.read_all(9)) == (200, b"done")
        assert counter.taken == 400
        answer.release()
        assert pool.idle == 1
        pool.close()


async def test_an_early_refusal_is_taken_and_the_rest_not_sent(counter: Counter) -> None:
    async def script(wire: Wire, told: Upstream) -> None:
        await wire.until(b"\r\n\r\n")
        await wire.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
        await wire.ended()
        gone.set()

    gone = asyncio.Event()
    async with upstream(script) as up:
        pool = UpstreamPool(up.address, UPSTREAM_LIMITS)
        answer, answer_head = await within(pool.ask(head(4000), [PIECE] * 4000))
        assert (answer_head.status, await answer.read_all(9)) == (413, b"no")
        assert counter.taken < 4000
        answer.release()
        await within(gone.wait())
        assert pool.idle == 0


async def test_an_early_refusal_is_read_though_our_next_write_is_answered_with_a_reset() -> None:
    """The engine has answered and closed before the loop looks again."""
    async with AsyncExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        pool = UpstreamPool(f"127.0.0.1:{listening.getsockname()[1]}", UPSTREAM_LIMITS)
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            lambda: UpstreamConnection(pool), *listening.getsockname()
        )
        engine, _ = listening.accept()
        engine.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
        engine.close()
        answer = connection.ask(head(400), [PIECE] * 400)
        answer_head = await within(answer.wait_for_head())
        assert (answer_head.status, await answer.read_all(9)) == (413, b"no")
        answer.release()


async def test_an_early_beginning_of_an_answer_does_not_stop_the_request() -> None:
    async def script(wire: Wire, told: Upstream) -> None:
        await wire.until(b"\r\n\r\n")
        await wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n")
        rest = await within(wire.reader.readexactly(50 * len(PIECE)))
        assert rest == PIECE * 50
        await wire.send(b"done")

    async with upstream(script) as up:
        pool = UpstreamPool(up.address, UPSTREAM_LIMITS)
        answer, answer_head = await within(pool.ask(head(50), [PIECE] * 50))
        assert (answer_head.status, await within(answer.read_all(9))) == (200, b"done")
        answer.release()


def test_large_pieces_are_cut_and_none_is_copied() -> None:
    large = bytearray(SLICE_BYTES * 2 + 1)
    cut = list(slices([b"a", large]))  # type: ignore[list-item]
    assert list(map(len, cut)) == [1, SLICE_BYTES, SLICE_BYTES, 1]
    assert all(each.obj is large for each in cut[1:] if isinstance(each, memoryview))


async def test_small_bodies_leave_with_their_head() -> None:
    async with upstream(answering(ok(b""))) as up:
        pool = UpstreamPool(up.address, UPSTREAM_LIMITS)
        body = [b"a" * (WRITE_HIGH_BYTES // 2), b"b" * (WRITE_HIGH_BYTES // 2)]
        length = b"%d" % sum(map(len, body))
        await within(
            pool.ask(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: " + length + b"\r\n\r\n", body)
        )
        assert up.requests[0][1] == b"".join(body)
        pool.close()


async def test_a_second_question_before_the_first_is_over_is_our_fault() -> None:
    async def script(wire: Wire, told: Upstream) -> None:
        await wire.ended()

    async with upstream(script) as up:
        pool = UpstreamPool(up.address, UPSTREAM_LIMITS)
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            lambda: UpstreamConnection(pool), "127.0.0.1", up.port
        )
        usable = [connection.usable]
        connection.ask(head(0), [])
        assert [*usable, connection.usable] == [True, False]
        with pytest.raises(BookkeepingError):
            connection.ask(head(0), [])
        connection.abort()
