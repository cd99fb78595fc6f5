"""Asking nodes how they are: several addresses, false identities, nonsense, silence, the end."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import pytest

from pair.agent.service import Node
from pair.bench.echo_engine.engine import EchoEngine
from pair.bench.echo_engine.settings import EchoSettings, PersonaName
from pair.core.events import NodeSighted, NodeWithdrawn
from pair.core.membership import Node as KnownNode
from pair.core.names import EngineName, ModelName, NodeId, Phase
from pair.core.reports import NodeReport, ReplicaReport
from pair.engines.question import ANSWER_LIMIT_BYTES
from pair.settings import FixedNode, NamedEngine, NodeSettings, ProbingSettings, Settings
from pair.wire.node_report import REPORT_PATH, encode_report
from tests.proxy.raw_engine import MODELS, SILENCE, model_list, page, raw_engine
from tests.support.house import FAST, House, chat, house

QUICK = ProbingSettings(
    interval_s=0.05, suspect_interval_s=0.05, limit_s=1.0, lost_interval_s=0.05, forget_s=3600.0
)
STEADY = EchoSettings(prefill_rate_tokens_per_s=1e9, decode_rate_tokens_per_s=100.0)


@asynccontextmanager
async def probing(*fixed: FixedNode, limits: ProbingSettings = QUICK) -> AsyncIterator[House]:
    """A proxy that knows only these."""
    async with house(settings=Settings(nodes=fixed, probing=limits)) as built:
        yield built


@asynccontextmanager
async def pair_node(
    engine: EchoEngine, node_id: str = "n1", *, port: int = 0
) -> AsyncIterator[str]:
    """A real node in front of an engine; its URL."""
    settings = NodeSettings(
        listen=f"127.0.0.1:{port}",
        engines=(NamedEngine(engine.url),),
        find_engines=False,
        busy_look_s=0.02,
        idle_look_s=0.05,
        find_s=0.05,
    )
    node = Node(Settings(node=settings), node_id=NodeId(node_id), name="pc", version="9.9")
    async with node:
        yield f"http://{node.address}"


def sight(built: House, node: str, *urls: str, fixed: bool = False) -> None:
    """A record says that it exists, at these addresses."""
    built.proxy.dispatcher.feed(NodeSighted(NodeId(node), node, urls, fixed))


def known(built: House) -> dict[str, KnownNode]:
    """The nodes in the proxy's table, by id."""
    return {str(node.id): node for node in built.proxy.scheduler.membership.nodes.values()}


async def until_serving(built: House, node: str) -> None:
    """Wait until it is ready and holds a model."""
    await built.until(
        lambda: (
            node in known(built)
            and known(built)[node].phase is Phase.READY
            and bool(known(built)[node].replicas)
        )
    )


async def until_reason(built: House, node: str, words: str) -> KnownNode:
    """Wait until it has missed a probe for this reason."""
    await built.until(lambda: node in known(built) and words in known(built)[node].reason)
    return known(built)[node]


def own_report(node: str = "n9", **more: object) -> bytes:
    """The page of a `pair` node with one model on one slot."""
    replica = ReplicaReport(EngineName("generic:1"), "generic", ModelName("raw"))
    said = json.loads(encode_report(NodeReport(NodeId(node), "desk", "9.9", replicas=(replica,))))
    return page(json.dumps({**said, **more}).encode())


# --- several addresses --------------------------------------------------------------------------


@pytest.mark.parametrize("dead_first", [True, False])
async def test_of_a_dead_and_a_live_address_the_live_one_is_used(dead_first: bool) -> None:
    async with (
        raw_engine(listening=False) as dead,
        EchoEngine(FAST) as engine,
        pair_node(engine) as url,
        probing() as built,
    ):
        sight(built, "n1", *((dead.url, url) if dead_first else (url, dead.url)))
        await until_serving(built, "n1")
        for _ in range(3):
            reply = await built.send(chat())
            assert (reply.status, reply.headers["x-pair-attempts"]) == (200, "1")
            assert reply.headers["x-pair-node"] == "pc"


