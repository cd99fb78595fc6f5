"""Item 11 for what still accepts connections and does nothing else: processes that are stopped. A
node with `pair` never has a reason to be silent for long; an engine on its own has one, so its work
stays and only new calls go elsewhere.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from pair.bench.echo_engine import EchoEngine, EchoSettings
from pair.core.membership import Node
from pair.core.names import Outcome, Phase
from pair.settings import FixedNode, ProbingSettings, Settings
from tests.cli.processes import PairProcess, pair_process
from tests.support.house import FAST, WAIT_S, House, chat, house

QUICK = ProbingSettings(
    interval_s=0.03,
    suspect_interval_s=0.03,
    limit_s=0.15,
    lost_interval_s=0.1,
    forget_s=3600.0,
    silence_limit_s=0.6,
)
STEADY = EchoSettings(prefill_rate_tokens_per_s=1e9, decode_rate_tokens_per_s=50.0, slots=4)
FREE = ("--listen", "127.0.0.1:0")


def node_called(built: House, name: str) -> Node:
    (node,) = (n for n in built.proxy.scheduler.membership.nodes.values() if n.name == name)
    return node


def in_flight(built: House, name: str) -> int:
    return sum(replica.in_flight for replica in node_called(built, name).replicas.values())


@asynccontextmanager
async def with_an_engine_process(home: Path) -> AsyncIterator[tuple[House, PairProcess]]:
    """`node-0` is in this process, `other` an engine on its own in another."""
    flags = ("--slots", "4", "--prefill-rate", "inf", "--decode-rate", "50")
    async with pair_process(home, "echo", *FREE, *flags) as process:
        url = (await process.line_with("echo engine at")).split()[3]
        named = Settings(nodes=(FixedNode(url, name="other"),), probing=QUICK)
        async with house(replace(FAST, slots=2), settings=named) as built:
            await built.ready(2)
            yield built, process
            process.signal(signal.SIGCONT)


async def test_11_a_frozen_engine_keeps_its_work_and_gets_new_calls_only_as_the_last_choice(
    tmp_path: Path,
) -> None:
    async with with_an_engine_process(tmp_path) as (built, process), asyncio.TaskGroup() as tasks:
        mine = tasks.create_task(built.send(chat(tokens=10), x_pair_node="other"))
        await built.until(lambda: in_flight(built, "other") == 1)
        process.signal(signal.SIGSTOP)
        other = node_called(built, "other")
        await built.until(lambda: other.misses >= 1)
        built.engines[0].faults.set("black_hole,first=1")
        held = tasks.create_task(built.send(chat()))
        await built.until(lambda: in_flight(built, "node-0") == 1)
        for _ in range(6):
            # One of two slots is in use there and one of four here: it is not for the load.
            async with asyncio.timeout(WAIT_S):
                reply = await built.send(chat())
            assert (reply.status, reply.headers["x-pair-node"]) == (200, "node-0")
        # Longer than a node with `pair` might be silent.
        await built.until(lambda: other.silent_s > 2 * QUICK.silence_limit_s)
        assert (other.phase, in_flight(built, "other")) == (Phase.READY, 1)
        assert "works for us" in other.reason
        built.engines[0].faults.set("black_hole")
        many = [tasks.create_task(built.send(chat())) for _ in range(2)]
        await built.until(lambda: in_flight(built, "node-0") == 2)
        # Nothing waits beside a slot that may be free.
        await built.until(lambda: in_flight(built, "other") == 2)
        process.signal(signal.SIGCONT)
        assert (await mine).status == 200
        await built.until(lambda: sum(task.done() for task in many) == 1)
        for task in (held, *many):
            task.cancel()


async def test_11_the_work_of_a_frozen_node_moves_and_what_has_begun_ends_broken(
    tmp_path: Path,
) -> None:
    assert ProbingSettings().silence_limit_s >= 15.0
    async with EchoEngine(STEADY) as engine:
        flags = ("--no-find-engines", "--engine", engine.url, "--slots", "4", "--name", "cold")
        async with pair_process(tmp_path, "node", *FREE, *flags) as process:
            address = (await process.line_with("node cold at")).split()[3]
            await process.line_with("slots)")
            named = Settings(nodes=(FixedNode(f"http://{address}"),), probing=QUICK)
            async with house(STEADY, settings=named, slots=(1,)) as built:
                await built.ready(2)
                await freeze_between_calls(built, process)


async def freeze_between_calls(built: House, process: PairProcess) -> None:
    """Two calls at the node, one of which has begun, and nowhere else to go until it is lost."""
    elsewhere = {"x_pair_node": "node-0"}
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(built.send(chat(tokens=10), **elsewhere))
        await built.until(lambda: in_flight(built, "node-0") == 1)
        begun = await built.raw()
        begun.post(chat(tokens=1000, stream=True))
        await begun.until(b'"content"')
        waiting = tasks.create_task(built.send(chat(tokens=50)))
        await built.until(lambda: in_flight(built, "cold") == 2)
        process.signal(signal.SIGSTOP)
        cold = node_called(built, "cold")
        await built.until(lambda: cold.phase is Phase.LOST)
        assert cold.silent_s >= QUICK.silence_limit_s
        assert not cold.unreachable, "it accepted every probe"
        rest = await begun.rest_or_done()
        assert b'"error"' in rest
        assert b"is lost" in rest
        moved = await waiting
        assert (moved.status, moved.headers["x-pair-node"]) == (200, "node-0")
        assert json.loads(moved.body)["choices"]
    process.signal(signal.SIGCONT)
    await built.ready(2)
    await built.quiet()
    closed = built.snapshot().closed
    assert (closed[Outcome.ANSWERED], closed[Outcome.FAILED]) == (2, 1)
    built.assert_books_are_clean()
