"""What a node answers, over real sockets and an engine that keeps a journal."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from io import BytesIO

import aiohttp
import pytest

from pair.bench.echo_engine import EchoEngine, EchoModel, EchoSettings
from pair.core.names import EngineName
from pair.wire.dialects import Dialect
from pair.wire.node_report import REPORT_PATH, decode_report
from tests.agent.face import BODY_LIMIT_BYTES, SOON_S, Face, chat, chosen, face, local, of, until

INSTANT = EchoSettings(prefill_rate_tokens_per_s=1e9, decode_rate_tokens_per_s=1e9, answer_tokens=4)
ENDLESS = EchoSettings(
    prefill_rate_tokens_per_s=1e9, decode_rate_tokens_per_s=200, answer_tokens=1_000_000
)
CHAT = "/v1/chat/completions"


async def error_of(answer: aiohttp.ClientResponse) -> dict[str, str]:
    error: dict[str, str] = json.loads(await answer.read())["error"]
    return error


async def test_the_report_comes_from_memory() -> None:
    async with face(local("llamacpp:1", "http://127.0.0.1:9", "echo", slots=2)) as node:
        async with node.client.get(node.url + "/pair/v1/report") as answer:
            assert answer.status == 200
            report = decode_report(await answer.read())
        assert (report.node, report.name, report.draining) == ("this-node", "pc", False)
        assert [(r.engine, r.model, r.slots, r.running) for r in report.replicas] == [
            ("llamacpp:1", "echo", 2, 0)
        ]


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/pair/v1/report"), ("GET", "/pair/v1/jobs"), ("GET", "/pair/")]
)
async def test_a_node_has_no_other_page_of_its_own(method: str, path: str) -> None:
    async with face() as node, node.client.request(method, node.url + path) as answer:
        assert answer.status == 404
        assert (await error_of(answer))["code"] == "not_found"


async def test_the_engine_gets_the_clients_bytes_and_the_client_the_engines() -> None:
    body = b' {"model" : "echo", "messages":[{"role":"user","content":"\\u00e9\xc3\xa9"}] }\n'
    async with EchoEngine(INSTANT) as engine, face(of(engine)) as node:
        headers = chosen() | {"x-custom": "kept", "content-type": "application/json"}
        async with node.client.post(node.url + CHAT, data=body, headers=headers) as answer:
            assert answer.status == 200
            received = await answer.read()
        (entry,) = engine.journal.entries
        assert entry.request_sha256 == hashlib.sha256(body).hexdigest()
        assert entry.body_sha256 == hashlib.sha256(received).hexdigest()
        sent = {name.lower(): value for name, value in entry.headers}
        assert sent[b"x-custom"] == b"kept"
        assert sent[b"x-pair-via"] == b"this-node"
        assert b"x-pair-engine" not in sent
        assert b"x-pair-model" not in sent


async def test_a_stream_passes_as_it_comes() -> None:
    async with EchoEngine(ENDLESS) as engine, face(of(engine)) as node:
        body = chat(stream=True)
        async with node.client.post(node.url + CHAT, data=body, headers=chosen()) as answer:
            async with asyncio.timeout(SOON_S):
                first = await answer.content.readuntil(b"\n\n")
            assert first.startswith(b"data: ")
            assert node.running("llamacpp:1", "echo") == 1


@pytest.mark.parametrize(
    ("path", "dialect"),
    [
        (CHAT, Dialect.OPENAI),
        ("/v1/messages", Dialect.ANTHROPIC),
        ("/api/chat", Dialect.OLLAMA),
    ],
)
async def test_a_full_node_refuses_before_it_reads_a_body(path: str, dialect: Dialect) -> None:
    async with EchoEngine(ENDLESS) as engine, face(of(engine)) as node, busy(node):
        reader, writer = await node.connect()
        writer.write(_head(path, content_length=900_000))
        async with asyncio.timeout(SOON_S):
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            body = json.loads(await reader.read())
        assert head.startswith(b"http/1.1 503 ")
        assert b"\r\nretry-after: 1\r\n" in head
        assert b"\r\nconnection: close\r\n" in head
        error = body if dialect is Dialect.OLLAMA else body["error"]
        assert error["code"] == "node_busy"
        writer.close()
        await writer.wait_closed()
        assert len(engine.journal.entries) == 1


async def test_after_a_refusal_of_a_short_request_the_connection_is_of_use() -> None:
    async with EchoEngine(ENDLESS) as engine, face(of(engine)) as node, busy(node):
        reader, writer = await node.connect()
        async with asyncio.timeout(SOON_S):
            writer.write(_head(CHAT, content_length=5))
            assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 503 ")
            await reader.readuntil(b"}}")
            writer.write(b"12345" + _head("/v1/models", method="GET", content_length=0))
            assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200 ")
        writer.close()
        await writer.wait_closed()


async def test_a_light_request_needs_no_slot() -> None:
    async with EchoEngine(ENDLESS) as engine, face(of(engine)) as node, busy(node):
        for method, path in (("GET", "/v1/models"), ("POST", "/v1/messages/count_tokens")):
            body = chat() if method == "POST" else None
            headers = chosen()
            async with (
                asyncio.timeout(SOON_S),
                node.client.request(method, node.url + path, data=body, headers=headers) as answer,
            ):
                assert answer.status == 200, path


async def test_of_a_burst_as_many_as_slots_are_admitted() -> None:
    settings = EchoSettings(slots=3, decode_rate_tokens_per_s=200, answer_tokens=20)
    async with EchoEngine(settings) as engine, face(of(engine, slots=3)) as node:

        async def ask() -> int:
            async with node.client.post(node.url + CHAT, data=chat(), headers=chosen()) as answer:
                await answer.read()
                return answer.status

        async with asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(ask()) for _ in range(20)]
        statuses = [task.result() for task in asked]
        assert sorted(statuses) == [200] * 3 + [503] * 17
        assert engine.journal.counters.max_running == 3
        await until(lambda: node.running("llamacpp:1", "echo") == 0)


async def test_whoever_has_seen_the_end_of_an_answer_finds_the_slot_free() -> None:
    async with EchoEngine(INSTANT) as engine, face(of(engine)) as node:
        for stream in (False, True) * 100:
            async with node.client.post(
                node.url + CHAT, data=chat(stream=stream), headers=chosen()
            ) as answer:
                assert answer.status == 200
                await answer.read()
        assert engine.journal.counters.fates == {"done": 200}


@pytest.mark.parametrize(
    "headers",
    [chosen(model="other"), chosen(engine="ollama:11434"), {"x-pair-engine": "llamacpp:1"}, {}],
)
async def test_an_unknown_model_is_answered_with_those_that_exist(headers: dict[str, str]) -> None:
    async with face(local("llamacpp:1", "http://127.0.0.1:9", "echo")) as node:
        body = chat("other")
        async with node.client.post(node.url + CHAT, data=body, headers=headers) as answer:
            assert answer.status == 404
            error = await error_of(answer)
        assert error["code"] == "model_not_found"
        assert "There are: echo." in error["message"]


async def test_without_a_proxys_choice_the_body_decides() -> None:
    one = EchoSettings(models=(EchoModel("a"),), answer_tokens=2)
    two = EchoSettings(models=(EchoModel("b"),), answer_tokens=2)
    async with (
        EchoEngine(one) as first,
        EchoEngine(two) as second,
        face(of(first, "llamacpp:1"), of(second, "llamacpp:2")) as node,
    ):
        for model in ("a", "b", "b"):
            async with node.client.post(node.url + CHAT, data=chat(model)) as answer:
                assert answer.status == 200
                await answer.read()
        assert [entry.model for entry in first.journal.entries] == ["a"]
        assert [entry.model for entry in second.journal.entries] == ["b", "b"]


async def test_a_request_without_a_model_means_the_only_one() -> None:
    async with EchoEngine(INSTANT) as engine, face(of(engine)) as node:
        async with node.client.post(node.url + CHAT, data=chat(None)) as answer:
            assert answer.status == 200
            await answer.read()
        node.book.add(local("llamacpp:2", "http://127.0.0.1:9", "other"))
        async with node.client.post(node.url + CHAT, data=chat(None)) as answer:
            assert answer.status == 400
            assert (await error_of(answer))["code"] == "model_required"


async def test_without_engines_there_is_nothing_to_list() -> None:
    async with face() as node, node.client.get(node.url + "/v1/models") as answer:
        assert answer.status == 404
        assert (await error_of(answer))["code"] == "no_engine"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [(b"not json", 400, "invalid_json"), (b"x" * (BODY_LIMIT_BYTES + 1), 413, "body_too_large")],
)
async def test_a_body_that_cannot_be_used_is_the_clients_fault(
    body: bytes, status: int, code: str
) -> None:
    async with face(local("llamacpp:1", "http://127.0.0.1:9", "echo")) as node:
        async with node.client.post(node.url + CHAT, data=BytesIO(body)) as answer:
            assert answer.status == status
            assert (await error_of(answer))["code"] == code
        if status == 413:
            headers = chosen()
            large = BytesIO(body)
            async with node.client.post(node.url + CHAT, data=large, headers=headers) as answer:
                assert answer.status == status
            assert node.running("llamacpp:1", "echo") == 0


async def test_what_came_through_a_node_goes_no_further() -> None:
    async with EchoEngine(INSTANT) as engine, face(of(engine)) as node:
        headers = chosen() | {"x-pair-via": "another-node"}
        async with node.client.post(node.url + CHAT, data=chat(), headers=headers) as answer:
            assert answer.status == 508
            assert (await error_of(answer))["code"] == "node_loop"
        assert not engine.journal.entries


async def test_a_node_that_is_an_engine_of_another_refuses_instead_of_going_in_circles() -> None:
    async with face() as inner:
        outer_engine = local("generic:1", inner.url, "echo", kind="generic")
        async with face(outer_engine) as outer:
            inner.book.add(local("generic:2", outer.url, "echo", kind="generic"))
            headers = chosen("generic:1")
            async with outer.client.post(outer.url + CHAT, data=chat(), headers=headers) as answer:
                assert answer.status == 508
            await until(lambda: outer.running("generic:1", "echo") == 0)
            assert inner.running("generic:2", "echo") == 0


async def test_an_engine_that_is_not_there_is_a_bad_gateway_and_gets_looked_at() -> None:
    engine = local("llamacpp:1", "http://127.0.0.1:9", "echo")
    async with face(engine) as node:
        async with node.client.post(node.url + CHAT, data=chat(), headers=chosen()) as answer:
            assert answer.status == 502
            assert (await error_of(answer))["code"] == "engine_unreachable"
        assert engine.look.is_set()
        assert node.running("llamacpp:1", "echo") == 0


async def test_a_node_without_files_for_a_connection_is_full_and_its_engine_not_in_doubt() -> None:
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    engine = local("llamacpp:1", "http://127.0.0.1:9", "echo")
    async with face(engine) as node:
        async with node.client.get(node.url + REPORT_PATH) as answer:
            assert answer.status == 200  # so that the client's own connection stands
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, most))
        try:
            async with node.client.post(node.url + CHAT, data=chat(), headers=chosen()) as answer:
                assert answer.status == 503
                assert (await error_of(answer))["code"] == "node_busy"
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))
        assert not engine.look.is_set()


@pytest.mark.parametrize("fault", ["reset", "garbage", "close_after_head"])
async def test_an_engine_that_breaks_off_before_its_answer_is_a_bad_gateway(fault: str) -> None:
    async with EchoEngine(INSTANT) as engine, face(of(engine)) as node:
        engine.faults.set(fault)
        for stream in (False, True):
            body = chat(stream=stream)
            async with node.client.post(node.url + CHAT, data=body, headers=chosen()) as answer:
                assert answer.status == 502
                assert (await error_of(answer))["code"] == "engine_unreachable"
        assert node.running("llamacpp:1", "echo") == 0


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_that_breaks_off_is_cut_so_that_nobody_takes_it_for_whole(
    stream: bool,
) -> None:
    async with EchoEngine(INSTANT) as engine, face(of(engine)) as node:
        engine.faults.set("cut,after_events=2")
        body = chat(stream=stream)
        async with node.client.post(node.url + CHAT, data=body, headers=chosen()) as answer:
            assert answer.status == 200
            with pytest.raises(aiohttp.ClientError):
                await answer.read()
        await until(lambda: node.running("llamacpp:1", "echo") == 0)


async def test_an_engines_own_error_passes_as_it_is() -> None:
    async with EchoEngine(INSTANT) as engine, face(of(engine)) as node:
        engine.faults.set("rate_limited")
        async with node.client.post(node.url + CHAT, data=chat(), headers=chosen()) as answer:
            assert answer.status == 429
            assert answer.headers["Retry-After"] == "1"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_hang_up_stops_the_engine_and_frees_the_slot(stream: bool) -> None:
    async with EchoEngine(ENDLESS) as engine, face(of(engine)) as node:
        _, writer = await node.connect()
        body = chat(stream=stream)
        writer.write(_head(CHAT, content_length=len(body)) + body)
        journal = engine.journal
        await journal.until(lambda: journal.counters.running == 1, SOON_S)
        assert node.running("llamacpp:1", "echo") == 1
        writer.close()
        await writer.wait_closed()
        await journal.until(lambda: journal.counters.fates["hung_up"] == 1, SOON_S)
        await until(lambda: node.running("llamacpp:1", "echo") == 0)


async def test_an_upload_that_stalls_holds_no_slot() -> None:
    async with EchoEngine(INSTANT) as engine, face(of(engine)) as node:
        _, writer = await node.connect()
        writer.write(_head(CHAT, content_length=1000) + b"{")
        await until(lambda: not node.app.idle.is_set())
        assert node.running("llamacpp:1", "echo") == 0
        async with node.client.post(node.url + CHAT, data=chat(), headers=chosen()) as answer:
            assert answer.status == 200
            await answer.read()
        assert not node.app.idle.is_set()
        writer.close()
        await until(node.app.idle.is_set)


async def test_a_slot_that_went_during_an_upload_is_a_refusal() -> None:
    async with EchoEngine(ENDLESS) as engine, face(of(engine)) as node:
        reader, writer = await node.connect()
        body = chat()
        writer.write(_head(CHAT, content_length=len(body)) + body[:5])
        await until(lambda: not node.app.idle.is_set())
        async with busy(node):
            writer.write(body[5:])
            async with asyncio.timeout(SOON_S):
                head = await reader.readuntil(b"\r\n\r\n")
                error = json.loads(await reader.readuntil(b"}}"))["error"]
        assert head.startswith(b"HTTP/1.1 503 ")
        assert error["code"] == "node_busy"
        writer.close()
        await writer.wait_closed()
        assert len(engine.journal.entries) == 1


async def test_whatever_happens_to_300_requests_all_slots_come_back() -> None:
    settings = EchoSettings(slots=3, prefill_rate_tokens_per_s=1e4, decode_rate_tokens_per_s=2000)
    chance = random.Random(7)
    kinds = ["reset", "cut", "500", "close_after_head", "garbage", ""]
    async with EchoEngine(settings) as engine, face(of(engine, slots=3)) as node:

        async def ask(fault: str, hang_up_s: float, stream: bool) -> None:
            headers = chosen() | ({"x-echo-fault": fault} if fault else {})
            body = chat(stream=stream)
            with suppress(aiohttp.ClientError, TimeoutError):
                async with (
                    asyncio.timeout(hang_up_s),
                    node.client.post(node.url + CHAT, data=body, headers=headers) as answer,
                ):
                    await answer.read()

        for _ in range(30):
            async with asyncio.TaskGroup() as tasks:
                for _ in range(10):
                    plan = (chance.choice(kinds), chance.uniform(0, 0.06), chance.random() < 0.5)
                    tasks.create_task(ask(*plan))
            # Nobody watches the engine here, who would see what it is done with.
            node.admission.nothing_drains(EngineName("llamacpp:1"))
        await until(lambda: node.running("llamacpp:1", "echo") == 0)
        async with asyncio.timeout(SOON_S):
            await node.app.idle.wait()
        counters = engine.journal.counters
        await engine.journal.until(lambda: counters.running == 0, SOON_S)
        assert 0 < counters.max_running <= 3


async def test_a_draining_node_finishes_and_takes_nothing_new() -> None:
    settings = EchoSettings(slots=2, decode_rate_tokens_per_s=50, answer_tokens=20)
    async with EchoEngine(settings) as engine, face(of(engine, slots=2)) as node:
        body = chat(stream=True)
        async with node.client.post(node.url + CHAT, data=body, headers=chosen()) as running:
            await running.content.readuntil(b"\n\n")
            assert not node.app.idle.is_set()
            node.app.draining = True
            async with node.client.post(node.url + CHAT, data=body, headers=chosen()) as refused:
                assert refused.status == 503
                assert refused.headers["Retry-After"] == "1"
                assert (await error_of(refused))["code"] == "node_draining"
            async with node.client.get(node.url + "/pair/v1/report") as answer:
                assert decode_report(await answer.read()).draining
            assert (await running.read()).endswith(b"data: [DONE]\n\n")
        async with asyncio.timeout(SOON_S):
            await node.app.idle.wait()
        assert engine.journal.counters.fates == {"done": 1}


def _head(path: str, *, content_length: int, method: str = "POST") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: node", f"Content-Length: {content_length}"]
    lines += [f"{name}: {value}" for name, value in chosen().items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


@asynccontextmanager
async def busy(node: Face) -> AsyncIterator[None]:
    """The engine's only slot is taken while this is entered."""
    body = chat(stream=True)
    async with node.client.post(node.url + CHAT, data=body, headers=chosen()):
        assert node.running("llamacpp:1", "echo") == 1
        yield
