"""What the proxy answers by itself: its own pages, the merged lists, and bad input."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest
from yarl import URL

from pair.bench.echo_engine.settings import EchoModel
from pair.core.names import Outcome, Phase
from pair.settings import ProxySettings, QueueSettings, Settings
from tests.support.house import FAST, chat, house

NO_GRACE = Settings(queue=QueueSettings(start_grace_s=0.0))
"""What is unknown is refused at once, also by a proxy that has only just started."""

NAMED = replace(FAST, persona="ollama")
"""Of a kind that wants the model's name."""


async def test_lists_are_merged_over_the_house_with_aliases() -> None:
    other = replace(FAST, models=(EchoModel("other", ("alias",)), EchoModel("echo")))
    async with house(FAST, other) as built:
        async with built.client.get("/v1/models") as answer:
            assert answer.status == 200
            listed = await answer.json()
        assert [m["id"] for m in listed["data"]] == ["alias", "echo", "other"]
        assert {m["id"]: m["nodes"] for m in listed["data"]} == {"alias": 1, "echo": 2, "other": 1}
        async with built.client.get("/api/tags") as answer:
            tags = await answer.json()
        assert [m["name"] for m in tags["models"]] == ["alias", "echo", "other"]


async def test_lists_come_from_memory_even_when_every_node_is_silent() -> None:
    async with house(FAST, FAST) as built:
        for engine in built.engines:
            engine.faults.set("black_hole,path=*")
        start = time.perf_counter()
        for path in ("/v1/models", "/api/tags", "/healthz"):
            async with built.client.get(path) as answer:
                assert answer.status == 200
        assert time.perf_counter() - start < 0.1 * 3


async def test_health_snapshot_jobs_and_metrics() -> None:
    async with house(FAST) as built:
        await built.send(chat(tokens=7), x_pair_job="team/alpha")
        async with built.client.get("/healthz") as answer:
            assert await answer.json() == {"status": "ok"}
        async with built.client.get("/pair/v1/snapshot") as answer:
            snapshot = await answer.json()
        assert snapshot["tickets"]["answered"] == 1
        assert snapshot["nodes"][0]["replicas"][0]["served"] == 1
        async with built.client.get("/pair/v1/jobs") as answer:
            (job,) = (await answer.json())["jobs"]
        assert (job["id"], job["calls_total"], job["output_tokens"]) == ("team/alpha", 1, 7)
        async with built.client.get("/pair/v1/jobs/team/alpha") as answer:
            (call,) = (await answer.json())["calls"]
        assert call["node"] == built.engines[0].url
        assert call["ttft_s"] <= call["done_s"]
        async with built.client.get("/pair/v1/jobs/none") as answer:
            assert answer.status == 404
        async with built.client.get("/metrics") as answer:
            text = await answer.text()
        assert 'pair_tickets_closed_total{outcome="answered"} 1.0' in text
        assert f'{{id="{built.engines[0].url}",node="node-0",phase="ready"}} 1.0' in text


Case = tuple[str, bytes, int, str, str]

BAD: list[Case] = [
    ("/v1/chat/completions", b"this is not json", 400, "invalid_json", "JSON"),
    ("/v1/chat/completions", b"[1, 2]", 400, "invalid_json", "object"),
    ("/v1/chat/completions", b"", 400, "invalid_json", "JSON"),
    ("/v1/chat/completions", b'{"messages": []}', 400, "model_required", "echo, other"),
    ("/v1/chat/completions", b'{"model": 7}', 400, "invalid_model", "model"),
    ("/v1/chat/completions", b'{"model": "gpt-9"}', 404, "model_not_found", "echo"),
    ("/.well-known/x", b'{"model": "echo"}', 404, "no_such_path", "/v1"),
]


@pytest.mark.parametrize(("path", "body", "status", "code", "words"), BAD)
async def test_bad_input_gets_a_clear_error_and_nothing_is_lost(
    path: str, body: bytes, status: int, code: str, words: str
) -> None:
    other = replace(FAST, models=(EchoModel("other"),))
    async with house(FAST, other, settings=NO_GRACE) as built:
        headers = {"content-type": "application/json"}
        async with built.client.post(path, data=body, headers=headers) as answer:
            assert answer.status == status
            error = (await answer.json())["error"]
        assert error["code"] == code
        assert words in error["message"]
        assert (await built.send(chat())).status == 200
        built.assert_books_are_clean()


@pytest.mark.parametrize("named", [{}, {"model": ""}, {"model": "gpt-9"}])
@pytest.mark.parametrize("path", ["/chat/completions", "/v1/chat/completions"])
async def test_where_engines_take_any_name_the_only_model_is_meant(
    path: str, named: dict[str, str]
) -> None:
    only = replace(FAST, models=(EchoModel("only", ("alias",)),))
    async with house(only, only) as built:
        body = {**named, "messages": [{"role": "user", "content": "say something"}]}
        async with built.client.post(path, json=body) as answer:
            assert answer.status == 200
            assert "takes any name" in answer.headers["x-pair-reason"]
        (call,) = [call for one in built.engines for call in one.journal.entries]
        assert (call.path, call.model) == (path, named.get("model") or "only")
        (job,) = built.proxy.scheduler.desk.jobs.jobs()
        assert [call.model for call in job.calls.values()] == ["only"]


async def test_paths_that_engines_serve_at_the_root_are_theirs() -> None:
    async with house(FAST) as built:
        async with built.client.get("/slots") as answer:
            assert answer.status == 200
            assert [slot["id"] for slot in await answer.json()] == [0]
        async with built.client.post("/slots/0?action=save") as answer:
            assert answer.status == 404
            assert (await answer.json())["error"]["message"] == "File Not Found"


