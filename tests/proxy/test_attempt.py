"""One attempt and its end: the node lost at every stage of it, error answers of every size, answers
that break off. A client gets exactly one answer, whatever happens.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from pair.core.events import ProbeMissed
from pair.core.names import NodeId, Outcome
from pair.proxy.attempt import ERROR_BODY_LIMIT_BYTES
from pair.settings import FixedNode, ProbingSettings, RetrySettings, Settings
from tests.proxy.raw_engine import Call, RawEngine, page, raw_engine
from tests.relay.wires import chunked
from tests.support.house import WAIT_S, House, RawClient, Reply, chat, house

QUICK = ProbingSettings(
    interval_s=0.05,
    suspect_interval_s=0.05,
    limit_s=1.0,
    lost_interval_s=0.05,
    misses_until_lost_in_use=2,
)

STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n%b\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
EVENT = b'data: {"choices":[{"delta":{"content":"hm"}}]}\n\n'
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n"


def chunk(piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece)


class Two:
    """A house with two raw engines for one model, of which the second listens only when told."""

    def __init__(self, built: House, first: RawEngine, second: RawEngine) -> None:
        self.built = built
        self.first = first
        self.second = second

    async def bring_second(self) -> None:
        """The other one is ready."""
        self.second.listen()
        await self.built.ready(2)

    async def lose_first(self) -> None:
        """Its address is dead from now on, and the other one is there."""
        self.second.listen()
        await self.first.vanish()

    async def answer_from_second(self) -> None:
        """The next call there gets its answer."""
        call = await self.second.next_call()
        await call.send(page(b'{"from":"two"}\n', 200, "Content-Type: application/json"))

    def miss_first(self) -> None:
        """It misses enough probes to be lost, in this very turn."""
        for _ in range(QUICK.misses_until_lost_in_use):
            event = ProbeMissed(NodeId(self.first.url), False, None, "no connection")
            self.built.proxy.dispatcher.feed(event)


@asynccontextmanager
async def two(attempts_limit: int = 3, probing: ProbingSettings = QUICK) -> AsyncIterator[Two]:
    """Entered when the first is ready."""
    async with raw_engine() as first, raw_engine(listening=False) as second:
        settings = Settings(
            nodes=(FixedNode(first.url, name="one"), FixedNode(second.url, name="two")),
            probing=probing,
            retry=RetrySettings(attempts_limit=attempts_limit, pause_s=0.02),
        )
        async with house(settings=settings) as built:
            await built.ready(1)
            yield Two(built, first, second)


def assert_moved(reply: Reply) -> None:
    assert (reply.status, reply.json) == (200, {"from": "two"})
    assert (reply.headers["x-pair-node"], reply.headers["x-pair-attempts"]) == ("two", "2")


async def assert_clean(built: House, **closed: int) -> None:
    await built.quiet()
    counts = {str(outcome): count for outcome, count in built.snapshot().closed.items() if count}
    assert counts == closed
    built.assert_books_are_clean()


async def everything(client: RawClient) -> bytes:
    """All that the client gets until the connection ends; one answer, not two."""
    received = await client.rest()
    assert received.count(b"HTTP/1.1 ") == 1
    return received


# --- the node is lost ---------------------------------------------------------------------------


async def test_lost_while_connecting() -> None:
    # Each probe takes as long as connecting may.
    soon = replace(QUICK, misses_until_lost_in_use=1)
    async with two(probing=soon) as pair, asyncio.TaskGroup() as tasks:
        await pair.first.jam()
        waiting = tasks.create_task(pair.built.send(chat("raw")))
        await pair.built.until(lambda: pair.built.snapshot().in_flight == 1)
        pair.second.listen()
        await pair.answer_from_second()
        assert_moved(await waiting)
        assert not pair.first.has_call
        await assert_clean(pair.built, answered=1)


async def test_lost_while_waiting_for_the_head() -> None:
    async with two() as pair, asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(pair.built.send(chat("raw")))
        call = await pair.first.next_call()
        await pair.lose_first()
        await pair.answer_from_second()
        assert_moved(await waiting)
        await call.until_hung_up()
        await assert_clean(pair.built, answered=1)


@pytest.mark.parametrize("begun", [b"", chunk(b": ping\n\n"), chunk(b": pi")])
async def test_lost_between_the_head_and_the_first_content_byte(begun: bytes) -> None:
    async with two() as pair, asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(pair.built.send(chat("raw", stream=True)))
        call = await pair.first.next_call()
        await call.send(STREAM_HEAD % CHUNKED + begun)
        await pair.lose_first()
        await pair.answer_from_second()
        reply = await waiting
        assert_moved(reply)
        assert b"pi" not in reply.body
        await call.until_hung_up()
        await assert_clean(pair.built, answered=1)


async def test_lost_while_an_error_answer_is_being_read() -> None:
    async with two() as pair, asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(pair.built.send(chat("raw")))
        call = await pair.first.next_call()
        await call.send(b"HTTP/1.1 503 Busy\r\nContent-Length: 100\r\n\r\nserver bu")
        await pair.lose_first()
        await pair.answer_from_second()
        assert_moved(await waiting)
        await call.until_hung_up()
        await assert_clean(pair.built, answered=1)


@pytest.mark.parametrize(
    ("path", "event"),
    [
        ("/v1/chat/completions", b'data: {"error": {"message": "The answer broke off: '),
        ("/v1/messages", b'event: error\ndata: {"type": "error", "error": {"type": "api_error"'),
        ("/api/chat", b'{"error": "The answer broke off: '),
    ],
)
async def test_lost_in_the_middle_of_a_stream(path: str, event: bytes) -> None:
    async with two() as pair:
        client = await pair.built.raw()
        client.post(chat("raw", stream=True), path)
        call = await pair.first.next_call()
        await call.send(STREAM_HEAD % CHUNKED + chunk(EVENT))
        head = await client.until(b"\r\n\r\n")
        assert b"x-pair-node: one" in head
        await client.until(EVENT)
        await pair.lose_first()
        rest = await client.rest()
        assert event in rest
        assert b"one is lost" in rest
        assert b"\r\n0\r\n" not in rest, "the chunked body must not look complete"
        assert b"HTTP/1.1" not in rest, "no second answer"
        await call.until_hung_up()
        await assert_clean(pair.built, failed=1)
        assert not pair.second.has_call


async def test_lost_in_the_middle_of_an_answer_that_is_no_stream() -> None:
    async with two() as pair:
        client = await pair.built.raw()
        client.post(chat("raw"))
        call = await pair.first.next_call()
        await call.send(WHOLE, b'{"from":')
        await client.until(b'{"from":')
        await pair.lose_first()
        assert await client.rest() == b"", "nothing may follow: it would be taken for the answer"
        await call.until_hung_up()
        await assert_clean(pair.built, failed=1)


@pytest.mark.parametrize("turns", range(5))
@pytest.mark.parametrize("stream", [True, False])
async def test_lost_in_the_very_turn_of_the_answer(turns: int, stream: bool) -> None:
    """The whole answer and the loss meet in every order; the client gets one or the other."""
    async with two() as pair:
        client = await pair.built.raw()
        client.post(chat("raw", stream=stream), Connection="close")
        call = await pair.first.next_call()
        await pair.lose_first()  # so that it is not asked again once it is lost
        whole = WHOLE + b'{"from":"one"}\n'
        if stream:
            whole = STREAM_HEAD % CHUNKED + chunked(EVENT, b"data: [DONE]\n\n")
        await call.send(whole)
        for _ in range(turns):
            await asyncio.sleep(0)
        pair.miss_first()
        # Before the answer came the ticket moves; after it there is nothing to move.
        await pair.built.until(
            lambda: pair.second.has_call or not pair.built.proxy.scheduler.desk.tickets
        )
        if pair.second.has_call:
            await pair.answer_from_second()
            received = await everything(client)
            assert received.endswith(b'{"from":"two"}\n')
            assert b"hm" not in received
        else:
            received = await everything(client)
            assert received.endswith(b"0\r\n\r\n" if stream else b'{"from":"one"}\n')
            assert b'"error"' not in received
        await assert_clean(pair.built, answered=1)


@pytest.mark.parametrize("turns", range(3))
@pytest.mark.parametrize("stream", [True, False])
async def test_lost_in_the_very_turn_of_the_first_content_byte(turns: int, stream: bool) -> None:
    """The head is known and its body is being waited for."""
    async with two() as pair:
        client = await pair.built.raw()
        client.post(chat("raw", stream=stream), Connection="close")
        call = await pair.first.next_call()
        await call.send(STREAM_HEAD % CHUNKED + chunk(b": ping\n\n") if stream else WHOLE)
        await pair.lose_first()
        for _ in range(5):  # for the head to get through; the next probe takes longer
            await asyncio.sleep(0)
        await call.send(chunk(EVENT) if stream else b'{"from":"one')
        for _ in range(turns):
            await asyncio.sleep(0)
        pair.miss_first()
        await pair.built.until(
            lambda: pair.second.has_call or not pair.built.proxy.scheduler.desk.tickets
        )
        moved = pair.second.has_call
        if moved:
            await pair.answer_from_second()
        received = await everything(client)
        assert (b'"two"' in received) is moved
        assert (b"hm" in received or b'{"from":"one' in received) is not moved
        await assert_clean(pair.built, **{"answered" if moved else "failed": 1})


async def test_a_second_loss_moves_the_ticket_a_second_time() -> None:
    async with two() as pair, asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(pair.built.send(chat("raw")))
        await pair.first.next_call()
        pages = pair.first.pages
        await pair.lose_first()
        await pair.second.next_call()
        await pair.second.vanish()
        pair.first.come_back(pages)
        call = await pair.first.next_call()
        await call.send(page(b'{"from":"one"}\n'))
        reply = await waiting
        assert (reply.status, reply.headers["x-pair-attempts"]) == (200, "3")
        await assert_clean(pair.built, answered=1)


async def test_no_attempt_is_left_after_a_loss() -> None:
    async with two(attempts_limit=1) as pair:
        client = await pair.built.raw()
        client.post(chat("raw"), Connection="close")
        await pair.first.next_call()
        await pair.lose_first()
        received = await everything(client)
        assert received.startswith(b"HTTP/1.1 502")
        assert b"attempts_spent" in received
        assert b"one was lost" in received
        await assert_clean(pair.built, failed=1)


# --- error answers ------------------------------------------------------------------------------

LARGE = b"x" * (ERROR_BODY_LIMIT_BYTES + 100_000)


async def test_a_failure_with_an_endless_body_is_still_a_failed_attempt() -> None:
    async with two() as pair, asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(pair.built.send(chat("raw")))
        call = await pair.first.next_call()
        await pair.bring_second()
        sending = tasks.create_task(_drip(call))
        await pair.answer_from_second()
        assert_moved(await waiting)
        await sending
        await assert_clean(pair.built, answered=1)


async def _drip(call: Call) -> None:
    """A 503 whose body goes on until its reader has enough."""
    try:
        await call.send(b"HTTP/1.1 503 Busy\r\nTransfer-Encoding: chunked\r\n\r\n")
        while not call.hung_up.is_set():
            await call.send(chunk(b"x" * 65536))
    except ConnectionError:
        return


async def test_of_a_failure_above_the_limit_the_client_gets_our_own_words() -> None:
    async with two(attempts_limit=1) as pair, asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(pair.built.send(chat("raw"), x_request_id="r-9"))
        call = await pair.first.next_call()
        await call.send(page(LARGE, 503))
        reply = await waiting
        assert (reply.status, reply.json["error"]["code"]) == (502, "attempts_spent")
        assert reply.headers["x-request-id"] == "r-9"
        await assert_clean(pair.built, failed=1)


@pytest.mark.parametrize("size", [ERROR_BODY_LIMIT_BYTES - 1, ERROR_BODY_LIMIT_BYTES])
async def test_a_failure_just_at_the_limit_is_answered_whole(size: int) -> None:
    async with two(attempts_limit=1) as pair, asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(pair.built.send(chat("raw")))
        call = await pair.first.next_call()
        await call.send(page(b"x" * size, 502))
        reply = await waiting
        assert reply.status == 502
        assert len(reply.body) == size or reply.json["error"]["code"] == "attempts_spent"
        await assert_clean(pair.built, failed=1)


@pytest.mark.parametrize("framing", ["length", "chunks"])
async def test_a_clients_own_error_passes_whole_however_large(framing: str) -> None:
    async with two() as pair, asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(pair.built.send(chat("raw")))
        call = await pair.first.next_call()
        if framing == "length":
            await call.send(page(LARGE, 400))
        else:
            await call.send(
                b"HTTP/1.1 400 Bad\r\nTransfer-Encoding: chunked\r\nX-Own: 1\r\n\r\n"
                + chunked(LARGE)
            )
        reply = await waiting
        assert (reply.status, reply.body) == (400, LARGE)
        assert reply.headers["x-pair-node"] == "one"
        await assert_clean(pair.built, answered=1)


async def test_an_error_teaches_nothing_of_prompts_and_speeds() -> None:
    messages = [{"role": "user", "content": "too long " * 1000}]
    async with two() as pair, asyncio.TaskGroup() as tasks:
        sending = tasks.create_task(pair.built.send(chat("raw", stream=True, messages=messages)))
        call = await pair.first.next_call()
        await call.send(page(LARGE, 400))
        assert (await sending).status == 400
        outlook = pair.built.proxy.scheduler.matching.outlook
        (learned,) = outlook.estimates.learned().replicas
        assert (len(outlook.prefixes), learned.prefill_tokens_per_s, learned.tpots_s) == (
            0,
            None,
            (),
        )


async def test_an_error_answer_that_breaks_off_is_a_failed_attempt() -> None:
    async with two() as pair, asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(pair.built.send(chat("raw")))
        call = await pair.first.next_call()
        await pair.bring_second()
        await call.send(b"HTTP/1.1 400 Bad\r\nContent-Length: 100\r\n\r\nyou sent")
        call.wire.reset()
        await pair.answer_from_second()
        assert_moved(await waiting)
        await assert_clean(pair.built, answered=1)


async def test_a_compressed_failure_passes_as_it_is_and_is_not_quoted() -> None:
    async with two(attempts_limit=1) as pair, asyncio.TaskGroup() as tasks:
        packed = gzip.compress(b'{"error":{"message":"the tensor is on fire"}}')
        waiting = tasks.create_task(pair.built.send(chat("raw"), Accept_Encoding="gzip"))
        call = await pair.first.next_call()
        await call.send(page(packed, 502, "Content-Encoding: gzip"))
        reply = await waiting
        assert reply.status == 502
        assert reply.json["error"]["message"] == "the tensor is on fire"
        async with pair.built.client.get("/pair/v1/snapshot") as answer:
            replica = (await answer.json())["nodes"][0]["replicas"][0]
        assert replica["set_aside_reason"] == "status 502"
        await assert_clean(pair.built, failed=1)


async def test_the_engines_last_word_says_which_node_gave_it() -> None:
    async with two(attempts_limit=1) as pair, asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(pair.built.send(chat("raw"), x_request_id="r-1"))
        call = await pair.first.next_call()
        await call.send(page(b'{"error":"no"}', 502))
        reply = await waiting
        assert (reply.status, reply.json) == (502, {"error": "no"})
        assert (reply.headers["x-pair-node"], reply.headers["x-request-id"]) == ("one", "r-1")
        assert reply.headers["x-pair-attempts"] == "1"
        await assert_clean(pair.built, failed=1)


async def test_the_engines_last_word_keeps_the_engines_own_request_id() -> None:
    async with two(attempts_limit=1) as pair:
        client = await pair.built.raw()
        client.post(chat("raw"), X_Request_Id="ours", Connection="close")
        call = await pair.first.next_call()
        await call.send(page(b"no", 502, "X-Request-Id: theirs"))
        received = await everything(client)
        assert re.findall(rb"(?i)x-request-id: (\w+)", received) == [b"theirs"]
        await assert_clean(pair.built, failed=1)


# --- answers that break off ---------------------------------------------------------------------


async def broken(pair: Two, *pieces: bytes, **headers: str) -> bytes:
    """What a client gets of a stream that begins so and is then cut."""
    client = await pair.built.raw()
    client.post(chat("raw", stream=True), **headers)
    call = await pair.first.next_call()
    await call.send(*pieces)
    head = await client.until(b"\r\n\r\n")
    call.wire.reset()
    received = head + await client.rest()
    assert received.count(b"HTTP/1.1 ") == 1
    await assert_clean(pair.built, failed=1)
    return received


async def test_a_compressed_stream_that_breaks_is_cut_with_nothing_put_in() -> None:
    async with two() as pair:
        packed = gzip.compress(EVENT * 20)[:-8]
        head = STREAM_HEAD % (CHUNKED + b"Content-Encoding: gzip\r\n")
        received = await broken(pair, head, chunk(packed))
        body = received.partition(b"\r\n\r\n")[2]
        assert body in (chunk(packed), b"")
        assert b"content-encoding: gzip" in received.lower()


async def test_a_stream_of_fixed_length_that_breaks_is_cut_short_of_it() -> None:
    async with two() as pair:
        received = await broken(pair, STREAM_HEAD % b"Content-Length: 1000\r\n", EVENT)
        body = received.partition(b"\r\n\r\n")[2]
        assert body in (EVENT, b""), "an event of ours would count for the engine's bytes"


async def test_a_stream_that_breaks_within_a_line_ends_with_an_event_of_its_own() -> None:
    async with two() as pair:
        received = await broken(pair, STREAM_HEAD % CHUNKED, chunk(EVENT + b"data:"))
        body = b"".join(re.findall(rb"\r\n([^\r]+)\r\n", received.partition(b"\r\n\r\n")[2]))
        events = [event for event in body.split(b"\n\n") if event]
        last = json.loads(events[-1].removeprefix(b"data: "))
        assert last["error"]["code"] == "engine_error"


async def test_an_old_client_gets_a_reset_where_the_end_would_be_the_end_of_the_body() -> None:
    async with two() as pair:
        client = await pair.built.raw()
        body = json.dumps(chat("raw", stream=True)).encode()
        client.writer.write(
            b"POST /v1/chat/completions HTTP/1.0\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        )
        call = await pair.first.next_call()
        await call.send(STREAM_HEAD % CHUNKED, chunk(EVENT))
        await client.until(EVENT)
        call.wire.reset()
        with pytest.raises(ConnectionResetError):
            async with asyncio.timeout(WAIT_S):
                await client.reader.read()
        await assert_clean(pair.built, failed=1)


async def test_what_the_engine_said_of_its_tokens_is_on_the_books_though_the_answer_broke() -> None:
    async with two() as pair:
        await broken(pair, STREAM_HEAD % CHUNKED, chunk(EVENT * 5), X_Pair_Job="torn")
        async with pair.built.client.get("/pair/v1/jobs/torn") as answer:
            (call,) = (await answer.json())["calls"]
        assert (call["outcome"], call["output_tokens"]) == (str(Outcome.FAILED), 5)
        assert call["detail"]
