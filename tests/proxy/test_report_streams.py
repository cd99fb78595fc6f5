"""Nodes that push: two proxies on one node, what they lose to each other, and streams that end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import pairwise

import pytest

from pair.agent.service import Node
from pair.bench.echo_engine.engine import EchoEngine
from pair.bench.echo_engine.settings import EchoSettings
from pair.core.decisions import Decision
from pair.core.events import AttemptFailed, Event, FailureKind, NodeReported
from pair.core.names import EngineName, ModelName, NodeId, Phase, TicketId
from pair.core.reports import NodeReport, ReplicaReport
from pair.core.scheduler import Scheduler
from pair.proxy.report_streams import APART_S
from pair.settings import FixedNode, NamedEngine, NodeSettings, ProbingSettings, Settings
from pair.wire.node_report import REPORT_PATH, REPORTS_PATH, encode_report
from tests.proxy.test_prober import QUICK, known
from tests.support.house import FAST, WAIT_S, House, chat, house

CALL_S = 0.06
CALLS = 40
SELDOM = ProbingSettings(interval_s=60.0)
"""While a test lasts nothing is learned from probes but from those that follow a refusal."""


@asynccontextmanager
async def pair_node(engine: EchoEngine) -> AsyncIterator[Node]:
    """A real node in front of this engine."""
    settings = NodeSettings(
        listen="127.0.0.1:0", engines=(NamedEngine(engine.url),), find_engines=False
    )
    node = Node(Settings(node=settings), node_id=NodeId("n1"), name="pc", version="9.9")
    async with node:
        await node.found_engine(WAIT_S)
        yield node


@asynccontextmanager
async def proxies(
    url: str, count: int, probing: ProbingSettings = SELDOM
) -> AsyncIterator[list[House]]:
    """So many proxies that know what is at this address, and nothing else."""
    settings = Settings(nodes=(FixedNode(url),), probing=probing)
    async with AsyncExitStack() as stack:
        built = [await stack.enter_async_context(house(settings=settings)) for _ in range(count)]
        for each in built:
            await each.ready(1)
        yield built


def steady(slots: int, call_s: float) -> EchoSettings:
    """An engine whose calls take this long, however many there are."""
    tokens = 6
    return EchoSettings(
        slots=slots,
        prefill_rate_tokens_per_s=1e9,
        decode_rate_tokens_per_s=tokens / call_s,
        answer_tokens=tokens,
    )


class Seen:
    """What the schedulers of a test are told."""

    def __init__(self) -> None:
        self.refusals: Counter[tuple[int, TicketId]] = Counter()
        self.pushes: list[NodeReport] = []
        self.answers = 0

    def take(self, scheduler: Scheduler, event: Event) -> None:
        match event:
            case AttemptFailed() if event.failure.kind is FailureKind.BUSY:
                self.refusals[id(scheduler), event.ticket] += 1
            case NodeReported(pushed=True):
                self.pushes.append(event.report)
            case NodeReported():
                self.answers += 1


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """Looks on while the real scheduler does its work."""
    noted, handle = Seen(), Scheduler.handle

    def look(self: Scheduler, event: Event, now: float) -> list[Decision]:
        noted.take(self, event)
        return handle(self, event, now)

    monkeypatch.setattr(Scheduler, "handle", look)
    return noted


@pytest.mark.parametrize("slots", [1, 2])
async def test_two_proxies_share_a_node_without_idling_or_asking_in_vain(
    seen: Seen, slots: int
) -> None:
    async with EchoEngine(steady(slots, CALL_S)) as engine, pair_node(engine) as node:
        async with proxies(f"http://{node.address}", 2) as two:
            order: list[int] = []

            async def call(number: int) -> int:
                status = (await two[number].send(chat(tokens=6))).status
                order.append(number)
                return status

            async with asyncio.TaskGroup() as tasks:
                calls = [tasks.create_task(call(number)) for number in (0, 1) for _ in range(CALLS)]
            assert [call.result() for call in calls] == [200] * 2 * CALLS
            for each in two:
                each.assert_books_are_clean()
        idle_s = idle_between(engine, slots)
    assert idle_s[len(idle_s) * 9 // 10] < 0.05, "somebody always waits"
    assert idle_s[-1] < 0.25, "that is how long it would be without pushes"
    assert sum(seen.refusals.values()) <= CALLS * 1.2, "about every second call has a collision"
    assert max(seen.refusals.values()) <= 2
    shares = Counter(order[: CALLS * 3 // 2])
    assert min(shares[0], shares[1]) >= CALLS // 2, f"one starves: {order}"


def idle_between(engine: EchoEngine, slots: int) -> list[float]:
    """From the end of a call to the start of the one that took its slot, in seconds, sorted."""
    calls = [entry for entry in engine.journal.entries if entry.start_s is not None]
    gaps = []
    for slot in range(slots):
        times = sorted(
            (entry.start_s, entry.end_s or 0.0)
            for entry in calls
            if entry.slot == slot and entry.start_s is not None
        )
        gaps += [start - end for (_, end), (start, _) in pairwise(times)]
    return sorted(gaps)


async def test_what_changes_at_a_node_is_known_without_a_question(seen: Seen) -> None:
    async with (
        EchoEngine(FAST) as engine,
        pair_node(engine) as node,
        proxies(f"http://{node.address}", 1) as (one,),
        asyncio.TaskGroup() as tasks,
    ):
        await one.until(lambda: seen.pushes != [])
        tasks.create_task(node.drain(WAIT_S))
        await one.until(lambda: known(one)["n1"].phase is Phase.DRAINING)


async def test_a_bare_engine_is_not_asked_for_a_stream() -> None:
    async with EchoEngine(FAST) as engine, proxies(engine.url, 1, QUICK) as (one,):
        await one.until(lambda: engine.journal.counters.requests_by_path.total() > 20)
        assert REPORTS_PATH not in engine.journal.counters.requests_by_path


# Nodes that do strange things


def says(process: str = "p", node: str = "n1") -> NodeReport:
    replica = ReplicaReport(EngineName("e"), "llamacpp", ModelName("m"), running=0)
    return NodeReport(NodeId(node), "pc", "0.9", False, (replica,), process=process)


NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nConnection: close\r\n\r\n"


class StrangeNode:
    """It reports as it should, and streams as a test says.

    Attributes:
        stream: what is said to who asks for the stream; ended after that unless `holds`.
        asked: how often it was asked for the stream.
        open: streams that it holds and whose reader has not left.
        chatters: said again and again after `stream`, as fast as it is taken; `written` times.
    """

    def __init__(self, stream: bytes, *, holds: bool = False, chatters: bytes = b"") -> None:
        self.report = says()
        self.stream = stream
        self.holds = holds
        self.chatters = chatters
        self.reports = self.asked = self.open = self.written = 0
        self.deaf = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, which the proxy's end may end at any moment."""
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await self._serve(reader, writer)
        writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"x-pair-from: " in head.lower()
        if head.startswith(f"GET {REPORTS_PATH} ".encode()):
            self.asked += 1
            writer.write(self.stream)
            while self.chatters:
                writer.write(self.chatters * 100)
                self.written += 100
                await writer.drain()
                await asyncio.sleep(0)
            if self.holds:
                self.open += 1
                with suppress(ConnectionError):
                    await reader.read()
                self.open -= 1
        elif head.startswith(f"GET {REPORT_PATH} ".encode()):
            self.reports += 1
            if self.deaf:
                await reader.read()
            body = encode_report(self.report)
            length = b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(body)
            writer.write(b"HTTP/1.1 200 OK\r\n" + length + body)


