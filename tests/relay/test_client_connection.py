"""A client's connection from outside: request after request, hang-ups, limits, memory."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Awaitable, Callable

import pytest

from pair.errors import RequestFault
from pair.relay.client_connection import HELD_BYTES
from pair.relay.exchange import Exchange, plain_answer
from pair.relay.front import Front
from tests.relay.relays import FRONT_LIMITS, front_limits, relay
from tests.relay.wires import (
    Upstream,
    Wire,
    answering,
    chunked,
    client,
    eventually,
    ok,
    upstream,
    within,
)

GET = b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n"
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
HANG_UP_BOUND_S = 0.5


async def echo(exchange: Exchange) -> None:
    """Answers with the target and the body."""
    body = b"".join(await exchange.read_body(1 << 20))
    exchange.answer(200, [(b"X-Kind", b"echo")], exchange.head.target + b" " + body)


@pytest.fixture
def _fast_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pair.relay.sweep.INTERVAL_S", 0.01)


# --- requests one after another ------------------------------------------------------------------


async def test_one_connection_serves_many_requests() -> None:
    async with Front(echo, FRONT_LIMITS) as front, client(await front.open("127.0.0.1:0")) as wire:
        for number in range(3):
            await wire.send(GET % number)
            assert (await wire.answer()).body == b"/%d " % number
        assert front.connections == 1


async def test_pipelined_requests_are_answered_in_order() -> None:
    post = b"POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(
        b"ab", b"c"
    )
    async with Front(echo, FRONT_LIMITS) as front, client(await front.open("127.0.0.1:0")) as wire:
        await wire.send(b"".join(GET % number + post for number in range(50)))
        for number in range(50):
            assert (await wire.answer()).body == b"/%d " % number
            assert (await wire.answer()).body == b"/p abc"


async def test_pipelined_requests_wait_while_an_earlier_one_is_answered() -> None:
    seen: list[bytes] = []
    go_on = asyncio.Event()

    async def serve(exchange: Exchange) -> None:
        seen.append(exchange.head.target)
        await go_on.wait()
        plain_answer(exchange, 200, exchange.head.target.decode())

    async with Front(serve, FRONT_LIMITS) as front, client(await front.open("127.0.0.1:0")) as wire:
        await wire.send(GET % 1)
        await wire.send(GET % 2 + GET % 3)
        async with client(await front.open("127.0.0.1:0")) as other:
            await other.send(GET % 4)  # once this is seen, the others would have been as well
            await eventually(lambda: b"/4" in seen)
        assert seen == [b"/1", b"/4"]
        go_on.set()
        for number in (1, 2, 3):
            assert (await wire.answer()).body == b"/%d\n" % number


async def test_what_is_pipelined_beyond_a_bound_is_thrown_away_and_the_connection_ends() -> None:
    go_on = asyncio.Event()
    served = 0

    async def serve(exchange: Exchange) -> None:
        nonlocal served
        served += 1
        await go_on.wait()
        plain_answer(exchange, 200, "x")

    async with Front(serve, FRONT_LIMITS) as front, client(await front.open("127.0.0.1:0")) as wire:
        # More than the kernel holds: when it has left, most of it has been read over there.
        await wire.send(GET % 1 * ((1 << 25) // len(GET)))
        go_on.set()
        assert (await wire.answer()).status == 200
        assert await wire.rest() == b""
        assert served == 1


async def test_a_hang_up_is_seen_behind_any_amount_of_pipelined_requests() -> None:
    async with upstream(answering()) as up, relay(up.address) as bare, client(bare.address) as wire:
        await wire.send(GET % 1 * (4 * HELD_BYTES // len(GET)))
        await within(bare.started.get())
        await wire.close()
        assert await bare.fate(HANG_UP_BOUND_S) == "client left"
    assert bare.started.empty()


@pytest.mark.parametrize(
    ("request_bytes", "connection"),
    [
        (b"GET / HTTP/1.0\r\n\r\n", ["close"]),
        (b"GET / HTTP/1.0\r\nConnection: close\r\n\r\n", ["close"]),
        (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", ["close"]),
        (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET / HTTP/1.1\r\n", ["close"]),
    ],
)
async def test_a_connection_that_is_not_kept_is_closed_after_the_answer(
    request_bytes: bytes, connection: list[str]
) -> None:
    async with Front(echo, FRONT_LIMITS) as front, client(await front.open("127.0.0.1:0")) as wire:
        await wire.send(request_bytes)
        got = await wire.answer()
        assert (got.body, got.values("connection")) == (b"/ ", connection)
        assert await wire.rest() == b""


async def test_a_1_0_client_that_keeps_its_connection_is_told_so() -> None:
    async with Front(echo, FRONT_LIMITS) as front, client(await front.open("127.0.0.1:0")) as wire:
        for _ in range(2):
            await wire.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            got = await wire.answer()
            assert (got.body, got.values("connection")) == (b"/ ", ["keep-alive"])


# --- bodies --------------------------------------------------------------------------------------


async def test_100_continue_is_sent_when_somebody_reads_the_body() -> None:
    async with Front(echo, FRONT_LIMITS) as front, client(await front.open("127.0.0.1:0")) as wire:
        await wire.send(
            b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"
        )
        assert await wire.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await wire.send(b"abc")
        assert (await wire.answer()).body == b"/ abc"
        await wire.send(GET % 1)
        assert (await wire.answer()).body == b"/1 "


async def test_a_refusal_instead_of_100_continue_ends_the_connection() -> None:
    async def serve(exchange: Exchange) -> None:
        plain_answer(exchange, 503, "full")

    async with Front(serve, FRONT_LIMITS) as front, client(await front.open("127.0.0.1:0")) as wire:
        await wire.send(
            b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"
        )
        got = await wire.answer()
        assert (got.status, got.values("connection")) == (503, ["close"])
        assert await wire.rest() == b""


async def test_a_refusal_reaches_a_client_that_is_still_uploading() -> None:
    """Closing at once would reset the connection, and the answer with it."""

    async def serve(exchange: Exchange) -> None:
        plain_answer(exchange, 413, "no")

    async with Front(serve, FRONT_LIMITS) as front, client(await front.open("127.0.0.1:0")) as wire:
        wire.writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9000000\r\n\r\n")
        for _ in range(30):
            await wire.send(bytes(100_000))
        got = await wire.answer()
        assert (got.status, got.body, got.values("connection")) == (413, b"no\n", ["close"])


async def test_a_short_unread_body_does_not_cost_the_connection() -> None:
    async def serve(exchange: Exchange) -> None:
        plain_answer(exchange, 404, exchange.head.target.decode())

    async with Front(serve, FRONT_LIMITS) as front, client(await front.open("127.0.0.1:0")) as wire:
        await wire.send(b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n")
        assert (await wire.answer()).body == b"/a\n"
        await wire.send(b"0123456789" + GET % 2)
        assert (await wire.answer()).body == b"/2\n"


async def test_a_chunked_body_that_is_none_is_refused() -> None:
    seen: asyncio.Queue[int] = asyncio.Queue()

    async def serve(exchange: Exchange) -> None:
        try:
            await exchange.read_body(1000)
        except RequestFault as fault:
            seen.put_nowait(fault.status)
            plain_answer(exchange, 400, str(fault))

    async with Front(serve, FRONT_LIMITS) as front, client(await front.open("127.0.0.1:0")) as wire:
        await wire.send(
            b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
        )
        await wire.send(b"nonsense\r\n\r\n")
        got = await wire.answer()
        assert (got.status, got.values("connection")) == (400, ["close"])
        assert await within(seen.get()) == 400


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 70_000, 400),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
    ],
)
async def test_bad_requests_are_refused_in_words_and_closed(
    request_bytes: bytes, status: int
) -> None:
    async with Front(echo, FRONT_LIMITS) as front, client(await front.open("127.0.0.1:0")) as wire:
        await wire.send(GET % 1 + request_bytes)
        assert (await wire.answer()).body == b"/1 "
        got = await wire.answer()
        assert (got.status, got.values("connection")) == (status, ["close"])
        assert got.body.endswith(b".\n")
        assert await wire.rest() == b""


# --- hang-ups ------------------------------------------------------------------------------------


async def _hang_up_orderly(wire: Wire) -> None:
    wire.writer.close()


async def _hang_up_half(wire: Wire) -> None:
    wire.writer.write_eof()


async def _hang_up_by_reset(wire: Wire) -> None:
    wire.reset()


hang_ups = pytest.mark.parametrize(
    "hang_up", [_hang_up_orderly, _hang_up_half, _hang_up_by_reset], ids=["close", "half", "reset"]
)
HangUp = Callable[[Wire], Awaitable[None]]


@hang_ups
async def test_a_hang_up_while_the_handler_waits(hang_up: HangUp) -> None:
    fates: asyncio.Queue[bool] = asyncio.Queue()
    started = asyncio.Event()

    async def serve(exchange: Exchange) -> None:
        try:
            started.set()
            await asyncio.Event().wait()
        finally:
            fates.put_nowait(exchange.client_left)

    async with Front(serve, FRONT_LIMITS) as front, client(await front.open("127.0.0.1:0")) as wire:
        await wire.send(GET % 1)
        await within(started.wait())
        await hang_up(wire)
        assert await within(fates.get(), HANG_UP_BOUND_S) is True


@pytest.mark.usefixtures("_fast_sweep")
@hang_ups
async def test_a_hang_up_is_seen_while_an_upload_waits_for_room(hang_up: HangUp) -> None:
    """Nothing is read from such a client, so nothing comes of its end by itself."""
    tasks: list[asyncio.Task[None] | None] = []

    async def serve(exchange: Exchange) -> None:
        tasks.append(asyncio.current_task())
        await exchange.read_body(1 << 30)

    post = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\n\r\n"
    limits = front_limits(buffered_limit_bytes=1 << 20)
    async with Front(serve, limits) as front:
        address = await front.open("127.0.0.1:0")
        async with client(address) as first, client(address) as second:
            await first.send(post)
            await eventually(lambda: front.buffered_bytes == 900000)
            await second.send(post + b"x" * 100_000)
            await eventually(lambda: len(tasks) == 2)
            await hang_up(second)
            await eventually(lambda: front.connections == 1)
            assert front.buffered_bytes == 900000


@hang_ups
async def test_a_hang_up_in_the_middle_of_an_upload(hang_up: HangUp) -> None:
    async with upstream(answering()) as up, relay(up.address) as bare, client(bare.address) as wire:
        await wire.send(
            b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\n" + bytes(1000)
        )
        await within(bare.started.get())
        await hang_up(wire)
        assert await bare.fate(HANG_UP_BOUND_S) == "client left"


@hang_ups
async def test_a_hang_up_before_the_first_byte_closes_the_engines_connection(
    hang_up: HangUp,
) -> None:
    asked, gone = asyncio.Event(), asyncio.Event()

    async def script(wire: Wire, told: Upstream) -> None:
        await wire.request()
        asked.set()
        await wire.ended()
        gone.set()

    async with upstream(script) as up, relay(up.address) as bare, client(bare.address) as wire:
        await wire.send(GET % 1)
        await within(asked.wait())
        await hang_up(wire)
        await within(gone.wait(), HANG_UP_BOUND_S)
        assert await bare.fate(HANG_UP_BOUND_S) == "client left"


@hang_ups
@pytest.mark.parametrize("streamed", [True, False])
async def test_a_hang_up_in_the_middle_of_an_answer_closes_the_engines_connection(
    hang_up: HangUp, streamed: bool
) -> None:
    gone = asyncio.Event()
    head = STREAM + b"9\r\ndata: a\n\n\r\n" if streamed else ok(b"")[:-5] + b"9\r\n\r\ndata: a"

    async def script(wire: Wire, told: Upstream) -> None:
        await wire.request()
        await wire.send(head)
        await wire.ended()
        gone.set()

    async with upstream(script) as up, relay(up.address) as bare, client(bare.address) as wire:
        await wire.send(GET % 1)
        await wire.until(b"data: a")
        await hang_up(wire)
        await within(gone.wait(), HANG_UP_BOUND_S)
        assert await bare.fate(HANG_UP_BOUND_S) == "client left"


async def test_a_hang_up_is_seen_though_requests_are_pipelined_behind() -> None:
    async with upstream(answering()) as up, relay(up.address) as bare, client(bare.address) as wire:
        await wire.send(b"".join(GET % number for number in range(20)))
        await within(bare.started.get())
        wire.reset()
        assert await bare.fate(HANG_UP_BOUND_S) == "client left"
    assert bare.started.empty()


async def test_a_hang_up_after_the_answer_is_nobodys_business() -> None:
    ended: asyncio.Queue[bool] = asyncio.Queue()
    go_on = asyncio.Event()

    async def serve(exchange: Exchange) -> None:
        plain_answer(exchange, 200, "all of it")
        await go_on.wait()
        ended.put_nowait(exchange.client_left)

    async with Front(serve, FRONT_LIMITS) as front, client(await front.open("127.0.0.1:0")) as wire:
        await wire.send(GET % 1)
        await wire.answer()
        wire.reset()
        await eventually(lambda: front.connections == 0)
        go_on.set()
        assert await within(ended.get()) is False


# --- limits --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("_fast_sweep")
async def test_a_slow_head_is_refused() -> None:
    limits = front_limits(head_limit_s=0.05)
    async with Front(echo, limits) as front, client(await front.open("127.0.0.1:0")) as wire:
        await wire.send(b"GET / HTTP/1.1\r\nHo")
        assert (await wire.answer()).status == 408
        assert await wire.rest() == b""


@pytest.mark.usefixtures("_fast_sweep")
async def test_idle_connections_are_closed() -> None:
    limits = front_limits(idle_client_s=0.05)
    async with Front(echo, limits) as front, client(await front.open("127.0.0.1:0")) as wire:
        await wire.send(GET % 1)
        await wire.answer()
        assert await wire.rest() == b""


@pytest.mark.usefixtures("_fast_sweep")
async def test_an_idle_connection_with_an_empty_line_on_it_is_still_idle() -> None:
    limits = front_limits(idle_client_s=0.2, head_limit_s=0.01)
    async with Front(echo, limits) as front, client(await front.open("127.0.0.1:0")) as wire:
        await wire.send(GET % 1 + b"\r\n")
        await wire.answer()
        await wire.send(b"\r\n")
        assert await wire.rest() == b""


async def test_a_connection_with_an_empty_line_on_it_does_not_hold_up_the_end() -> None:
    async with Front(echo, FRONT_LIMITS) as front, client(await front.open("127.0.0.1:0")) as wire:
        await wire.send(GET % 1 + b"\r\n" + GET % 2 + b"\r\n")
        for number in (1, 2):
            assert (await wire.answer()).body == b"/%d " % number
        await within(front.drain(3600))
        assert await wire.rest() == b""


@pytest.mark.usefixtures("_fast_sweep")
async def test_an_upload_that_stops_is_refused() -> None:
    limits = front_limits(idle_client_s=0.05)
    async with (
        upstream(answering()) as up,
        relay(up.address, limits) as bare,
        client(bare.address) as wire,
    ):
        await wire.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc")
        got = await wire.answer()
        assert (got.status, got.values("connection")) == (408, ["close"])


@pytest.mark.usefixtures("_fast_sweep")
async def test_a_long_silence_of_the_engine_is_not_the_clients() -> None:
    limits = front_limits(idle_client_s=0.05, head_limit_s=0.05, write_limit_s=0.05)
    swept = asyncio.Event()

    async def serve(exchange: Exchange) -> None:
        await swept.wait()
        plain_answer(exchange, 200, "late")

    async with Front(serve, limits) as front, client(await front.open("127.0.0.1:0")) as wire:
        await wire.send(GET % 1)
        asyncio.get_running_loop().call_later(0.3, swept.set)
        assert (await wire.answer()).body == b"late\n"


@pytest.mark.usefixtures("_fast_sweep")
async def test_a_client_that_never_reads_is_cut_and_the_engine_stopped() -> None:
    gone = asyncio.Event()

    async def script(wire: Wire, told: Upstream) -> None:
        await wire.request()
        await wire.send(STREAM)
        try:
            while True:
                wire.writer.write(b"10000\r\n" + bytes(65536) + b"\r\n")
                await wire.writer.drain()
        except ConnectionError:
            gone.set()

    limits = front_limits(write_limit_s=0.2)
    async with (
        upstream(script) as up,
        relay(up.address, limits) as bare,
        client(bare.address) as wire,
    ):
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await wire.send(GET % 1)
        await within(gone.wait())
        assert await bare.fate() == "client left"


@pytest.mark.parametrize("chunk_bytes", [100, 70_000, 4_000_000])
async def test_a_client_that_reads_slowly_holds_little_memory(chunk_bytes: int) -> None:
    """Only the engine's side is paused; what the kernel holds is not counted."""
    sent_bytes = 0

    async def script(wire: Wire, told: Upstream) -> None:
        nonlocal sent_bytes
        await wire.request()
        await wire.send(STREAM)
        chunk = b"%x\r\n%b\r\n" % (chunk_bytes, bytes(chunk_bytes))
        sent = chunk * max(1, 65536 // chunk_bytes)
        while sent_bytes < 64_000_000:
            wire.writer.write(sent)
            sent_bytes += len(sent)
            await wire.writer.drain()

    async with upstream(script) as up, relay(up.address) as bare, client(bare.address) as wire:
        await wire.send(GET % 1)
        await wire.until(b"\r\n\r\n")
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        tracemalloc.start()
        try:
            stalled = -1
            async with asyncio.timeout(10):
                while stalled != sent_bytes or not sent_bytes:
                    stalled = sent_bytes
                    await asyncio.sleep(0.1)
            held_bytes = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        assert sent_bytes < 64_000_000
        # The script holds what it last sent, at most once in a buffer and once in its hands.
        assert held_bytes - 2 * chunk_bytes < 1 << 20
        wire.reset()
        assert await bare.fate(HANG_UP_BOUND_S) == "client left"


async def test_beyond_the_most_connections_a_client_is_told() -> None:
    async with Front(echo, front_limits(connections_limit=1)) as front:
        address = await front.open("127.0.0.1:0")
        async with client(address) as first:
            await first.send(GET % 1)
            await first.answer()
            async with client(address) as second:
                await second.send(GET % 2)
                assert (await second.answer()).status == 503
                assert await second.rest() == b""
            await first.send(GET % 3)
            assert (await first.answer()).body == b"/3 "
