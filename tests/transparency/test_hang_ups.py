"""Item 6: a client that hangs up frees its slot and stops the engine within half a second, wherever
its request is by then; directly, and through a node. Where the engine computes on, its slot drains.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest

from pair.bench.echo_engine.settings import EchoSettings
from pair.core.names import Outcome
from pair.settings import FixedNode, RelaySettings, RetrySettings, Settings
from tests.proxy.raw_engine import raw_engine
from tests.support.chain import chain
from tests.support.house import FAST, WAIT_S, House, RawClient, chat, house

AT_ONCE_S = 0.5

FREE_S = 1.0
"""The slot after that: when the engine has been asked and has said that it is done."""

GRACE_S = 0.3

SLOW = EchoSettings(prefill_rate_tokens_per_s=1e9, decode_rate_tokens_per_s=20.0)
"""An answer of 200 tokens takes 10 s."""

LONG_PREFILL = replace(SLOW, prefill_rate_tokens_per_s=1.0)
"""A prompt of a few tokens takes many seconds before the first byte."""

GRACE = Settings(retry=RetrySettings(left_grace_s=GRACE_S))
GHOST = "keeps_computing_after_hangup"

both_ways = pytest.mark.parametrize("way", ["directly", "through a node"])
either_end = pytest.mark.parametrize("abrupt", [True, False], ids=["reset", "fin"])
streamed_or_not = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


@dataclass
class Opened:
    """A house, and what the nodes in it hold, if there are any."""

    house: House
    admitted: Callable[[], int]

    @property
    def draining(self) -> int:
        """Slots that drain, by the proxy's books."""
        nodes = self.house.snapshot().nodes
        return sum(replica.draining for node in nodes for replica in node.replicas)

    def free(self) -> bool:
        """Whether no slot is taken anywhere on the way."""
        return self.house.snapshot().in_flight == 0 == self.draining and self.admitted() == 0

    async def begun(self, client: RawClient, *, stream: bool, tokens: int = 200) -> RawClient:
        """A call that has a slot at the engine."""
        journal = self.house.engines[0].journal
        started = journal.counters.started
        client.post(chat(tokens=tokens, stream=stream))
        await journal.until(lambda: journal.counters.started == started + 1, WAIT_S)
        return client

    async def stops_at_once(self, client: RawClient, *, abrupt: bool) -> None:
        """Let the client go: the engine's own journal says so, and every slot is free."""
        journal = self.house.engines[0].journal
        left_at = time.perf_counter()
        (client.reset if abrupt else client.hang_up)()
        await journal.until(lambda: journal.counters.fates["hung_up"] == 1, WAIT_S)
        assert time.perf_counter() - left_at < AT_ONCE_S
        await self.house.until(self.free)
        assert time.perf_counter() - left_at < FREE_S
        assert journal.counters.running == 0
        await self.ends(left=1)

    async def ends(self, *, left: int) -> None:
        """So many clients have left, each ticket is closed once, and nothing is held."""
        await self.house.quiet()
        await self.house.until(self.free)
        assert self.house.snapshot().closed[Outcome.CLIENT_LEFT] == left
        self.house.assert_books_are_clean()


@asynccontextmanager
async def opened(
    way: str, *engines: EchoSettings, settings: Settings | None = None
) -> AsyncIterator[Opened]:
    if way == "directly":
        async with house(*engines, settings=settings) as built:
            yield Opened(built, lambda: 0)
    else:
        async with chain(*engines, settings=settings) as whole:
            yield Opened(whole.house, whole.admitted)


@both_ways
@streamed_or_not
@either_end
async def test_06_before_the_first_byte(way: str, stream: bool, abrupt: bool) -> None:
    async with opened(way, LONG_PREFILL) as built:
        client = await built.begun(await built.house.raw(), stream=stream)
        await built.stops_at_once(client, abrupt=abrupt)


@both_ways
@either_end
async def test_06_in_the_middle_of_a_stream(way: str, abrupt: bool) -> None:
    async with opened(way, SLOW) as built:
        client = await built.begun(await built.house.raw(), stream=True)
        await client.until(b"data:")
        await client.until(b"data:")
        await built.stops_at_once(client, abrupt=abrupt)


@both_ways
@either_end
async def test_06_while_an_answer_is_written_that_is_not_streamed(way: str, abrupt: bool) -> None:
    async with opened(way, SLOW) as built:
        client = await built.begun(await built.house.raw(), stream=False)
        await built.stops_at_once(client, abrupt=abrupt)


@streamed_or_not
@either_end
async def test_06_while_waiting_the_engine_never_hears_of_it(stream: bool, abrupt: bool) -> None:
    async with opened("directly", SLOW) as built:
        first = await built.begun(await built.house.raw(), stream=True)
        second = await built.house.raw()
        second.post(chat(tokens=5, stream=stream))
        await built.house.until(lambda: built.house.snapshot().waiting == 1)
        left_at = time.perf_counter()
        (second.reset if abrupt else second.hang_up)()
        await built.house.until(lambda: built.house.snapshot().waiting == 0)
        assert time.perf_counter() - left_at < AT_ONCE_S
        assert built.house.engines[0].journal.counters.started == 1
        first.hang_up()
        await built.ends(left=2)


