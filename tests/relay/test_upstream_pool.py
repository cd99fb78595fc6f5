"""Connections to one address: made when needed, kept a while, and the one safe retry."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pair.errors import GarbledAnswer, LostUpstream, UnreachableNode
from pair.relay.exchange import Exchange, plain_answer
from pair.relay.front import Front
from pair.relay.upstream_answer import UpstreamAnswer
from pair.relay.upstream_pool import CLOSING_RACE_S, UpstreamPool
from tests.relay.relays import FRONT_LIMITS, UPSTREAM_LIMITS, upstream_limits
from tests.relay.wires import Upstream, Wire, answering, eventually, ok, upstream, within

HEAD = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


async def ask(pool: UpstreamPool, *, fresh: bool = False) -> UpstreamAnswer:
    """One question, its answer read and not yet released."""
    answer, head = await within(pool.ask(HEAD, [], fresh=fresh))
    assert head.status == 200
    await within(answer.read_all(100))
    return answer


async def test_nothing_is_connected_before_it_is_needed_and_then_reused() -> None:
    async with upstream(answering(ok(b"1"), ok(b"2"), ok(b"3"))) as up:
        pool = UpstreamPool(up.address, UPSTREAM_LIMITS)
        assert (up.connections, pool.idle, pool.last_byte_at) == (0, 0, None)
        before = asyncio.get_running_loop().time()
        for _ in range(3):
            (await ask(pool)).release()
            assert pool.idle == 1
        assert up.connections == 1
        assert pool.last_byte_at is not None
        assert pool.last_byte_at >= before - 0.01
        pool.close()


async def test_a_fresh_connection_is_had_on_demand() -> None:
    async with upstream(answering(ok(b"1"), ok(b"2"))) as up:
        pool = UpstreamPool(up.address, UPSTREAM_LIMITS)
        (await ask(pool)).release()
        (await ask(pool, fresh=True)).release()
        assert (up.connections, pool.idle) == (2, 2)
        pool.close()


async def test_the_freshest_is_used_first_and_only_so_many_are_kept() -> None:
    async def script(wire: Wire, told: Upstream) -> None:
        number = told.connections
        while True:
            await wire.request()
            await wire.send(ok(b"%d" % number))

    async with upstream(script) as up:
        pool = UpstreamPool(up.address, upstream_limits(idle_upstream_limit=2))
        answers = [await ask(pool) for _ in range(3)]
        for answer in answers:
            answer.release()
        assert pool.idle == 2
        assert await (await ask(pool)).read_all(9) == b"2"
        pool.close()


async def test_an_idle_connection_is_dropped_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pair.relay.sweep.INTERVAL_S", 0.01)
    gone = asyncio.Event()

    async def script(wire: Wire, told: Upstream) -> None:
        await wire.request()
        await wire.send(ok(b"x"))
        await wire.ended()
        gone.set()

    async with upstream(script) as up:
        pool = UpstreamPool(up.address, upstream_limits(idle_upstream_s=0.02))
        (await ask(pool)).release()
        await within(gone.wait())
        assert pool.idle == 0


async def test_an_idle_connection_that_is_too_old_is_not_used_though_the_sweep_has_not_come() -> (
    None
):
    async with upstream(answering(ok(b"1"), ok(b"2"))) as up:
        pool = UpstreamPool(up.address, upstream_limits(idle_upstream_s=-1.0))
        (await ask(pool)).release()
        (await ask(pool)).release()
        assert up.connections == 2
        pool.close()


async def test_an_idle_connection_that_is_closed_over_there_goes_at_once() -> None:
    hang_up, gone = asyncio.Event(), asyncio.Event()

    async def script(wire: Wire, told: Upstream) -> None:
        await wire.request()
        await wire.send(ok(b"x"))
        await hang_up.wait()
        await wire.close()
        gone.set()

    async with upstream(script) as up:
        pool = UpstreamPool(up.address, UPSTREAM_LIMITS)
        (await ask(pool)).release()
        assert pool.idle == 1
        hang_up.set()
        await within(gone.wait())
        await eventually(lambda: pool.idle == 0)


async def test_unasked_bytes_end_an_idle_connection() -> None:
    async def script(wire: Wire, told: Upstream) -> None:
        await wire.request()
        await wire.send(ok(b"x"))
        await idle.wait()
        await wire.send(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
        await wire.ended()
        gone.set()

    idle, gone = asyncio.Event(), asyncio.Event()
    async with upstream(script) as up:
        pool = UpstreamPool(up.address, UPSTREAM_LIMITS)
        (await ask(pool)).release()
        idle.set()
        await within(gone.wait())
        assert pool.idle == 0


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_a_reused_connection_that_dies_unanswered_is_retried_once(how: str) -> None:
    """The engine closes it while the request is on its way."""

    async def script(wire: Wire, told: Upstream) -> None:
        told.requests.append(await wire.request())
        if told.connections == 1:
            await wire.send(ok(b"first"))
            told.requests.append(await wire.request())
            if how == "reset":
                wire.reset()
        else:
            await wire.send(ok(b"again"))

    async with upstream(script) as up:
        pool = UpstreamPool(up.address, UPSTREAM_LIMITS)
        (await ask(pool)).release()
        answer = await ask(pool)
        assert await answer.read_all(9) == b"again"
        assert (up.connections, len(up.requests)) == (2, 3)
        answer.abort()


async def test_the_retry_is_the_only_one() -> None:
    async def script(wire: Wire, told: Upstream) -> None:
        told.requests.append(await wire.request())
        if told.connections == 1:
            await wire.send(ok(b"first"))
            told.requests.append(await wire.request())

    async with upstream(script) as up:
        pool = UpstreamPool(up.address, UPSTREAM_LIMITS)
        (await ask(pool)).release()
        with pytest.raises(LostUpstream) as caught:
            await within(pool.ask(HEAD, []))
        assert (caught.value.reused, caught.value.answered) == (False, False)
        assert (up.connections, len(up.requests)) == (2, 3)


async def test_a_reused_connection_that_dies_after_a_byte_is_not_retried() -> None:
    async def script(wire: Wire, told: Upstream) -> None:
        await wire.request()
        await wire.send(ok(b"first"))
        await wire.request()
        await wire.send(b"H")

    async with upstream(script) as up:
        pool = UpstreamPool(up.address, UPSTREAM_LIMITS)
        (await ask(pool)).release()
        with pytest.raises(LostUpstream) as caught:
            await within(pool.ask(HEAD, []))
        assert (caught.value.reused, caught.value.answered) == (True, True)
        assert up.connections == 1


async def test_a_reused_connection_that_dies_late_is_not_retried() -> None:
    """By then the engine may have worked on it: asking again would start a second generation."""

    async def script(wire: Wire, told: Upstream) -> None:
        told.requests.append(await wire.request())
        await wire.send(ok(b"first"))
        told.requests.append(await wire.request())
        await late.wait()

    late = asyncio.Event()
    async with upstream(script) as up:
        pool = UpstreamPool(up.address, UPSTREAM_LIMITS)
        (await ask(pool)).release()
        asyncio.get_running_loop().call_later(CLOSING_RACE_S + 0.05, late.set)
        with pytest.raises(LostUpstream) as caught:
            await within(pool.ask(HEAD, []))
        assert (caught.value.reused, caught.value.answered) == (True, False)
        assert len(up.requests) == 2


async def test_a_fresh_connection_that_dies_unanswered_is_not_retried() -> None:
    async def script(wire: Wire, told: Upstream) -> None:
        told.requests.append(await wire.request())

    async with upstream(script) as up:
        pool = UpstreamPool(up.address, UPSTREAM_LIMITS)
        with pytest.raises(LostUpstream):
            await within(pool.ask(HEAD, []))
        assert len(up.requests) == 1


async def test_a_node_that_restarted_and_is_gone_is_unreachable() -> None:
    async with upstream(answering(ok(b"1"))) as up:
        pool = UpstreamPool(up.address, UPSTREAM_LIMITS)
        (await ask(pool)).release()
    with pytest.raises(UnreachableNode, match=f"^{up.address} refused the connection"):
        await within(pool.ask(HEAD, []))


async def test_garbage_is_told_and_its_connection_closed() -> None:
    gone = asyncio.Event()

    async def script(wire: Wire, told: Upstream) -> None:
        await wire.request()
        await wire.send(b"SSH-2.0-OpenSSH_9\r\n")
        await wire.ended()
        gone.set()

    async with upstream(script) as up:
        pool = UpstreamPool(up.address, UPSTREAM_LIMITS)
        with pytest.raises(GarbledAnswer, match=f"^{up.address} answered with what is not HTTP"):
            await within(pool.ask(HEAD, []))
        await within(gone.wait())


async def test_cancelling_a_question_closes_its_connection() -> None:
    asked, gone = asyncio.Event(), asyncio.Event()

    async def script(wire: Wire, told: Upstream) -> None:
        await wire.request()
        asked.set()
        await wire.ended()
        gone.set()

    async with upstream(script) as up, asyncio.TaskGroup() as tasks:
        pool = UpstreamPool(up.address, UPSTREAM_LIMITS)
        asking = tasks.create_task(pool.ask(HEAD, []))
        await within(asked.wait())
        asking.cancel()
        await within(gone.wait(), 0.5)


@pytest.mark.parametrize("answered", [True, False])
async def test_an_answer_that_is_released_early_stops_the_engine(answered: bool) -> None:
    gone = asyncio.Event()

    async def script(wire: Wire, told: Upstream) -> None:
        await wire.request()
        await wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" + b"hi" * answered)
        await wire.ended()
        gone.set()

    async with upstream(script) as up:
        pool = UpstreamPool(up.address, UPSTREAM_LIMITS)
        answer, _ = await within(pool.ask(HEAD, []))
        answer.release()
        await within(gone.wait(), 0.5)
        assert pool.idle == 0


async def test_a_closed_pool_keeps_nothing() -> None:
    async with upstream(answering(ok(b"1"))) as up:
        pool = UpstreamPool(up.address, UPSTREAM_LIMITS)
        first = await ask(pool)
        (await ask(pool)).release()
        pool.close()
        first.release()
        await eventually(lambda: pool.idle == 0)


async def test_proxies_in_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with upstream(answering(ok(b"1"))) as up:
        (await ask(UpstreamPool(up.address, UPSTREAM_LIMITS))).abort()
        assert up.connections == 1


async def test_a_unix_socket_is_an_upstream_too(tmp_path: Path) -> None:
    path = str(tmp_path / "s")

    async def serve(exchange: Exchange) -> None:
        plain_answer(exchange, 200, (exchange.head.first(b"host") or b"").decode())

    async with Front(serve, FRONT_LIMITS) as front:
        await front.open(path)
        pool = UpstreamPool(path, UPSTREAM_LIMITS)
        assert pool.authority == b"localhost"
        answer, _ = await within(pool.ask(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", []))
        assert await answer.read_all(99) == b"localhost\n"
        answer.release()
        pool.close()
    with pytest.raises(UnreachableNode, match=rf"^{path} refused the connection|{path} does not"):
        await within(UpstreamPool(path, UPSTREAM_LIMITS).ask(HEAD, []))
