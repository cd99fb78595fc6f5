"""Items 8 to 10: which failures another node takes over and which are the client's, one layer that
retries, and a replica that fails: set aside, tried with one call, back by itself.

Requests and engine starts are counted at the engines' own journals.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from pair.bench.echo_engine.faults import OLLAMA_BUSY
from pair.bench.echo_engine.settings import EchoSettings
from pair.core.names import Outcome
from pair.core.snapshot import ReplicaView
from pair.settings import RetrySettings, Settings
from tests.proxy.test_attempt import two
from tests.support.chain import chain
from tests.support.house import FAST, House, chat, house

QUICK = Settings(retry=RetrySettings(pause_s=0.1, pause_limit_s=1.0, busy_pause_s=0.05))
SLOW = EchoSettings(prefill_rate_tokens_per_s=1e9, decode_rate_tokens_per_s=40.0)

MOVES_ON = {
    "reset": "reset",
    "502": "status,status=502",
    "503": "status,status=503",
    "busy": "status,status=503,message=all slots are busy",
    "loading": "status,status=503,message=Loading model",
    "ollama is full": f'{{"kind":"status","status":503,"message":"{OLLAMA_BUSY}"}}',
    "rate limited": "rate_limited,retry_after_s=1",
    "a stale list": "status,status=404,message=model 'echo' not found",
    "no http": "garbage",
    "only a head": "close_after_head",
}

STAYS = {
    "400": ("llamacpp", "status,status=400,message=no good", 400),
    "401": ("llamacpp", "status,status=401,message=no good", 401),
    "403": ("llamacpp", "status,status=403,message=no good", 403),
    "413": ("llamacpp", "status,status=413,message=no good", 413),
    "422": ("llamacpp", "status,status=422,message=no good", 422),
    "too long for llama.cpp": (
        "llamacpp",
        "status,status=400,message=request (5000 tokens) exceeds the available context size",
        400,
    ),
    "too long with a 500": (
        "llamacpp",
        "status,status=500,message=input is too large to process. increase the physical batch size",
        500,
    ),
    "too long for vLLM": (
        "vllm",
        "status,status=400,message=This model's maximum context length is 4096 tokens.",
        400,
    ),
}


def asked(built: House) -> list[int]:
    """Requests for work that each engine got."""
    return [len(engine.journal.entries) for engine in built.engines]


def replicas(built: House) -> list[ReplicaView]:
    return [replica for node in built.snapshot().nodes for replica in node.replicas]


async def closes_clean(built: House, *outcomes: Outcome) -> None:
    """These were the fates, and every count is at zero."""
    await built.quiet()
    closed = built.snapshot().closed
    assert {outcome: closed[outcome] for outcome in set(outcomes)} == {
        outcome: outcomes.count(outcome) for outcome in set(outcomes)
    }
    built.assert_books_are_clean()


# --- 8: what another node takes over --------------------------------------------------------------


@pytest.mark.parametrize("fault", MOVES_ON.values(), ids=MOVES_ON)
async def test_08_another_node_takes_it_over(fault: str) -> None:
    async with house(FAST, FAST) as built:
        built.engines[0].faults.set(fault)
        reply = await built.send(chat(stream=True))
        assert (reply.status, reply.headers["x-pair-node"]) == (200, "node-1")
        assert reply.body.endswith(b"data: [DONE]\n\n")
        assert asked(built) == [1, 1]
        assert sum(engine.journal.counters.started for engine in built.engines) == 1
        await closes_clean(built, Outcome.ANSWERED)


@pytest.mark.parametrize("fault", MOVES_ON.values(), ids=MOVES_ON)
async def test_08_alone_it_goes_back_to_the_head_of_the_queue(fault: str) -> None:
    async with house(FAST, settings=QUICK) as built:
        (engine,) = built.engines
        engine.faults.set(f'{fault[:-1]},"first":1}}' if fault[0] == "{" else f"{fault},first=1")
        async with asyncio.TaskGroup() as tasks:
            first = tasks.create_task(built.send(chat(), x_request_id="first"))
            await engine.journal.until(lambda: len(engine.journal.entries) == 1, 5.0)
            tasks.create_task(built.send(chat(), x_request_id="second"))
        assert first.result().status == 200
        order = [entry.request_id for entry in engine.journal.entries]
        assert order == ["first", "first", "second"]
        assert dict(engine.journal.starts) == {"first": 1, "second": 1}
        await closes_clean(built, Outcome.ANSWERED, Outcome.ANSWERED)


async def test_08_where_all_are_rate_limited_the_call_waits() -> None:
    async with house(FAST, FAST, FAST, settings=QUICK) as built:
        for engine in built.engines:
            engine.faults.set("rate_limited,retry_after_s=0,first=2")
        reply = await built.send(chat())
        assert (reply.status, reply.headers["x-pair-attempts"]) == (200, "1")
        assert sum(asked(built)) > 3
        await closes_clean(built, Outcome.ANSWERED)


async def test_08_a_refused_connection() -> None:
    async with house(FAST, FAST) as built:
        await built.engines[0].crash()
        replies = [await built.send(chat()) for _ in range(3)]
        assert {reply.status for reply in replies} == {200}
        assert {reply.headers["x-pair-node"] for reply in replies} == {"node-1"}
        await closes_clean(built, *[Outcome.ANSWERED] * 3)


@pytest.mark.parametrize("fault", ["idle_close,first=1", "reset,reused=true,first=1"])
async def test_08_a_reused_connection_that_breaks_costs_no_attempt(fault: str) -> None:
    async with house(FAST) as built:
        (engine,) = built.engines
        engine.faults.set(fault)
        for _ in range(3):
            reply = await built.send(chat())
            assert (reply.status, reply.headers["x-pair-attempts"]) == (200, "1")
        assert engine.journal.counters.started == 3
        assert [(one.failed, one.unproven) for one in replicas(built)] == [(0, False)]


# --- 9: what stays with the client ----------------------------------------------------------------


@pytest.mark.parametrize(("persona", "fault", "status"), STAYS.values(), ids=STAYS)
async def test_09_a_clients_own_error_is_its_answer_and_hurts_nobody(
    persona: str, fault: str, status: int
) -> None:
    engine = replace(FAST, persona=persona)  # type: ignore[arg-type]
    async with house(engine, engine) as built:
        for each in built.engines:
            each.faults.set(fault)
        reply = await built.send(chat())
        assert (reply.status, reply.headers["x-pair-attempts"]) == (status, "1")
        assert fault.rpartition("message=")[2] in reply.json["error"]["message"]
        assert sum(asked(built)) == 1
        standing = [(one.failed, one.set_aside_s, one.unproven) for one in replicas(built)]
        assert standing == [(0, 0.0, False)] * 2
        await closes_clean(built, Outcome.ANSWERED)


async def test_09_a_500_gets_one_second_opinion_and_then_the_engines_own_words() -> None:
    async with house(FAST, FAST, FAST) as built:
        for engine in built.engines:
            engine.faults.set("status,status=500,message=tensor on fire")
        reply = await built.send(chat())
        assert (reply.status, reply.headers["x-pair-attempts"]) == (500, "2")
        assert "tensor on fire" in reply.json["error"]["message"]
        assert sorted(asked(built)) == [0, 1, 1]
        assert [one.set_aside_s for one in replicas(built)] == [0.0] * 3
        await closes_clean(built, Outcome.FAILED)


@pytest.mark.parametrize("how", ["close", "reset", "mid_chunk"])
async def test_09_nothing_is_tried_again_after_the_first_content_byte(how: str) -> None:
    async with house(FAST, FAST) as built:
        for engine in built.engines:
            engine.faults.set(f"cut,after_events=1,how={how}")
        client = await built.raw()
        client.post(chat(tokens=8, stream=True))
        assert b"[DONE]" not in await client.rest()
        assert sum(asked(built)) == 1
        await closes_clean(built, Outcome.FAILED)


async def test_09_a_silent_engine_keeps_its_call_until_that_is_cancelled() -> None:
    async with two() as pair, asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(pair.built.send(chat("raw")))
        call = await pair.first.next_call()
        await pair.bring_second()
        probed = pair.first.accepted
        await pair.built.until(lambda: pair.first.accepted > probed + 5)
        assert not pair.second.has_call, "however long it takes"
        assert not call.hung_up.is_set()
        await pair.first.vanish()
        await pair.answer_from_second()
        await call.until_hung_up()
        assert (await waiting).headers["x-pair-attempts"] == "2"
        await closes_clean(pair.built, Outcome.ANSWERED)


async def test_09_no_more_engine_starts_than_attempts_allowed() -> None:
    settings = Settings(retry=RetrySettings(attempts_limit=2))
    async with house(FAST, FAST, FAST, settings=settings) as built:
        for engine in built.engines:
            engine.faults.set("status,status=502,message=not today")
        reply = await built.send(chat())
        assert (reply.status, reply.headers["x-pair-attempts"]) == (502, "2")
        assert sum(asked(built)) == 2
        await closes_clean(built, Outcome.FAILED)


@pytest.mark.parametrize("fault", ["reset", "status,status=502", "status,status=500"])
async def test_09_a_node_in_between_does_not_retry(fault: str) -> None:
    """What the proxy counts as attempts is what the engine sees, not a multiple of it."""
    async with chain(FAST, settings=QUICK) as built:
        (engine,) = built.house.engines
        engine.faults.set(fault)
        reply = await built.house.send(chat())
        assert reply.status >= 500
        assert asked(built.house) == [int(reply.headers["x-pair-attempts"])]
        await closes_clean(built.house, Outcome.FAILED)


# --- 10: standing across tickets ------------------------------------------------------------------


async def test_10_a_replica_that_fails_is_set_aside_tried_with_one_call_and_comes_back() -> None:
    async with house(replace(SLOW, slots=4, answer_tokens=8), settings=QUICK) as built:
        (engine,) = built.engines
        engine.faults.set("status,status=502,message=fan stuck,first=2")
        async with asyncio.TaskGroup() as tasks:
            calls = [tasks.create_task(built.send(chat(tokens=8)))]
            await built.until(lambda: replicas(built)[0].set_aside_s > 0)
            (shown,) = replicas(built)
            assert shown.unproven
            assert shown.set_aside_reason == "status 502: fan stuck"
            calls += [tasks.create_task(built.send(chat(tokens=8))) for _ in range(3)]
        assert [call.result().status for call in calls] == [200] * 4
        first, trial, second_trial, *rest = engine.journal.entries
        assert trial.arrival_s - first.arrival_s >= 0.1
        assert second_trial.arrival_s - trial.arrival_s >= 0.2, "the pause has doubled"
        assert len(rest) == 3
        assert second_trial.first_token_s is not None
        assert all(call.arrival_s >= second_trial.first_token_s for call in rest)
        (shown,) = replicas(built)
        assert (shown.set_aside_s, shown.unproven, shown.set_aside_reason) == (0.0, False, "")
        await closes_clean(built, *[Outcome.ANSWERED] * 4)


async def test_10_others_serve_while_it_is_set_aside() -> None:
    async with house(FAST, FAST) as built:
        built.engines[0].faults.set("status,status=502")
        for _ in range(4):
            assert (await built.send(chat())).status == 200
        assert asked(built) == [1, 4], "it costs one attempt, not one of every ticket"
        await closes_clean(built, *[Outcome.ANSWERED] * 4)
