from __future__ import annotations

import asyncio
import hashlib
import json
import time

import aiohttp
import pytest

from pair.bench.echo_engine import EchoModel
from tests.bench.echo_engine.calling import (
    CHAT,
    LATE_S,
    LIMIT_S,
    chat_body,
    engine_and_client,
    raw_connection,
    settings,
)


@pytest.mark.parametrize(
    ("fault", "status", "word"),
    [
        ("400", 400, "invalid_request_error"),
        ("413", 413, "invalid_request_error"),
        ("500", 500, "server_error"),
        ("502", 502, "server_error"),
        ("busy", 503, "maximum pending requests exceeded"),
        ("model_not_found", 404, "not_found_error"),
        ("429,retry_after_s=2", 429, "rate_limit_error"),
        ("418", 418, "invalid_request_error"),
    ],
)
async def test_a_scripted_status(fault: str, status: int, word: str) -> None:
    async with engine_and_client() as client:
        answer = await client.chat(headers={"x-echo-fault": fault})
        entry = client.engine.journal.entries[-1]
    assert answer.status == status
    assert word in answer.body.decode()
    assert answer.headers.get("Retry-After") == ("2" if status == 429 else None)
    assert (entry.fate, entry.fault, entry.status) == ("faulted", "status", status)
    assert entry.start_s is None


async def test_a_fault_that_nobody_knows_is_a_refusal() -> None:
    async with engine_and_client() as client:
        answer = await client.chat(headers={"x-echo-fault": "explode"})
        fates = dict(client.engine.journal.counters.fates)
    assert answer.status == 400
    assert "explode" in answer.json["error"]["message"]
    assert fates == {"refused": 1}


async def test_a_black_hole_answers_nothing_and_holds_no_slot() -> None:
    async with engine_and_client() as client:
        async with raw_connection(client.engine) as connection:
            connection.send_json(CHAT, chat_body(), "x-echo-fault: black_hole")
            journal = client.engine.journal
            await journal.until(lambda: len(journal.entries) == 1, LIMIT_S)
            assert (await client.chat()).status == 200
            assert connection.got == b""
        await journal.until(lambda: journal.counters.fates["hung_up"] == 1, LIMIT_S)
    assert journal.entries[0].fault == "black_hole"


async def test_a_stall_is_seen_by_the_client_and_ends() -> None:
    async with engine_and_client() as client:
        answer = await client.chat(headers={"x-echo-fault": "stall,for_s=0.2"}, stream=True)
        assert (await client.chat()).status == 200
    assert 0.2 <= answer.took_s < 0.2 + LATE_S
    assert len(answer.events) == 6


async def test_nonsense_in_lists_only() -> None:
    given = settings(persona="ollama")
    async with engine_and_client(given) as client:
        client.engine.faults.set("nonsense", '{"kind":"nonsense","path":"/v1/x","body":"{"}')
        lists = [await client.get(path) for path in ("/v1/models", "/api/tags", "/api/ps")]
        cut = await client.get("/v1/x")
        regular = await client.chat()
    assert all(answer.status == 200 for answer in (*lists, cut, regular))
    assert all("models" in answer.json for answer in lists)
    with pytest.raises(json.JSONDecodeError):
        cut.json  # noqa: B018 - the property decodes
    assert "choices" in regular.json


async def test_status_pages_that_wait_until_no_slot_is_busy() -> None:
    async with engine_and_client(settings(decode_rate_tokens_per_s=40)) as client:
        client.engine.faults.set("wait_until_idle")
        began_s = time.monotonic()
        journal = client.engine.journal
        async with asyncio.TaskGroup() as group:
            group.create_task(client.chat(tokens=12))
            await journal.until(lambda: journal.counters.running == 1, LIMIT_S)
            pages = [group.create_task(client.get(path)) for path in ("/health", "/v1/models")]
            assert (await client.chat(headers={"x-echo-fault": "500"})).status == 500
            assert not any(page.done() for page in pages)
        assert 0.3 <= time.monotonic() - began_s < 0.3 + LATE_S
    assert [page.result().status for page in pages] == [200, 200]


async def test_the_first_requests_fail_and_the_next_succeed() -> None:
    given = settings(faults=())
    async with engine_and_client(given) as client:
        client.engine.faults.set("503,first=2")
        assert [(await client.chat()).status for _ in range(4)] == [503, 503, 200, 200]