async def test_an_address_that_hangs_does_not_hold_up_one_that_answers() -> None:
    async with (
        raw_engine() as hanging,
        EchoEngine(FAST) as engine,
        pair_node(engine) as url,
        probing(limits=replace(QUICK, limit_s=30.0)) as built,
    ):
        await hanging.jam()
        start = time.perf_counter()
        sight(built, "n1", hanging.url, url)
        await until_serving(built, "n1")
        assert time.perf_counter() - start < 3.0
        assert (await built.send(chat())).headers["x-pair-attempts"] == "1"


async def test_when_an_address_dies_another_one_takes_over() -> None:
    async with EchoEngine(FAST) as engine, pair_node(engine) as stays, probing() as built:
        async with pair_node(engine) as goes:
            sight(built, "n1", goes)
            await until_serving(built, "n1")
            sight(built, "n1", goes, stays)
        await built.until(lambda: known(built)["n1"].phase is not Phase.READY)
        await until_serving(built, "n1")
        assert (await built.send(chat())).headers["x-pair-attempts"] == "1"


async def test_a_node_without_an_address_is_missed_in_words() -> None:
    async with probing() as built:
        sight(built, "n1")
        assert (await until_reason(built, "n1", "it has no address")).phase is not Phase.READY


# --- identities ---------------------------------------------------------------------------------


async def test_an_address_where_another_node_answers_is_not_this_nodes() -> None:
    async with EchoEngine(FAST) as engine, pair_node(engine) as url, probing() as built:
        sight(built, "ghost", url)
        ghost = await until_reason(built, "ghost", f"another node (pc) answers at {url}")
        assert not ghost.replicas
        assert set(known(built)) == {"ghost"}, "nobody has sighted the other one"


async def test_bytes_of_another_node_do_not_keep_a_node_alive() -> None:
    # Some bytes come during each probe.
    flowing = replace(STEADY, decode_rate_tokens_per_s=2000.0)
    async with EchoEngine(flowing) as engine, pair_node(engine) as url, probing() as built:
        sight(built, "n1", url)
        await until_serving(built, "n1")
        client = await built.raw()
        client.post(chat(tokens=20_000, stream=True))
        await client.until(b"data:")
        sight(built, "ghost", url)
        await built.until(lambda: known(built)["ghost"].phase is Phase.LOST)
        assert known(built)["n1"].phase is Phase.READY
        assert engine.journal.counters.running == 1, "n1's stream was running all the while"
        client.hang_up()
        await built.quiet()


async def test_a_pair_node_named_by_its_url_is_known_by_its_id() -> None:
    async with (
        EchoEngine(EchoSettings(slots=2)) as engine,
        pair_node(engine) as url,
        probing(FixedNode(url, name="mine")) as built,
    ):
        await until_serving(built, "n1")
        sight(built, "n1", url)  # mDNS tells of it, too
        sight(built, "n1", url, "http://127.0.0.1:9")
        await until_serving(built, "n1")
        (node,) = known(built).values()
        assert (node.id, node.name, node.fixed) == ("n1", "pc", True)
        (model,) = built.snapshot().models
        assert (model.nodes, model.slots) == (1, 2)
        built.proxy.dispatcher.feed(NodeWithdrawn(NodeId("n1")))
        assert known(built)["n1"].phase is Phase.READY


async def test_a_pair_node_named_in_two_ways_is_one_node() -> None:
    async with EchoEngine(FAST) as engine, pair_node(engine) as url:
        other = url.replace("127.0.0.1", "localhost")
        async with probing(FixedNode(url), FixedNode(other)) as built:
            await built.until(lambda: set(known(built)) == {"n1"})
            await until_serving(built, "n1")
            assert set(known(built)["n1"].addresses) == {url, other}
            assert [model.slots for model in built.snapshot().models] == [1]


async def test_a_known_node_that_is_then_named_by_its_url_keeps_its_work() -> None:
    async with EchoEngine(STEADY) as engine, pair_node(engine) as url, probing() as built:
        sight(built, "n1", url)
        await until_serving(built, "n1")
        client = await built.raw()
        client.post(chat(tokens=30, stream=True))
        await client.until(b"data:")
        sight(built, url, url, fixed=True)
        await built.until(lambda: set(known(built)) == {"n1"} and known(built)["n1"].fixed)
        assert built.snapshot().in_flight == 1
        assert b"[DONE]" in await client.rest_or_done()
        (model,) = built.snapshot().models
        assert model.slots == 1
        await built.quiet()
        built.assert_books_are_clean()