async def test_health_is_about_models_and_healthz_about_this_process() -> None:
    async with house() as empty:
        for path, status in (("/healthz", 200), ("/health", 503), ("/v1/health", 503)):
            async with empty.client.get(path) as answer:
                assert answer.status == status
                assert ("retry-after" in answer.headers) == (status == 503)
    async with house(FAST) as built:
        async with built.client.get("/health") as answer:
            assert await answer.json() == {"status": "ok"}
        assert built.snapshot().opened == 0
        await built.engines[0].crash()
        await built.until(lambda: not built.proxy.scheduler.membership.any_in(Phase.READY))
        async with built.client.get("/health") as answer:
            assert answer.status == 503


async def test_an_unknown_model_is_refused_in_every_dialect() -> None:
    async with house(NAMED, settings=NO_GRACE) as built:

        async def refused(path: str) -> Any:
            async with built.client.post(path, json={"model": "gpt-9", "messages": []}) as answer:
                assert answer.status == 404
                return await answer.json()

        assert (await refused("/v1/chat/completions"))["error"]["param"] == "model"
        anthropic = await refused("/v1/messages")
        assert (anthropic["type"], anthropic["error"]["type"]) == ("error", "not_found_error")
        assert "echo" in (await refused("/api/chat"))["error"]
        assert built.snapshot().closed[Outcome.REFUSED] == 3


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/models", "/api/chat", "/healthz"])
async def test_a_request_that_came_through_a_node_is_a_loop(path: str) -> None:
    async with house(FAST) as built:
        headers = {"x-pair-via": "some-node"}
        async with built.client.post(path, json=chat(), headers=headers) as answer:
            assert answer.status == 508
            error = (await answer.json())["error"]
        assert "list of engines" in (error if isinstance(error, str) else error["message"])
        assert built.snapshot().opened == 0
        assert (await built.send(chat())).status == 200


async def test_a_path_that_does_not_exist_is_not_repeated_at_length() -> None:
    async with house() as built:
        async with built.client.get("/.well-known/" + "x" * 8000) as answer:
            assert answer.status == 404
            assert len(await answer.read()) < 1000
        async with built.client.get("/pair/v1/" + "x" * 8000) as answer:
            assert answer.status == 404
            body = await answer.read()
        assert len(body) < 1000
        assert json.loads(body)["error"]["code"] == "no_such_path"


async def test_a_refusal_carries_the_clients_own_request_id() -> None:
    async with house(NAMED, settings=NO_GRACE) as built:
        reply = await built.send(chat("gpt-9"), x_request_id="mine")
        assert (reply.status, reply.headers["x-request-id"]) == (404, "mine")
        reply = await built.send({"model": 7}, x_request_id="mine")
        assert (reply.status, reply.headers["x-request-id"]) == (400, "mine")
        assert (await built.send(chat("gpt-9"))).headers["x-request-id"]


async def test_a_body_above_the_limit_is_refused_before_it_is_sent() -> None:
    settings = Settings(proxy=ProxySettings(body_limit_bytes=4096))
    async with house(FAST, settings=settings) as built:
        client = await built.raw()
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: t\r\nContent-Length: 999999999\r\n"
        client.writer.write(head + b"Expect: 100-continue\r\n\r\n")
        answer = await client.until(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 413")
        assert b"4096" in await client.until(b"}}")
        assert built.snapshot().opened == 0
        assert (await built.send(chat())).status == 200


async def test_light_requests_take_no_slot_and_do_not_wait() -> None:
    slow = replace(FAST, decode_rate_tokens_per_s=5.0)
    async with house(slow) as built:
        client = await built.raw()
        client.post(chat(tokens=50, stream=True))
        await client.until(b"data:")
        start = time.perf_counter()
        async with built.client.get("/props") as answer:
            assert answer.status == 200
            assert json.loads(await answer.read())["total_slots"] == 1
        assert time.perf_counter() - start < 1.0
        assert built.snapshot().in_flight == 1
        client.hang_up()
        await built.quiet()
        built.assert_books_are_clean()


async def test_an_engine_that_answers_nonsense_is_a_warning_and_the_proxy_lives_on() -> None:
    async with house(FAST, FAST) as built:
        built.engines[0].faults.set("nonsense")
        for _ in range(3):
            assert (await built.send(chat())).status == 200
        membership = built.proxy.scheduler.membership
        node = membership.nodes[next(iter(membership.nodes))]
        await built.until(lambda: bool(node.warnings) or node.phase != "ready")
        assert (await built.send(chat())).status == 200
        built.assert_books_are_clean()


async def test_with_no_node_at_all_the_error_says_how_to_start_one() -> None:
    async with house(settings=NO_GRACE) as built:
        reply = await built.send(chat())
        assert reply.status == 503
        assert "pair node" in reply.json["error"]["message"]
        assert "Retry-After" in reply.headers


async def test_a_listed_model_can_be_asked_for_by_itself_though_its_engine_has_no_such_path() -> (
    None
):
    named = replace(FAST, models=(EchoModel("org/echo:7b"),))
    async with house(named) as built:
        async with built.client.get("/v1/models") as answer:
            (entry,) = (await answer.json())["data"]
        for path in ("/v1/models/org/echo:7b", "/v1/models/org%2Fecho%3A7b"):
            async with built.client.get(URL(path, encoded=True)) as answer:
                assert answer.status == 200
                assert await answer.json() == entry
        async with built.client.get("/v1/models/none") as answer:
            assert answer.status == 404