async def test_an_idle_connection_is_closed_unless_it_is_used_in_time() -> None:
    async with engine_and_client() as client, raw_connection(client.engine) as connection:
        client.engine.faults.set("idle_close,after_s=0.2")
        connection.send_json(CHAT, chat_body())
        await connection.read_answer()
        # The second request is in time; only after its own 0.2 s the connection goes.
        connection.send_json(CHAT, chat_body(), "x-echo-fault: stall,for_s=0.3")
        assert (await connection.read_answer())[0].startswith(b"HTTP/1.1 200")
        began_s = time.monotonic()
        connection.send_json(CHAT, chat_body())
        await connection.read_answer()
        assert await connection.read_to_end() == b""
        assert 0.2 <= time.monotonic() - began_s < 0.2 + LATE_S


async def test_a_kept_connection_dies_with_the_next_request() -> None:
    async with engine_and_client() as client:
        client.engine.faults.set("reset,reused=true")
        async with raw_connection(client.engine) as connection:
            connection.send_json(CHAT, chat_body())
            await connection.read_answer()
            connection.send_json(CHAT, chat_body())
            with pytest.raises(ConnectionResetError):
                await connection.read_to_end()


async def test_an_answer_that_nobody_hears_is_computed_to_its_end() -> None:
    async with engine_and_client(settings(decode_rate_tokens_per_s=50)) as client:
        journal = client.engine.journal
        fault = "x-echo-fault: keeps_computing_after_hangup"
        async with raw_connection(client.engine) as connection:
            connection.send_json(CHAT, chat_body(tokens=25, stream=True), fault)
            await connection.read_until(b'"content":"')
            began_s = time.monotonic()
        await journal.until(lambda: journal.counters.fates["hung_up"] == 1, LIMIT_S)
        assert journal.counters.running == 1
        await journal.until(lambda: journal.counters.running == 0, LIMIT_S)
        assert time.monotonic() - began_s > 0.3
        assert journal.entries[-1].output_tokens == 25


async def test_the_key_is_asked_for_where_it_must_be() -> None:
    given = settings(api_key="sesame")
    async with engine_and_client(given) as client:
        assert (await client.chat()).status == 401
        assert (await client.chat(headers={"Authorization": "Bearer wrong"})).status == 401
        assert (await client.get("/slots")).status == 401
        for headers in ({"Authorization": "Bearer sesame"}, {"x-api-key": "sesame"}):
            assert (await client.chat(headers=headers)).status == 200
        assert (await client.get("/health")).status == 200


async def test_a_model_that_loads_is_not_there_yet() -> None:
    async with engine_and_client(settings(load_time_s=0.3)) as client:
        began_s = time.monotonic()
        refused = await client.chat()
        health = await client.get("/health")
        listed = await client.get("/v1/models")
        assert time.monotonic() - began_s < 0.3
    assert (refused.status, refused.json["error"]["message"]) == (503, "Loading model")
    assert (health.status, health.json["error"]["type"]) == (503, "unavailable_error")
    assert listed.status == 200


async def test_some_kinds_hold_the_request_while_the_model_loads() -> None:
    async with engine_and_client(settings(persona="ollama", load_time_s=0.3)) as client:
        began_s = time.monotonic()
        assert (await client.get("/api/ps")).json["models"] == []
        asked = {"model": "echo", "prompt": "x", "stream": False}
        answer = await client.post("/api/generate", asked)
        assert 0.25 < time.monotonic() - began_s < 0.3 + LATE_S
        assert len((await client.get("/api/ps")).json["models"]) == 1
    assert 0.1e9 < answer.json["load_duration"] <= 0.3e9
    assert client.engine.journal.entries[0].load_s == pytest.approx(0.3, abs=LATE_S)


async def test_names_of_models() -> None:
    models = (EchoModel("echo:7b", ("gpt-4o",)), EchoModel("other"))
    async with engine_and_client(settings(persona="vllm", models=models)) as client:
        for name, status in (("echo:7b", 200), ("gpt-4o", 200), ("other", 200), ("none", 404)):
            assert (await client.chat(model=name)).status == status
        unnamed = await client.post(CHAT, {"messages": []})
        assert unnamed.json["model"] == "echo:7b"
    async with engine_and_client() as client:
        # llama.cpp has one model and does not look at the name.
        assert (await client.chat(model="whatever")).json["model"] == "whatever"


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[1]", b'"x"', b"\xff", b'{"messages": 1}', b'{"messages":' + b"[" * 100_000],
)
async def test_a_body_that_is_no_request(body: bytes) -> None:
    async with engine_and_client() as client:
        answer = await client.ask("POST", CHAT, data=body)
        assert answer.status == 400
        assert answer.json["error"]["type"] == "invalid_request_error"
        assert (await client.chat()).status == 200