async def test_a_bare_engine_that_becomes_a_pair_node_is_known_by_its_id() -> None:
    async with raw_engine() as engine, probing(FixedNode(engine.url)) as built:
        await until_serving(built, engine.url)
        await engine.vanish()
        await until_reason(built, engine.url, "no connection")
        engine.come_back({REPORT_PATH: own_report(), MODELS: model_list("raw")})
        await until_serving(built, "n9")
        assert set(known(built)) == {"n9"}


async def test_an_address_that_the_user_named_goes_to_whoever_answers_there() -> None:
    async with EchoEngine(FAST) as engine, AsyncExitStack() as later:
        async with pair_node(engine) as url:
            port = int(url.rpartition(":")[2])
            built = await later.enter_async_context(probing(FixedNode(url, name="attic")))
            await until_serving(built, "n1")
        async with pair_node(engine, "n2", port=port):
            await until_serving(built, "n2")
            assert set(known(built)) == {"n2"}, "the address was all that was known of the other"
            assert (await built.send(chat())).headers["x-pair-attempts"] == "1"
        async with EchoEngine(replace(FAST, listen=f"127.0.0.1:{port}")):
            await until_serving(built, url)
            assert [(node.id, node.name) for node in known(built).values()] == [(url, "attic")]
            assert (await built.send(chat())).status == 200
        await until_reason(built, url, "no connection")
        async with pair_node(engine, port=port):
            await until_serving(built, "n1")
            assert set(known(built)) == {"n1"}


async def test_a_lost_node_that_is_found_elsewhere_too_only_gives_the_named_address_away() -> None:
    async with (
        raw_engine(listening=False) as dead,
        EchoEngine(FAST) as engine,
        AsyncExitStack() as later,
    ):
        async with pair_node(engine) as url:
            port = int(url.rpartition(":")[2])
            built = await later.enter_async_context(probing(FixedNode(url)))
            await until_serving(built, "n1")
            sight(built, "n1", dead.url)
        async with pair_node(engine, "n2", port=port):
            await until_serving(built, "n2")
            gone = known(built)["n1"]
            assert (gone.phase, gone.fixed, gone.addresses) == (Phase.LOST, False, (dead.url,))
            assert known(built)["n2"].addresses == (url,)


async def test_a_pair_node_that_fails_to_report_is_not_taken_for_its_engine() -> None:
    """It still passes on `/v1/models`, by which an engine is recognised."""
    pages = {REPORT_PATH: own_report(), MODELS: model_list("raw")}
    async with raw_engine(pages=pages) as node, probing(FixedNode(node.url)) as built:
        await until_serving(built, "n9")
        node.pages[REPORT_PATH] = page(b"Too many connections.", 503)
        lost = await until_reason(built, "n9", "is not a pair node (status 503)")
        await built.until(lambda: lost.phase is Phase.LOST)
        assert set(known(built)) == {"n9"}
        node.pages[REPORT_PATH] = own_report()
        await until_serving(built, "n9")


# --- what is no answer --------------------------------------------------------------------------


async def test_an_engine_of_an_unknown_kind_says_so() -> None:
    async with raw_engine(pages={}) as stranger, probing(FixedNode(stranger.url)) as built:
        node = await until_reason(built, stranger.url, "not as any inference engine")
        assert not node.unreachable, "it did connect"


@pytest.mark.parametrize("fixed", [True, False])
async def test_silence_is_not_the_same_as_no_connection(fixed: bool) -> None:
    limits = ProbingSettings(interval_s=0.05, suspect_interval_s=0.05, limit_s=0.1)
    pages = {REPORT_PATH: SILENCE, MODELS: SILENCE}
    async with (
        raw_engine(pages=pages) as silent,
        raw_engine(listening=False) as closed,
        probing(limits=limits) as built,
    ):
        sight(built, silent.url if fixed else "silent", silent.url, fixed=fixed)
        sight(built, closed.url if fixed else "closed", closed.url, fixed=fixed)
        quiet, gone = known(built).values()
        await built.until(lambda: quiet.phase is gone.phase is Phase.LOST)
        assert f"no answer from {silent.url}" in quiet.reason
        assert f"no connection to {closed.url}/pair/v1/report: Connection refused" in gone.reason
        assert (quiet.unreachable, gone.unreachable) == (0, gone.misses)


