"""Bodies on their way into memory: wanted, bounded, told apart from too large ones before they are
read.
"""

from __future__ import annotations

import asyncio

import pytest

from pair.errors import RequestFault
from pair.relay.body_budget import BodyBudget
from pair.relay.exchange import Exchange, plain_answer
from pair.relay.front import Front
from pair.relay.request_body import READ_AHEAD_BYTES, RequestBody
from tests.relay.relays import FRONT_LIMITS, front_limits
from tests.relay.wires import chunked, client, within


def post(length: int | None) -> bytes:
    """The head of a request with a body of this length, None for chunks."""
    framing = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    return f"POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n".encode()


async def test_nothing_is_wanted_before_somebody_reads() -> None:
    wanted = asyncio.Event()
    body = RequestBody(READ_AHEAD_BYTES * 3, BodyBudget(1 << 20), wanted.set)
    body.receive([bytes(READ_AHEAD_BYTES)], whole=False)
    full = [body.full]
    body.receive([bytes(READ_AHEAD_BYTES)], whole=False)
    assert [*full, body.full, wanted.is_set()] == [False, True, False]
    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(body.read(1 << 20))
        await within(wanted.wait())
        assert body.being_read
        body.receive([bytes(READ_AHEAD_BYTES)], whole=True)
    assert list(map(len, reading.result())) == [READ_AHEAD_BYTES * 3]


async def test_a_large_body_is_in_one_piece_and_its_memory_goes_when_nobody_needs_it() -> None:
    budget = BodyBudget(1 << 20)
    body = RequestBody(READ_AHEAD_BYTES + 3, budget, lambda: None)
    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(body.read(1 << 20))
        await asyncio.sleep(0)
        body.receive([b"a" * READ_AHEAD_BYTES], whole=False)
        body.receive([b"b", b"cd"], whole=True)
    pieces = reading.result()
    assert pieces == [b"a" * READ_AHEAD_BYTES + b"bcd"]
    assert budget.free_bytes < 1 << 20
    body.let_go()
    assert (pieces, budget.free_bytes) == ([], 1 << 20)


async def test_room_that_is_held_but_not_filled_is_in_the_way_of_who_waits() -> None:
    budget = BodyBudget(READ_AHEAD_BYTES * 3)
    body = RequestBody(READ_AHEAD_BYTES * 2, budget, lambda: None)
    later = asyncio.get_running_loop().time() + 100
    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(body.read(1 << 20))
        await asyncio.sleep(0)
        assert body.in_the_way_s(later) == 0
        waiting = tasks.create_task(budget.reserve(READ_AHEAD_BYTES * 2))
        await asyncio.sleep(0)
        assert 99 < body.in_the_way_s(later) < 101
        waiting.cancel()
        await asyncio.sleep(0)
        assert body.in_the_way_s(later) == 0
        reading.cancel()


async def test_small_pieces_are_not_joined_save_the_crumbs_of_one_read() -> None:
    body = RequestBody(None, BodyBudget(100), lambda: None)
    body.receive([b"a", b"b", b"c"], whole=False)
    body.receive([b"de"], whole=False)
    body.receive([], whole=True)
    assert await body.read(5) == [b"abc", b"de"]


async def test_the_budget_is_charged_until_the_exchange_is_over() -> None:
    budget = BodyBudget(READ_AHEAD_BYTES * 4)
    length = READ_AHEAD_BYTES * 2
    body = RequestBody(length, budget, lambda: None)
    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(body.read(1 << 20))
        await asyncio.sleep(0)
        body.receive([bytes(length)], whole=True)
    assert len(reading.result()) == 1
    assert budget.free_bytes == READ_AHEAD_BYTES * 2
    body.close()
    assert budget.free_bytes == READ_AHEAD_BYTES * 4


async def test_a_chunked_body_reserves_what_it_may_become_and_keeps_what_it_is() -> None:
    budget = BodyBudget(1 << 20)
    body = RequestBody(None, budget, lambda: None)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(body.read(1 << 19))
        await asyncio.sleep(0)
        body.receive([bytes(READ_AHEAD_BYTES + 1)], whole=False)
        await asyncio.sleep(0)
        assert budget.free_bytes == (1 << 20) - (1 << 19)
        body.receive([bytes(10)], whole=True)
    assert budget.free_bytes == (1 << 20) - READ_AHEAD_BYTES - 11


async def serve_length(exchange: Exchange) -> None:
    """Answer with how much there was."""
    try:
        body = await exchange.read_body(300_000)
        plain_answer(exchange, 200, str(sum(map(len, body))))
    except RequestFault as fault:
        plain_answer(exchange, fault.status, fault.code)


@pytest.mark.parametrize(
    ("head", "raw", "answer"),
    [
        (post(300_000), bytes(300_000), b"300000\n"),
        (post(None), chunked(bytes(200_000), bytes(100_000)), b"300000\n"),
        (post(None), chunked(*[b"x"] * 1000), b"1000\n"),
        (post(300_001), b"", b"body_too_large\n"),
        (post(None), chunked(bytes(200_000), bytes(100_001)), b"body_too_large\n"),
    ],
)
async def test_the_limit_is_the_limit(head: bytes, raw: bytes, answer: bytes) -> None:
    async with (
        Front(serve_length, FRONT_LIMITS) as front,
        client(await front.open("127.0.0.1:0")) as wire,
    ):
        await wire.send(head + raw)
        assert (await wire.answer()).body == answer


async def test_beyond_the_budget_the_next_upload_waits_and_is_not_refused() -> None:
    go_on = asyncio.Event()
    read: asyncio.Queue[int] = asyncio.Queue()

    async def serve(exchange: Exchange) -> None:
        read.put_nowait(sum(map(len, await exchange.read_body(1 << 20))))
        await go_on.wait()
        plain_answer(exchange, 200, "ok")

    async with Front(serve, front_limits(buffered_limit_bytes=300_000)) as front:
        address = await front.open("127.0.0.1:0")
        async with client(address) as first, client(address) as second, client(address) as small:
            await first.send(post(200_000) + bytes(200_000))
            assert await within(read.get()) == 200_000
            second.writer.write(post(200_001) + bytes(200_001))
            await small.send(post(1000) + bytes(1000))
            assert await within(read.get()) == 1000
            assert read.empty()
            go_on.set()
            assert await within(read.get()) == 200_001
            for wire in (first, second, small):
                assert (await wire.answer()).status == 200


async def test_a_hang_up_while_an_upload_waits_shows_when_its_turn_comes() -> None:
    go_on = asyncio.Event()
    started = asyncio.Semaphore(0)
    fates: asyncio.Queue[bool] = asyncio.Queue()

    async def serve(exchange: Exchange) -> None:
        try:
            started.release()
            await exchange.read_body(1 << 20)
            await go_on.wait()
            plain_answer(exchange, 200, "ok")
        finally:
            fates.put_nowait(exchange.client_left)

    async with Front(serve, front_limits(buffered_limit_bytes=300_000)) as front:
        address = await front.open("127.0.0.1:0")
        async with client(address) as first, client(address) as second:
            await first.send(post(200_000) + bytes(200_000))
            await within(started.acquire())
            await second.send(post(200_000) + bytes(100_000))
            await within(started.acquire())
            second.reset()
            go_on.set()
            assert sorted([await within(fates.get()), await within(fates.get())]) == [False, True]
            assert (await first.answer()).status == 200