@asynccontextmanager
async def strange(node: StrangeNode) -> AsyncIterator[House]:
    """One proxy that knows it."""
    async with await asyncio.start_server(node.serve, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        async with proxies(f"http://127.0.0.1:{port}", 1, QUICK) as (one,):
            yield one


async def more_answers(one: House, node: StrangeNode, count: int = 8) -> None:
    """Wait for so many further probes."""
    before = node.reports
    await one.until(lambda: node.reports >= before + count)


async def test_an_older_node_is_asked_for_a_stream_once_a_process() -> None:
    node = StrangeNode(NOT_FOUND)
    async with strange(node) as one:
        await more_answers(one, node)
        assert node.asked == 1
        node.report = says(process="a newer one")
        await more_answers(one, node)
        assert node.asked == 2


@pytest.mark.parametrize(
    "stream",
    [
        STREAM,
        STREAM + encode_report(says()) + b"\n",
        STREAM + b"no report\n",
        STREAM + b"{" * 5_000_000,
        STREAM + encode_report(says(node="n2")) + b"\n",
        b"HTTP/1.1 503 Later\r\nContent-Length: 0\r\n\r\n",
        b"no HTTP\r\n\r\n",
        b"",
    ],
)
async def test_a_stream_that_ends_proves_nothing_and_is_not_asked_for_at_each_probe(
    stream: bytes,
) -> None:
    node = StrangeNode(stream)
    async with strange(node) as one:
        await more_answers(one, node, 20)
        assert 1 <= node.asked <= 6
        assert set(known(one)) == {"n1"}
        assert known(one)["n1"].phase is Phase.READY


async def test_a_push_of_another_node_is_not_believed(seen: Seen) -> None:
    node = StrangeNode(STREAM + encode_report(says(node="n2")) + b"\n", holds=True)
    async with strange(node) as one:
        await more_answers(one, node)
        assert seen.pushes == []
        await one.until(lambda: node.open == 0)


async def test_a_node_that_never_stops_talking_costs_no_more_than_one_that_does(
    seen: Seen,
) -> None:
    """It writes as fast as it is read, the proxy takes a hundred a second."""
    node = StrangeNode(STREAM, chatters=encode_report(says()) + b"\n")
    async with strange(node) as one:
        await one.until(lambda: len(seen.pushes) >= 5)
        began = asyncio.get_running_loop().time()
        pushes, written = len(seen.pushes), node.written
        await more_answers(one, node, 5)
        took_s = asyncio.get_running_loop().time() - began
        assert node.written - written > 2 * (len(seen.pushes) - pushes)
        assert len(seen.pushes) - pushes <= took_s / APART_S + 1


async def test_nobody_listens_to_a_node_that_is_lost() -> None:
    """A machine that is gone ends no connection."""
    node = StrangeNode(STREAM + encode_report(says()) + b"\n", holds=True)
    async with strange(node) as one:
        await one.until(lambda: node.open == 1)
        node.deaf = True
        await one.until(lambda: known(one)["n1"].phase is Phase.LOST)
        await one.until(lambda: node.open == 0)
        node.deaf = False
        await one.until(lambda: node.open == 1)
        node.report = says(process="started anew")
        await one.until(lambda: node.asked == 3)


async def test_streams_end_with_the_proxy() -> None:
    node = StrangeNode(STREAM + encode_report(says()) + b"\n", holds=True)
    async with strange(node) as one:
        await one.until(lambda: node.open == 1)
        await one.stack.aclose()
        await one.until(lambda: node.open == 0)