NONSENSE = {
    "long": (page(b'{"v": 1, ' + b" " * ANSWER_LIMIT_BYTES + b"}"), "is larger than"),
    "bomb": (page(gzip.compress(bytes(2**24)), 200, "Content-Encoding: gzip"), "is larger than"),
    "text": (page(b"hello"), "the report can't be read"),
    "deep": (page(b"[" * 100_000), "the report can't be read"),
    "no id": (page(b'{"v": 1, "node": "", "name": "x"}'), "the report can't be read"),
    "newer": (own_report("n1", v=2), "has version 2"),
    "torn replica": (own_report("n1", replicas=[{"engine": "e"}]), "the report can't be read"),
    "empty": (page(b""), "the report can't be read"),
    "not gzip": (page(b"hm", 200, "Content-Encoding: gzip"), "broke its answer off"),
    "half": (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", "broke its answer off"),
    "not HTTP": (b"\x16\x03\x01", "does not answer as HTTP"),
    "moved": (page(b"", 302, "Location: http://127.0.0.1:9/"), "a pair node (status 302)"),
    "forbidden": (page(b"no", 401), "is not a pair node (status 401)"),
}


@pytest.mark.parametrize("kind", NONSENSE)
async def test_nonsense_for_a_report_is_a_missed_probe_in_words(kind: str) -> None:
    answer, words = NONSENSE[kind]
    async with raw_engine(pages={REPORT_PATH: answer}) as liar, probing() as built:
        sight(built, "n1", liar.url)
        node = await until_reason(built, "n1", words)
        assert not node.replicas
        assert not node.unreachable
        liar.pages[REPORT_PATH] = own_report("n1")
        await until_serving(built, "n1")


@pytest.mark.parametrize("persona", ["llamacpp", "ollama", "lmstudio", "vllm", "sglang", "generic"])
async def test_an_engine_of_any_kind_that_is_named_by_its_url_serves(persona: PersonaName) -> None:
    """LM Studio says 200 to every path, that of the report included."""
    async with house(replace(FAST, persona=persona)) as built:
        assert (await built.send(chat())).status == 200


async def test_a_probe_that_fails_by_our_own_mistake_is_logged_and_missed(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def mistaken(*_: object) -> NodeReport:
        raise ZeroDivisionError

    monkeypatch.setattr("pair.proxy.prober.report_of", mistaken)
    async with probing() as built:
        sight(built, "n1", "http://127.0.0.1:1")
        node = await until_reason(built, "n1", "the probe itself failed")
        assert node.phase is not Phase.READY
    assert "probe of n1" in caplog.text
    caplog.clear()


async def test_slots_for_an_address_where_pair_runs_are_said_to_be_ignored() -> None:
    async with (
        EchoEngine(FAST) as engine,
        pair_node(engine) as url,
        probing(FixedNode(url, slots=7)) as built,
    ):
        await until_serving(built, "n1")
        assert any("slots=7" in words for words in known(built)["n1"].warnings)


# --- the end ------------------------------------------------------------------------------------


async def test_the_end_in_the_middle_of_probes_is_quick_and_quiet() -> None:
    pages = {REPORT_PATH: SILENCE, MODELS: SILENCE}
    async with raw_engine(pages=pages) as silent, raw_engine() as hanging:
        await hanging.jam()
        limits = ProbingSettings(limit_s=60.0)
        fixed = (FixedNode(silent.url), FixedNode(hanging.url))
        async with probing(*fixed, limits=limits) as built:
            sight(built, "n1", silent.url, hanging.url)
            await built.until(lambda: silent.accepted == 2)
            start = time.perf_counter()
        assert time.perf_counter() - start < 1.0


async def test_an_answer_that_comes_with_the_end_is_dropped() -> None:
    async with EchoEngine(FAST) as engine, pair_node(engine) as url:
        for turns in range(6):
            async with probing() as built:
                sight(built, "n1", url)
                for _ in range(turns):
                    await asyncio.sleep(0)
            assert set(known(built)) == {"n1"}
