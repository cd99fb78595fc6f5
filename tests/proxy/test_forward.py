"""One ticket over its attempts: what is tried elsewhere, what is not, how an answer may end."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import json
import tracemalloc
from dataclasses import replace

import pytest

from pair.bench.echo_engine.settings import EchoModel, EchoSettings
from pair.core.names import Phase
from pair.core.prompt import whole_blocks
from pair.settings import QueueSettings, RetrySettings, Settings
from tests.support.house import FAST, House, chat, house

STEADY = EchoSettings(prefill_rate_tokens_per_s=1e9, decode_rate_tokens_per_s=100.0)


def starts(built: House) -> list[int]:
    """Generations begun, by engine."""
    return [engine.journal.counters.started for engine in built.engines]


async def test_an_answer_carries_who_gave_it_and_why() -> None:
    async with house(FAST) as built:
        reply = await built.send(chat(), x_pair_job="team", x_request_id="r-1")
        assert reply.status == 200
        assert reply.headers["x-pair-node"] == "node-0"
        assert reply.headers["x-pair-attempts"] == "1"
        assert reply.headers["x-pair-job"] == "team"
        assert reply.headers["x-request-id"] == "r-1"
        assert int(reply.headers["x-pair-queue-ms"]) < 100
        assert "shortest queue" in reply.headers["x-pair-reason"]
        entry = built.engines[0].journal.entries[-1]
        assert entry.request_id == "r-1"
        names = {name.lower() for name, _ in entry.headers}
        assert not {name for name in names if name.startswith(b"x-pair-")}


async def test_what_an_agent_says_of_itself_names_the_job_and_passes_on() -> None:
    async with house(FAST) as built:
        marks = {"x_claude_code_session_id": "run-1", "x_claude_code_agent_id": "sub-2"}
        reply = await built.send(chat(), **marks)
        assert reply.headers["x-pair-job"] == "run-1"
        sent = dict(built.engines[0].journal.entries[-1].headers)
        assert sent[b"x-claude-code-session-id"] == b"run-1"
        reply = await built.send(chat(), x_pair_job="team", **marks)
        assert reply.headers["x-pair-job"] == "team"
        reply = await built.send(chat(), session_id="x" * 300)
        assert reply.headers["x-pair-job"].startswith("found-")


async def test_who_is_urgent_goes_first_and_a_single_call_before_anothers_many() -> None:
    """By priority, by job, and by nothing but another key."""
    async with house(STEADY) as built:
        order: list[str] = []

        async def ask(name: str, tokens: int, **headers: str) -> None:
            assert (await built.send(chat(tokens=tokens), **headers)).status == 200
            order.append(name)

        async with asyncio.TaskGroup() as tasks:
            for number, (name, headers) in enumerate(
                [
                    *[("many", {"x_pair_job": "many"})] * 4,
                    ("bulk", {"x_pair_priority": "bulk", "x_pair_job": "other"}),
                    ("urgent", {"x_pair_priority": "interactive", "x_pair_job": "many"}),
                    ("single", {"authorization": "Bearer somebody-else"}),
                ]
            ):
                tasks.create_task(ask(name, 2 if number else 200, **headers))
                await built.until(lambda opened=number + 1: built.snapshot().opened == opened)  # type: ignore[misc]
        assert order == ["many", "urgent", "single", "many", "many", "many", "bulk"]


@pytest.mark.parametrize("stream", [True, False])
async def test_the_clients_bytes_are_the_engines_bytes(stream: bool) -> None:
    """I10, for the body in both directions."""
    async with house(FAST) as built:
        body = json.dumps(chat(tokens=30, stream=stream, text="ä€😀")).encode()
        async with built.client.post(
            "/v1/chat/completions", data=body, headers={"content-type": "application/json"}
        ) as answer:
            received = await answer.read()
        await built.engines[0].journal.until(
            lambda: built.engines[0].journal.counters.fates["done"] == 1, 5.0
        )
        entry = built.engines[0].journal.entries[-1]
        assert hashlib.sha256(received).hexdigest() == entry.body_sha256
        assert hashlib.sha256(body).hexdigest() == entry.request_sha256


async def test_an_engine_that_is_gone_is_found_out_by_the_first_call_at_latest() -> None:
    async with house(FAST, FAST) as built:
        await built.engines[0].crash()
        replies = [await built.send(chat()) for _ in range(4)]
        assert {reply.status for reply in replies} == {200}
        assert {reply.headers["x-pair-node"] for reply in replies} == {"node-1"}
        nodes = built.proxy.scheduler.membership.nodes.values()
        await built.until(lambda: next(iter(nodes)).phase in (Phase.SUSPECT, Phase.LOST))
        built.assert_books_are_clean()


async def test_a_node_that_dies_under_a_stream_ends_it_and_serves_the_waiting_elsewhere() -> None:
    async with house(STEADY, STEADY) as built:
        streams = [await built.raw() for _ in range(2)]
        for stream in streams:
            stream.post(chat(tokens=150, stream=True))
            await stream.until(b"data:")
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(built.send(chat(tokens=2)))
            await built.until(lambda: built.snapshot().waiting == 1)
            await built.engines[0].crash()
            rest = [await stream.rest_or_done() for stream in streams]
        reply = waiting.result()
        assert reply.status == 200
        assert reply.headers["x-pair-node"] == "node-1"
        assert sorted(b"[DONE]" in each for each in rest) == [False, True]
        await built.quiet()
        built.assert_books_are_clean()


async def test_a_full_queue_refuses_in_the_dialect_and_says_when_to_come_back() -> None:
    settings = Settings(queue=QueueSettings(limit=2))
    async with house(STEADY, settings=settings) as built:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(built.send(chat(tokens=30))) for _ in range(3)]
            await built.until(lambda: built.snapshot().waiting == 2)
            async with built.client.post("/v1/messages", json=chat()) as answer:
                assert answer.status == 429
                assert int(answer.headers["Retry-After"]) >= 1
                body = await answer.json()
                assert body["type"] == "error"
                assert "queue.limit" in body["error"]["message"]
            async with built.client.post("/api/chat", json=chat()) as answer:
                assert answer.status == 429
                assert isinstance((await answer.json())["error"], str)
        assert [each.result().status for each in running] == [200] * 3
        built.assert_books_are_clean()


async def test_a_ticket_knows_its_prompt() -> None:
    long = {"role": "user", "content": "word " * 200}
    async with house(STEADY) as built, asyncio.TaskGroup() as tasks:
        call = tasks.create_task(built.send(chat(tokens=20, messages=[long])))
        await built.until(lambda: bool(built.proxy.scheduler.desk.tickets))
        (ticket,) = built.proxy.scheduler.desk.tickets.values()
        assert ticket.opened.prompt.chars > 1000
        assert len(ticket.opened.prompt.fingerprints) == whole_blocks(ticket.opened.prompt.chars)
        assert ticket.opened.prompt.output_limit_tokens == 20
        await call


async def test_a_wait_limit_ends_a_wait() -> None:
    settings = Settings(queue=QueueSettings(wait_limit_s=0.2))
    async with house(STEADY, settings=settings) as built:
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(built.send(chat(tokens=60)))
            await built.until(lambda: built.snapshot().in_flight == 1)
            reply = await built.send(chat())
            assert reply.status == 503
            assert reply.json["error"]["code"] == "waited_too_long"
            assert "Retry-After" in reply.headers
        assert running.result().status == 200


async def test_a_pinned_call_goes_to_its_node_only() -> None:
    async with house(FAST, FAST, FAST) as built:
        for _ in range(4):
            reply = await built.send(chat(), x_pair_node="node-1")
            assert reply.headers["x-pair-node"] == "node-1"
        assert starts(built) == [0, 4, 0]
        reply = await built.send(chat(), x_pair_node="attic")
        assert reply.status == 404
        assert "node-0, node-1, node-2" in reply.json["error"]["message"]


async def test_a_model_is_found_by_its_alias() -> None:
    named = replace(FAST, models=(EchoModel("echo:7b", ("gpt-4o",)),))
    async with house(FAST, named) as built:
        assert (await built.send(chat("gpt-4o"))).headers["x-pair-node"] == "node-1"
        assert (await built.send(chat("echo"))).headers["x-pair-node"] == "node-0"


async def test_slots_that_the_user_names_beat_the_engines_word() -> None:
    wide = replace(STEADY, slots=4)
    async with house(wide, slots=[2]) as built:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(6):
                tasks.create_task(built.send(chat(tokens=10)))
        assert built.engines[0].journal.counters.max_running == 2


async def test_where_an_answer_came_from_is_said_once_and_by_pair() -> None:
    script = {
        "kind": "script",
        "content_type": "application/json",
        "headers": [["x-pair-node", "liar"], ["x-request-id", "the-engines-own"]],
        "pieces": [{"at_s": 0.0, "content": "e30="}],
    }
    async with house(FAST) as built:
        built.engines[0].faults.set(json.dumps(script))
        async with built.client.post("/v1/chat/completions", json=chat()) as answer:
            assert answer.headers.getall("x-pair-node") == ["node-0"]
            assert answer.headers.getall("x-request-id") == ["the-engines-own"]
            assert await answer.read() == b"{}"


async def test_a_stopping_proxy_says_so_in_the_dialect_to_whom_it_cuts_short() -> None:
    slow = replace(STEADY, decode_rate_tokens_per_s=2.0)
    async with house(slow) as built, asyncio.TaskGroup() as tasks:
        cut_short = tasks.create_task(built.client.post("/v1/messages", json=chat(tokens=50)))
        await built.until(lambda: built.snapshot().in_flight == 1)
        await built.proxy.drain(0.05)
        answer = await cut_short
        assert answer.status == 503
        assert "Retry-After" in answer.headers
        body = await answer.json()
        assert body["type"] == "error"
        assert body["error"]["code"] == "shutting_down"
        built.assert_books_are_clean()


async def test_a_stopping_proxy_ends_a_stream_that_it_cuts_short_with_an_error_event() -> None:
    slow = replace(STEADY, decode_rate_tokens_per_s=5.0)
    async with house(slow) as built:
        client = await built.raw()
        client.post(chat(tokens=100, stream=True))
        await client.until(b"data:")
        await built.proxy.drain(0.05)
        rest = await client.rest()
        assert b'"engine_error"' in rest
        assert b"[DONE]" not in rest
        built.assert_books_are_clean()


@pytest.mark.parametrize("fate", ["refused", "client left", "failed"])
async def test_the_body_of_a_call_that_got_no_answer_is_let_go_at_once(fate: str) -> None:
    """Not only by the next full garbage collection, which may be long in coming."""
    size = 900_000
    body = chat("gpt-9" if fate == "refused" else "echo", tokens=500, text="x" * size)
    named = replace(STEADY, persona="ollama")  # not of a kind that takes any model's name
    at_once = Settings(
        queue=QueueSettings(start_grace_s=0.0), retry=RetrySettings(left_grace_s=0.0)
    )
    async with house(named, settings=at_once) as built:
        if fate == "failed":
            built.engines[0].faults.set("status,status=500")
        gc.collect()
        gc.disable()
        tracemalloc.start()
        try:
            for _ in range(8):
                if fate == "client left":
                    client = await built.raw()
                    client.post(body)
                    await client.writer.drain()
                    await built.until(lambda: built.snapshot().in_flight == 1)
                    client.hang_up()
                else:
                    await built.send(body)
                await built.quiet()
            held = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, "*/pair/*")])
            held_bytes = sum(trace.size for trace in held.traces)
        finally:
            tracemalloc.stop()
            gc.enable()
        assert held_bytes < 2 * size, f"{held_bytes / size:.1f} bodies are still held"
