"""Issue 3, item 20: whose key an engine sees, who sees none, and proxies of the environment."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest

from pair.agent.service import Node
from pair.bench.echo_engine.engine import EchoEngine
from pair.bench.echo_engine.settings import EchoSettings
from pair.bench.runner import Target, run_through
from pair.bench.workload import Workload
from pair.cli.examination import with_key
from pair.cli.running_proxy import RunningProxy
from pair.core.names import NodeId
from pair.engines.question import question_session
from pair.errors import SettingsError
from pair.proxy.service import Proxy
from pair.relay.credentials import credential_of
from pair.settings import FixedNode, NamedEngine, NodeSettings, QueueSettings, Settings
from tests.proxy.raw_engine import RawEngine, page, raw_engine
from tests.relay.wires import client
from tests.support.chain import chain
from tests.support.house import FAST, House, chat, house

OWN = "sk-of-the-node-42"
THEIRS = "sk-of-the-client-7"
VARIABLE = "TEST_NODE_KEY"
SHUT = replace(FAST, persona="vllm", api_key=OWN)
"""Shows not even its models without its key."""
PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


@dataclass(frozen=True)
class Seen:
    """The keys that an engine got, lower-case names."""

    authorization: list[str]
    x_api_key: list[str]


async def seen_by(engine: RawEngine, home: House, path: str, *headers: str) -> Seen:
    """What the engine gets of a call with these headers."""
    async with client(home.proxy.addresses[0]) as wire:
        body = json.dumps(chat("raw"))
        lines = [f"POST {path} HTTP/1.1", "Host: localhost", *headers]
        lines += [f"Content-Length: {len(body)}", "", body]
        await wire.send("\r\n".join(lines).encode())
        call = await engine.next_call()
        await call.send(page(b"{}"))
        await call.wire.close()
        assert (await wire.answer()).status == 200
    got: dict[str, list[str]] = {"authorization": [], "x-api-key": []}
    for line in call.head.decode().split("\r\n")[1:]:
        name, _, value = line.partition(": ")
        if name.lower() in got:
            got[name.lower()].append(value)
    return Seen(got["authorization"], got["x-api-key"])


@asynccontextmanager
async def raw_house(**options: str) -> AsyncIterator[tuple[RawEngine, House]]:
    async with raw_engine() as engine:
        settings = replace(Settings(), nodes=(FixedNode(engine.url, **options),))  # type: ignore[arg-type]  # only texts
        async with house(settings=settings) as home:
            await home.until(lambda: bool(home.proxy.scheduler.fleet.names()))
            yield engine, home


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    file = tmp_path / "key"
    file.write_text(f"{OWN}\n")
    return file


async def test_20_without_a_key_of_its_own_the_client_s_passes_on() -> None:
    async with raw_house() as (engine, home):
        sent = (f"Authorization: Bearer {THEIRS}", f"X-Api-Key: {THEIRS}")
        seen = await seen_by(engine, home, "/v1/chat/completions", *sent)
        assert seen == Seen([f"Bearer {THEIRS}"], [THEIRS])
        assert await seen_by(engine, home, "/v1/chat/completions") == Seen([], [])


async def test_20_a_node_s_own_key_replaces_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, OWN)
    async with raw_house(key_env=VARIABLE) as (engine, home):
        own = f"Bearer {OWN}"
        for path, headers, expected in (
            ("/v1/chat/completions", (), Seen([own], [])),
            ("/v1/chat/completions", (f"Authorization: Bearer {THEIRS}",), Seen([own], [])),
            ("/v1/chat/completions", (f"x-api-key: {THEIRS}",), Seen([own], [OWN])),
            ("/v1/messages", (), Seen([own], [OWN])),
        ):
            assert await seen_by(engine, home, path, *headers) == expected


async def test_20_through_a_node_the_client_s_key_reaches_the_engine() -> None:
    async with chain(replace(FAST, api_key="")) as built:
        reply = await built.house.send(chat(), Authorization=f"Bearer {THEIRS}")
        assert reply.status == 200


@asynccontextmanager
async def node_house(*engines: NamedEngine) -> AsyncIterator[House]:
    """A proxy and a node with these engines, entered when the proxy knows their models."""
    mine = NodeSettings(listen="127.0.0.1:0", engines=engines, find_engines=False)
    settings = replace(Settings(), node=mine)
    async with Node(settings, node_id=NodeId("n"), name="n", version="test") as node:
        settings = replace(settings, nodes=(FixedNode(f"http://{node.address}"),))
        async with house(settings=settings) as home:
            await home.until(lambda: bool(home.proxy.scheduler.fleet.names()))
            yield home


async def test_20_a_node_puts_its_engine_s_own_key_in_place_of_the_client_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VARIABLE, OWN)
    named, own = partial(NamedEngine, key_env=VARIABLE), f"Bearer {OWN}"
    async with raw_engine() as engine, node_house(named(engine.url)) as home:
        for path, headers, expected in (
            ("/v1/chat/completions", (f"Authorization: Bearer {THEIRS}",), Seen([own], [])),
            ("/v1/messages", (f"x-api-key: {THEIRS}",), Seen([own], [OWN])),
        ):
            assert await seen_by(engine, home, path, *headers) == expected


async def test_20_a_node_asks_its_engine_with_its_key(key_file: Path) -> None:
    named = partial(NamedEngine, key_file=str(key_file))
    async with (
        EchoEngine(SHUT) as engine,
        node_house(named(engine.url)) as home,
    ):
        assert (await home.send(chat(), Authorization=f"Bearer {THEIRS}")).status == 200


async def test_20_an_engine_behind_a_key_is_asked_with_it_and_served(key_file: Path) -> None:
    async with EchoEngine(SHUT) as engine:
        node = FixedNode(engine.url, key_file=str(key_file))
        async with house(settings=replace(Settings(), nodes=(node,))) as home:
            await home.until(lambda: bool(home.proxy.scheduler.fleet.names()))
            assert (await home.send(chat(), Authorization=f"Bearer {THEIRS}")).status == 200


async def test_20_a_key_file_that_changes_is_read_again(key_file: Path) -> None:
    async with raw_house(key_file=str(key_file)) as (engine, home):
        seen = await seen_by(engine, home, "/v1/chat/completions")
        await asyncio.to_thread(key_file.write_text, "sk-next-one\n")
        renewed = await seen_by(engine, home, "/v1/chat/completions")
        await asyncio.to_thread(key_file.unlink)
        kept = await seen_by(engine, home, "/v1/chat/completions")
    assert seen.authorization == [f"Bearer {OWN}"]
    assert renewed.authorization == kept.authorization == ["Bearer sk-next-one"]


AT_ONCE = replace(Settings(), queue=QueueSettings(start_grace_s=0.0))
"""No call waits for a node that may yet be found just after the start."""


@asynccontextmanager
async def locked(*engines: EchoSettings, nodes: bool) -> AsyncIterator[House]:
    """A house in which nobody has named a key."""
    async with AsyncExitStack() as stack:
        if nodes:
            built = await stack.enter_async_context(chain(*engines, settings=AT_ONCE))
            yield built.house
        else:
            yield await stack.enter_async_context(house(*engines, settings=AT_ONCE))


@pytest.mark.parametrize("nodes", [False, True])
async def test_20_without_a_key_of_its_own_who_brings_the_engine_s_is_served(nodes: bool) -> None:
    """An engine that shows its models to all, as llama.cpp does, and answers only with a key."""
    async with locked(replace(FAST, api_key=OWN), nodes=nodes) as home:
        for headers in ({"Authorization": f"Bearer {OWN}"}, {"x-api-key": OWN}):
            assert (await home.send(chat(), **headers)).status == 200
        wrong = await home.send(chat(), Authorization=f"Bearer {THEIRS}")
        assert (wrong.status, wrong.headers["x-pair-attempts"]) == (401, "1")
        assert (await home.send(chat(), Authorization=f"Bearer {OWN}")).status == 200
        none = await home.send(chat())
        assert none.status == 503
        assert "key_env" in none.body.decode()
        home.assert_books_are_clean()


@pytest.mark.parametrize("nodes", [False, True])
async def test_20_a_client_s_key_draws_no_call_away_from_an_open_engine(nodes: bool) -> None:
    shut = replace(FAST, api_key=OWN, slots=4)
    async with locked(shut, replace(FAST, slots=1), nodes=nodes) as home:
        async with asyncio.TaskGroup() as tasks:
            calls = [
                tasks.create_task(home.send(chat(), Authorization=f"Bearer {key}"))
                for key in (OWN, THEIRS) * 4
            ]
        answers = [call.result() for call in calls]
        assert {answer.status for answer in answers} == {200}
        assert {answer.headers["x-pair-node"] for answer in answers} == {"node-1"}


async def test_20_an_engine_behind_a_key_without_one_says_what_to_do() -> None:
    async with EchoEngine(SHUT) as engine:
        settings = replace(Settings(), nodes=(FixedNode(engine.url),))
        async with house(settings=settings) as home:
            await home.ready(1)
            (node,) = home.proxy.scheduler.membership.nodes.values()
            assert any("key_env" in warning for warning in node.warnings), node.warnings


@pytest.mark.parametrize(
    "options", [{"key_env": "TEST_NO_SUCH_KEY"}, {"key_file": "/nonexistent/key"}]
)
async def test_20_a_key_that_is_not_there_ends_the_start(options: dict[str, str]) -> None:
    node = FixedNode("http://127.0.0.1:1", **options)  # type: ignore[arg-type]  # only texts
    with pytest.raises(SettingsError, match=next(iter(options.values()))):
        async with Proxy(replace(Settings(), nodes=(node,)), proxy_id="test"):
            pass
    mine = NodeSettings(engines=(NamedEngine("http://127.0.0.1:1", **options),))
    with pytest.raises(SettingsError, match=next(iter(options.values()))):
        Node(Settings(node=mine), node_id=NodeId("n"), name="n", version="test")


async def test_20_keys_are_in_no_log_snapshot_error_or_repr(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv(VARIABLE, OWN)
    async with raw_house(key_env=VARIABLE) as (engine, home):
        await seen_by(engine, home, "/v1/messages", f"x-api-key: {THEIRS}")
        async with home.client.get("/pair/v1/snapshot") as answer:
            page_of_all = await answer.text()
        given = FixedNode(engine.url, key_env=VARIABLE)
        key = credential_of(given)
        shown = [caplog.text, page_of_all, repr(key), str(key), repr(given)]
        failed = await home.send(chat("no-such-model"), Authorization=f"Bearer {THEIRS}")
        shown.append(failed.body.decode())
    for text in shown:
        assert OWN not in text
        assert THEIRS not in text


async def test_20_pair_s_own_headers_never_leave() -> None:
    async with raw_house() as (engine, home), client(home.proxy.addresses[0]) as wire:
        lines = ["POST /v1/embeddings?model=raw HTTP/1.1", "Host: a", "x-pair-job: j"]
        lines += ["X-Pair-Key: pk-1", "Proxy-Authorization: Basic eA==", "Content-Length: 0"]
        await wire.send("\r\n".join([*lines, "", ""]).encode())
        call = await engine.next_call()
        await call.send(page(b"{}"))
        assert b"x-pair" not in call.head.lower()
        assert b"proxy-authorization" not in call.head.lower()


@asynccontextmanager
async def trap(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[str]]:
    """A proxy in the environment that takes whatever comes and counts it."""
    caught: list[str] = []

    def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        caught.append(str(writer.get_extra_info("peername")))
        writer.close()

    listening = await asyncio.start_server(accept, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    for name in PROXY_VARIABLES:
        monkeypatch.setenv(name, url)
        monkeypatch.setenv(name.lower(), url)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    try:
        yield caught
    finally:
        listening.close()


async def test_20_no_proxy_of_the_environment_captures_a_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Probes, calls, the node's looks, what the command line asks, and the client of the bench."""
    async with trap(monkeypatch) as caught, chain(FAST, EchoSettings()) as built:
        home = built.house
        assert (await home.send(chat())).status == 200
        async with RunningProxy(home.base_url) as running:
            assert (await running.snapshot())["nodes"]
        async with question_session(5.0) as session:
            found = await with_key(session, FixedNode(home.engines[0].url), "it")
        assert found.verdict == "fine"
        target = Target(f"{home.base_url}/v1")
        try:
            run = await run_through(target, Workload("echo", calls=2, output_tokens=4), print)
        finally:
            await target.close()
        assert len(run.answers) == 2
        assert not caught