async def test_a_body_nested_deeply_is_refused_or_answered_but_never_a_crash() -> None:
    content = b'"x"'
    for _ in range(400):
        content = b"[" + content + b"]"
    body = b'{"messages": [{"role": "user", "content": ' + content + b"}]}"
    async with engine_and_client() as client:
        answer = await client.ask("POST", CHAT, data=body)
        assert answer.status in (200, 400)
        assert (await client.chat()).status == 200


async def test_a_body_that_is_too_large() -> None:
    async with engine_and_client(settings(body_limit_bytes=1000)) as client:
        answer = await client.chat("x" * 2000)
    assert answer.status == 413
    assert client.engine.journal.entries[0].fate == "refused"


async def test_what_stops_in_the_middle_of_its_body_is_a_hang_up() -> None:
    async with engine_and_client() as client:
        journal = client.engine.journal
        async with raw_connection(client.engine) as connection:
            connection.send(f"POST {CHAT} HTTP/1.1\nHost: x\nContent-Length: 100\n\n", b"{")
            await journal.until(lambda: len(journal.entries) == 1, LIMIT_S)
        await journal.until(lambda: journal.counters.fates["hung_up"] == 1, LIMIT_S)


async def test_the_journal_tells_the_story_of_a_call() -> None:
    given = settings(prefill_rate_tokens_per_s=100, decode_rate_tokens_per_s=50)
    async with engine_and_client(given) as client:
        body = chat_body("say it", tokens=5, stream=True)
        text = json.dumps(body).encode()
        answer = await client.ask("POST", CHAT, data=text, headers={"x-request-id": "me"})
        entry = client.engine.journal.entries[-1]
        assert client.engine.journal.starts["me"] == 1
    assert entry.start_s is not None
    assert entry.first_token_s is not None
    assert entry.end_s is not None
    assert 0 <= entry.start_s - entry.arrival_s < LATE_S
    # Eight tokens to read at 100/s, five to write at 50/s.
    assert 0.1 <= entry.first_token_s - entry.start_s < 0.1 + LATE_S
    assert 0.18 <= entry.end_s - entry.start_s < 0.18 + LATE_S
    assert (entry.prompt_tokens, entry.cached_tokens, entry.output_tokens) == (8, 0, 5)
    assert (entry.fate, entry.slot, entry.model, entry.stream) == ("done", 0, "echo", True)
    assert entry.request_sha256 == hashlib.sha256(text).hexdigest()
    assert entry.body_sha256 == hashlib.sha256(answer.body).hexdigest()
    assert (b"x-request-id", b"me") in entry.headers


async def test_heads_come_with_the_first_token_or_at_once_as_the_kind_does() -> None:
    for persona, at_once in (("llamacpp", False), ("ollama", False), ("lmstudio", True)):
        given = settings(persona=persona, decode_rate_tokens_per_s=4)
        async with engine_and_client(given) as client:
            began_s = time.monotonic()
            request = client.session.post(
                client.engine.url + CHAT, json=chat_body(tokens=1, stream=True)
            )
            async with request as response:
                head_s = time.monotonic() - began_s
                assert response.status == 200
                assert (await response.read()).endswith(b"data: [DONE]\n\n")
        assert (head_s < 0.25) is at_once


async def test_a_refusal_after_the_head_is_an_event() -> None:
    given = settings(persona="lmstudio", context_tokens=20)
    async with engine_and_client(given) as client:
        answer = await client.chat("x" * 400, stream=True)
    assert answer.status == 200
    assert answer.events[0]["error"]["code"] == "context_exceeded"


async def test_clients_see_a_cut_as_an_error_and_not_as_an_end() -> None:
    async with engine_and_client() as client:
        for stream in (True, False):
            with pytest.raises(aiohttp.ClientPayloadError):
                await client.chat(headers={"x-echo-fault": "cut"}, stream=stream)