@streamed_or_not
@either_end
async def test_06_during_connect(stream: bool, abrupt: bool) -> None:
    async with raw_engine() as engine:
        settings = replace(GRACE, nodes=(FixedNode(engine.url),), relay=RelaySettings())
        async with house(settings=settings) as built:
            await built.ready(1)
            await engine.jam()
            client = await built.raw()
            client.post(chat("raw", stream=stream))
            await built.until(lambda: built.snapshot().in_flight == 1)
            left_at = time.perf_counter()
            (client.reset if abrupt else client.hang_up)()
            # It cannot tell whether it got the call, so its slot drains for the short grace.
            await Opened(built, lambda: 0).ends(left=1)
            assert time.perf_counter() - left_at < AT_ONCE_S + GRACE_S
            assert not engine.has_call


async def test_06_while_uploading_no_ticket_was_ever_opened() -> None:
    async with house(FAST) as built:
        client = await built.raw()
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: t\r\nContent-Length: 1000\r\n\r\n{"
        client.writer.write(head)
        await client.writer.drain()
        reply = await built.send(chat())
        assert reply.status == 200
        client.hang_up()
        await built.quiet()
        assert built.snapshot().opened == 1
        built.assert_books_are_clean()


@both_ways
async def test_06_the_slot_serves_the_next_in_line(way: str) -> None:
    async with opened(way, SLOW) as built:
        first = await built.begun(await built.house.raw(), stream=True)
        journal = built.house.engines[0].journal
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(built.house.send(chat(tokens=2)))
            await built.house.until(lambda: built.house.snapshot().waiting == 1)
            left_at = time.perf_counter()
            first.hang_up()
            await journal.until(lambda: journal.counters.started == 2, WAIT_S)
            assert time.perf_counter() - left_at < FREE_S
        assert waiting.result().status == 200
        await built.ends(left=1)


# --- ghosts -------------------------------------------------------------------------------------


@both_ways
async def test_06_behind_a_ghost_that_counts_nobody_queues(way: str) -> None:
    """llama.cpp computes on and shows it: the next call waits here until its slot is idle."""
    async with opened(way, SLOW) as built:
        engine = built.house.engines[0]
        engine.faults.set(f"{GHOST},first=1")
        client = await built.begun(await built.house.raw(), stream=False, tokens=16)
        async with asyncio.TaskGroup() as tasks:
            client.hang_up()
            await built.house.until(lambda: built.draining == 1)
            waiting = tasks.create_task(built.house.send(chat(tokens=2)))
            await built.house.until(lambda: built.house.snapshot().waiting == 1)
            assert engine.journal.counters.running == 1, "the ghost"
        assert waiting.result().status == 200
        ghost, after = engine.journal.entries
        assert after.arrival_s > ghost.arrival_s + 16 / 20, "it did not queue inside the engine"
        assert (engine.journal.counters.max_running, ghost.fate) == (1, "hung_up")
        await built.ends(left=1)


@both_ways
async def test_06_behind_a_ghost_that_cannot_count_nobody_queues_for_a_grace(way: str) -> None:
    """Ollama reads a prompt to its end, whoever has left."""
    ollama = replace(LONG_PREFILL, persona="ollama", prefill_rate_tokens_per_s=60.0)
    async with opened(way, ollama, settings=GRACE) as built:
        engine = built.house.engines[0]
        engine.faults.set(f"{GHOST},first=1")
        client = await built.begun(await built.house.raw(), stream=True, tokens=1)
        left_at = engine.journal.now_s()
        client.hang_up()
        await built.house.until(lambda: built.draining == 1)
        reply = await built.house.send(chat(tokens=1))
        assert reply.status == 200
        _, after = engine.journal.entries
        assert after.arrival_s - left_at >= GRACE_S
        await built.ends(left=1)


@both_ways
async def test_06_one_that_cannot_count_stops_in_mid_answer_so_nothing_drains(way: str) -> None:
    async with opened(way, replace(SLOW, persona="ollama")) as built:
        client = await built.begun(await built.house.raw(), stream=True)
        await client.until(b"data:")
        await built.stops_at_once(client, abrupt=False)


async def test_06_other_nodes_come_before_a_ghost() -> None:
    async with opened("directly", SLOW, SLOW) as built:
        for engine in built.house.engines:
            engine.faults.set(f"{GHOST},first=1")
        client = await built.house.raw()
        client.post(chat(tokens=16))
        await built.house.until(lambda: built.house.snapshot().in_flight == 1)
        (haunted,) = (
            node.name for node in built.house.snapshot().nodes if node.replicas[0].in_flight == 1
        )
        client.hang_up()
        await built.house.until(lambda: built.draining == 1)
        reply = await built.house.send(chat(tokens=1))
        assert reply.headers["x-pair-node"] != haunted
        await built.ends(left=1)
