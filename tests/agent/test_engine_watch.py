"""Engines that come, change, fall silent and go, as the book shows them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import replace

import aiohttp

from pair.agent.admission import Admission
from pair.agent.engine_book import EngineBook, LocalEngine
from pair.agent.engine_watch import EngineWatch
from pair.bench.echo_engine import EchoEngine, EchoModel, EchoSettings
from pair.core.reports import ReplicaReport, ReplicaState
from pair.engines.engine import Engine
from pair.engines.finder import EngineFinder
from pair.settings import NamedEngine, NodeSettings
from tests.agent.face import SOON_S, UPSTREAM, chat, face, until
from tests.proxy.raw_engine import MODELS, model_list, page, raw_engine

QUICK = NodeSettings(busy_look_s=0.01, idle_look_s=0.02, find_s=0.02, look_limit_s=2.0, gone_s=60.0)
SLOW_ANSWER = EchoSettings(slots=2, decode_rate_tokens_per_s=200, answer_tokens=1_000_000)

GRACE_S = 0.2

LLAMACPP = {MODELS: model_list("m"), "/props": page(b'{"total_slots": 2}')}


class Watched:
    """A watch over named engines, and what it has written."""

    def __init__(
        self,
        *urls: str,
        slots: int = 0,
        pace: NodeSettings = QUICK,
        finder: EngineFinder | None = None,
    ) -> None:
        self.changes = 0
        self.admission = Admission()
        self.book = EngineBook(self.admission)
        self.watch = EngineWatch(
            self.book,
            self.admission,
            UPSTREAM,
            replace(pace, engines=tuple(map(NamedEngine, urls)), slots=slots),
            left_grace_s=GRACE_S,
            engines=(),
            finder=finder,
            changed=self._change,
        )

    def _change(self) -> None:
        self.changes += 1

    @property
    def engines(self) -> list[LocalEngine]:
        return list(self.book.engines)

    @property
    def replicas(self) -> tuple[ReplicaReport, ...]:
        return self.book.replicas()

    def states(self) -> list[ReplicaState]:
        return [replica.state for replica in self.replicas]

    async def ready(self) -> None:
        await until(lambda: ReplicaState.READY in self.states())


@asynccontextmanager
async def watching(
    *urls: str, slots: int = 0, pace: NodeSettings = QUICK, finder: EngineFinder | None = None
) -> AsyncIterator[Watched]:
    watched = Watched(*urls, slots=slots, pace=pace, finder=finder)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(watched.watch.run())
        yield watched
        task.cancel()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


async def test_a_named_engine_is_entered_with_its_models_and_slots() -> None:
    settings = EchoSettings(models=(EchoModel("a", ("gpt-4o",)),), slots=3, context_tokens=2048)
    async with EchoEngine(settings) as engine, watching(engine.url + "/") as watched:
        await watched.ready()
        (replica,) = watched.replicas
        assert (replica.model, replica.slots, replica.running) == ("a", 3, 0)
        assert (replica.engine, replica.engine_kind) == (watched.engines[0].name, "llamacpp")
        assert watched.watch.warnings() == ()
        assert watched.book.warnings() == ()


async def test_the_users_slots_replace_the_engines() -> None:
    async with (
        EchoEngine(EchoSettings(slots=3)) as engine,
        watching(engine.url, slots=2) as watched,
    ):
        await watched.ready()
        assert [replica.slots for replica in watched.replicas] == [2]


async def test_an_engine_by_two_addresses_is_one() -> None:
    async with EchoEngine() as engine:
        other = engine.url.replace("127.0.0.1", "localhost")
        async with watching(engine.url, engine.url, other) as watched:
            await watched.ready()
            before = engine.journal.counters.requests_by_path.total()
            await engine.journal.until(
                lambda: engine.journal.counters.requests_by_path.total() > before + 20, SOON_S
            )
            assert len(watched.engines) == 1


async def test_an_engine_that_starts_later_is_found_then() -> None:
    port = free_port()
    async with watching(f"http://127.0.0.1:{port}") as watched:
        await until(lambda: watched.watch.warnings() != ())
        assert f"127.0.0.1:{port}" in watched.watch.warnings()[0]
        async with EchoEngine(EchoSettings(listen=f"127.0.0.1:{port}")):
            await watched.ready()
            assert watched.watch.warnings() == ()


async def test_an_engine_on_a_usual_port_is_found_without_being_named() -> None:
    ports = (free_port(), free_port())
    async with watching(finder=EngineFinder(ports)) as watched:
        async with EchoEngine(EchoSettings(listen=f"127.0.0.1:{ports[0]}")):
            await watched.ready()
            async with EchoEngine(EchoSettings(listen=f"127.0.0.1:{ports[1]}")):
                await until(lambda: len(watched.states()) == 2)
        await until(lambda: watched.states() == [ReplicaState.DOWN, ReplicaState.DOWN])


class Noting(EngineFinder):
    """Finds nothing, and notes what it was told not to look for."""

    told: tuple[str, ...] | None = None

    async def look(
        self, session: aiohttp.ClientSession, known: Collection[str] = ()
    ) -> tuple[Engine, ...]:
        self.told = tuple(known)
        return ()


async def test_what_is_named_is_not_looked_for_even_before_it_is_there() -> None:
    """Found first it would be asked and used without the key that the user named for it."""
    port, finder = free_port(), Noting()
    async with watching(f"http://localhost:{port}", finder=finder):
        await until(lambda: finder.told is not None)
    assert finder.told == (f"http://127.0.0.1:{port}",)


async def test_an_engine_that_is_named_and_found_is_one() -> None:
    port = free_port()
    async with (
        EchoEngine(EchoSettings(listen=f"127.0.0.1:{port}")) as engine,
        watching(f"http://localhost:{port}/v1", finder=EngineFinder((port,))) as watched,
    ):
        await watched.ready()
        asked = engine.journal.counters.requests_by_path
        before = asked.total()
        await engine.journal.until(lambda: asked.total() > before + 20, SOON_S)
        assert len(watched.engines) == 1


async def test_an_engine_that_dies_is_down_with_a_warning_until_it_is_back() -> None:
    listen = f"127.0.0.1:{free_port()}"
    async with watching(f"http://{listen}") as watched:
        async with EchoEngine(EchoSettings(listen=listen)) as engine:
            await watched.ready()
            await engine.crash()
            await until(lambda: watched.states() == [ReplicaState.DOWN])
            (warning,) = watched.book.warnings()
            assert "does not answer" in warning
        async with EchoEngine(EchoSettings(listen=listen)):
            await watched.ready()
            assert watched.book.warnings() == ()


async def test_an_engine_that_stays_away_is_taken_out_and_looked_for_anew() -> None:
    listen = f"127.0.0.1:{free_port()}"
    async with watching(f"http://{listen}", pace=replace(QUICK, gone_s=0.05)) as watched:
        async with EchoEngine(EchoSettings(listen=listen)):
            await watched.ready()
            assert watched.engines[0].kind == "llamacpp"
        await until(lambda: watched.engines == [] and watched.watch.warnings() != ())
        async with EchoEngine(EchoSettings(listen=listen, persona="vllm")):
            await watched.ready()
            assert watched.engines[0].kind == "vllm"


async def test_something_happening_there_is_looked_at_at_once() -> None:
    listen = f"127.0.0.1:{free_port()}"
    pace = replace(QUICK, busy_look_s=60, idle_look_s=60)
    async with (
        EchoEngine(EchoSettings(listen=listen)) as engine,
        watching(engine.url, pace=pace) as watched,
    ):
        await watched.ready()
        await engine.crash()
        assert watched.states() == [ReplicaState.READY]
        watched.engines[0].look.set()
        await until(lambda: watched.states() == [ReplicaState.DOWN])


async def test_an_engine_that_is_silent_while_it_works_for_us_is_not_down() -> None:
    async with EchoEngine() as engine, watching(engine.url) as watched:
        await watched.ready()
        local = watched.engines[0]
        replica = local.replicas[0]
        admitted = watched.admission.admit((replica.engine, replica.model), 1)
        assert admitted is not None
        asked = engine.journal.counters.requests_by_path
        engine.faults.set("reset,path=*")
        before = asked.total()
        await engine.journal.until(lambda: asked.total() > before + 10, SOON_S)
        assert watched.states() == [ReplicaState.READY]
        watched.admission.settle(admitted)
        await until(lambda: watched.states() == [ReplicaState.DOWN])


async def test_an_engine_that_no_longer_accepts_while_it_works_for_us_is_not_down() -> None:
    """Its queue of connections is full; without work of ours it would be down."""
    pace = replace(QUICK, look_limit_s=0.05)
    async with raw_engine("m") as engine, watching(engine.url, pace=pace) as watched:
        await watched.ready()
        (replica,) = watched.engines[0].replicas
        admitted = watched.admission.admit((replica.engine, replica.model), 1)
        assert admitted is not None
        await engine.jam()
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + 6 * pace.look_limit_s
        await until(lambda: loop.time() > ends_at)
        assert watched.states() == [ReplicaState.READY]
        watched.admission.settle(admitted)
        await until(lambda: watched.states() == [ReplicaState.DOWN])


async def test_another_kind_in_its_place_is_met_as_another_engine() -> None:
    async with raw_engine(pages=LLAMACPP) as engine, watching(engine.url) as watched:
        await watched.ready()
        assert watched.engines[0].name == f"llamacpp:{engine.port}"
        engine.pages = {MODELS: model_list("other")}
        await until(lambda: [e.name for e in watched.engines] == [f"generic:{engine.port}"])
        await watched.ready()
        assert [replica.model for replica in watched.replicas] == ["other"]


async def test_work_that_came_past_the_node_is_foreign() -> None:
    async with EchoEngine(SLOW_ANSWER) as engine, watching(engine.url) as watched:
        await watched.ready()
        async with (
            aiohttp.ClientSession() as client,
            client.post(engine.url + "/v1/chat/completions", data=chat(stream=True)),
        ):
            await until(lambda: watched.replicas[0].running == 1)
        await until(lambda: watched.replicas[0].running == 0)


async def test_work_of_ours_is_counted_once() -> None:
    async with EchoEngine(SLOW_ANSWER) as engine, watching(engine.url) as watched:
        await watched.ready()
        replica = watched.engines[0].replicas[0]
        admitted = watched.admission.admit((replica.engine, replica.model), 2)
        assert admitted is not None
        async with (
            aiohttp.ClientSession() as client,
            client.post(engine.url + "/v1/chat/completions", data=chat(stream=True)),
        ):
            asked = engine.journal.counters.requests_by_path
            before = asked.total()
            await engine.journal.until(lambda: asked.total() > before + 10, SOON_S)
            assert watched.replicas[0].running == 1
        watched.admission.settle(admitted)
        await until(lambda: watched.replicas[0].running == 0)


async def test_the_slot_of_who_left_is_free_when_the_engine_says_so() -> None:
    async with EchoEngine(SLOW_ANSWER) as engine, watching(engine.url) as watched:
        await watched.ready()
        replica = watched.engines[0].replicas[0]
        key = (replica.engine, replica.model)
        admitted = watched.admission.admit(key, 2)
        assert admitted is not None
        async with (
            aiohttp.ClientSession() as client,
            client.post(engine.url + "/v1/chat/completions", data=chat(stream=True)),
        ):
            left_at = asyncio.get_running_loop().time()
            watched.admission.settle(admitted, left_at=left_at)
            asked = engine.journal.counters.requests_by_path
            before = asked.total()
            await engine.journal.until(lambda: asked.total() > before + 10, SOON_S)
            assert (watched.admission.taken(key), watched.replicas[0].running) == (1, 1)
        await until(lambda: watched.admission.taken(key) == 0)
        assert watched.replicas[0].running == 0


async def test_the_slot_of_who_left_is_free_after_a_grace_where_nobody_counts() -> None:
    async with (
        EchoEngine(EchoSettings(persona="ollama")) as engine,
        watching(engine.url) as watched,
    ):
        await watched.ready()
        replica = watched.engines[0].replicas[0]
        key = (replica.engine, replica.model)
        admitted = watched.admission.admit(key, 1)
        assert admitted is not None
        loop = asyncio.get_running_loop()
        left_at = loop.time()
        watched.admission.settle(admitted, left_at=left_at)
        assert watched.admission.admit(key, 1) is None
        await until(lambda: watched.admission.taken(key) == 0)
        assert loop.time() - left_at >= GRACE_S


async def test_an_engine_that_goes_takes_along_what_drains_there() -> None:
    async with EchoEngine() as engine, watching(engine.url) as watched:
        await watched.ready()
        replica = watched.engines[0].replicas[0]
        key = (replica.engine, replica.model)
        admitted = watched.admission.admit(key, 1)
        assert admitted is not None
        watched.admission.settle(admitted, left_at=asyncio.get_running_loop().time())
        await engine.crash()
        await until(lambda: watched.states() == [ReplicaState.DOWN])
        assert watched.admission.taken(key) == 0


async def test_what_an_engine_says_of_itself_is_a_warning() -> None:
    models = (EchoModel("a"), EchoModel("b\x1b[2J"))
    settings = EchoSettings(persona="generic", models=models)
    async with EchoEngine(settings) as engine, watching(engine.url) as watched:
        await watched.ready()
        assert watched.book.models() == ["a"]
        assert len(watched.book.warnings()) == 1


async def test_a_node_is_no_engine() -> None:
    async with face() as node, watching(node.url) as watched:
        await until(lambda: watched.watch.warnings() != ())
        assert "is a pair node" in watched.watch.warnings()[0]
        assert watched.engines == []


async def test_a_look_that_shows_something_new_is_told_and_one_that_does_not_is_not() -> None:
    async with raw_engine(pages=LLAMACPP) as engine, watching(engine.url) as watched:
        await watched.ready()
        told, asked = watched.changes, engine.accepted
        await until(lambda: engine.accepted > asked + 6)
        assert watched.changes == told
        engine.pages["/props"] = page(b'{"total_slots": 5}')
        await until(lambda: watched.replicas[0].slots == 5)
        assert watched.changes == told + 1
