from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Literal

import aiohttp
import pytest

from pair.bench.echo_engine import EchoEngine, EchoModel, EchoSettings
from pair.cli.examination import (
    Finding,
    announced,
    engines,
    examine,
    named,
    network,
    own_node,
    with_key,
)
from pair.cli.wiring import running_node
from pair.core.names import NodeId
from pair.discovery.advertiser import Advertiser
from pair.discovery.browser import Reach
from pair.engines.finder import EngineFinder
from pair.settings import FixedNode, NamedEngine, NodeSettings, ProxySettings, Settings
from pair.wire.advert import Advert
from tests.cli.conftest import Pages

ECHO = EchoSettings(models=(EchoModel("tiny"), EchoModel("big")))
LISTEN_S = 1.0


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as opened:
        yield opened


def free_address() -> str:
    """Where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"127.0.0.1:{taken.getsockname()[1]}"


def test_the_network_is_looked_at() -> None:
    assert network().subject == "network"
    assert network().verdict in ("fine", "note")


async def test_where_nothing_runs_everything_is_a_note_but_what_was_named(
    session: aiohttp.ClientSession,
) -> None:
    nobody = f"http://{free_address()}"
    settings = Settings(
        proxy=ProxySettings(listen=(free_address(),), discovery=False),
        node=NodeSettings(listen=free_address(), engines=(NamedEngine(nobody),)),
        nodes=(FixedNode(nobody),),
    )
    found = {finding.subject: finding for finding in await examine(settings, Reach.MACHINE)}
    assert found["proxy"].words.startswith("none at http://127.0.0.1:")
    assert found["node here"].words.startswith("none at http://127.0.0.1:")
    wrong = [finding.subject for finding in found.values() if finding.verdict == "wrong"]
    assert wrong == [f"named engine {nobody}", f"named node {nobody}"]
    assert found["mDNS"] == Finding("mDNS", "note", "turned off by proxy.discovery")


async def test_engines_and_named_nodes_are_told_with_what_they_are(
    session: aiohttp.ClientSession,
) -> None:
    async with EchoEngine(replace(ECHO, persona="ollama")) as engine:
        port = int(engine.url.rpartition(":")[2])
        (finding,) = await engines(session, EngineFinder([port]))
        assert finding == Finding(f"engine ollama:{port}", "fine", "tiny, big")
        kind = Finding(f"named node {engine.url}", "fine", "an engine of the kind ollama")
        assert await named(session, engine.url, f"named node {engine.url}") == kind
        (nothing,) = await engines(session, EngineFinder([]))
        assert nothing.verdict == "note"


@pytest.mark.parametrize("persona", ["llamacpp", "vllm"])
async def test_a_named_engine_is_asked_with_its_key(
    session: aiohttp.ClientSession,
    monkeypatch: pytest.MonkeyPatch,
    persona: Literal["llamacpp", "vllm"],
) -> None:
    monkeypatch.setenv("TEST_DOCTOR_KEY", "sk-1")
    async with EchoEngine(replace(ECHO, persona=persona, api_key="sk-1")) as engine:
        known = NamedEngine(engine.url, key_env="TEST_DOCTOR_KEY")
        found = await with_key(session, known, "it")
        assert found.verdict != "wrong"
        assert found.words.startswith(f"an engine of the kind {persona}")
        without = await with_key(session, NamedEngine(engine.url), "it")
        assert without.verdict == "wrong"
        assert "name one with key_env or key_file" in without.words
        missing = await with_key(session, NamedEngine(engine.url, key_env="TEST_NO_KEY"), "it")
        assert (missing.verdict, "TEST_NO_KEY" in missing.words) == ("wrong", True)


async def test_a_node_is_heard_and_reached(session: aiohttp.ClientSession) -> None:
    async with EchoEngine(ECHO) as engine:
        node = NodeSettings(
            name=f"attic-{secrets.token_hex(3)}",
            listen="127.0.0.1:0",
            engines=(NamedEngine(engine.url),),
            find_engines=False,
        )
        async with running_node(Settings(node=node), NodeId(secrets.token_hex(16))) as running:
            async with asyncio.timeout(20):
                while len(running.report().replicas) < 2:  # noqa: ASYNC110 - no bell
                    await asyncio.sleep(0.01)
            heard = await announced(session, Reach.MACHINE, LISTEN_S)
            url = f"http://{running.address}"
            (mine,) = [each for each in heard if each.subject == f"node {node.name}"]
            assert mine.verdict == "fine"
            assert f"heard, and answers at {url}, " in mine.words
            here = Settings(node=replace(node, listen=running.address))
            assert (await own_node(session, here)).verdict == "fine"
            by_name = await named(session, url, "it")
            assert (by_name.verdict, by_name.words) == ("fine", "2 models: tiny, big")


async def test_a_node_that_is_heard_but_not_reached_is_wrong(
    session: aiohttp.ClientSession, pages: Pages
) -> None:
    name = f"cellar-{secrets.token_hex(3)}"
    port = int(pages.url.rpartition(":")[2])
    advert = Advert(NodeId(secrets.token_hex(16)), name)
    async with Advertiser(advert, "127.0.0.1", port):
        heard = await announced(session, Reach.MACHINE, LISTEN_S)
    (mine,) = [each for each in heard if each.subject == f"node {name}"]
    assert mine.verdict == "wrong"
    assert f"what answers at {pages.url} is not a pair node" in mine.words


async def test_what_stands_where_the_node_should_be_is_told(
    session: aiohttp.ClientSession, pages: Pages
) -> None:
    settings = Settings(node=NodeSettings(listen=pages.url.removeprefix("http://")))
    assert (await own_node(session, settings)).verdict == "wrong"
    assert (await named(session, pages.url, "it")).verdict == "wrong"
