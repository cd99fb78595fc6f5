"""Item 12: a model that loads for long is no failure. Other nodes come first, a call waits there if
that is the only one, and `pair nodes` says since when.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from pair.bench.echo_engine.engine import EchoEngine
from pair.core.names import Outcome, Phase
from pair.core.reports import ReplicaState
from pair.settings import FixedNode, QueueSettings, Settings
from pair.terminal.panels import nodes_table
from pair.wire.snapshot_json import snapshot_json
from tests.core.house import replica, report
from tests.core.story import Story, answered, call, comes, says
from tests.support.house import FAST, House, chat, house
from tests.terminal.samples import text_of

IMPATIENT = Settings(queue=QueueSettings(start_grace_s=0.1, hopeless_grace_s=0.1))
TEN_MINUTES_S = 600.0


def shown(built: House) -> str:
    """What `pair nodes` prints."""
    snapshot = snapshot_json(built.snapshot(), version="0", proxy_id="test")
    return text_of(nodes_table(snapshot), width=200)


def test_12_ten_minutes_of_loading_are_waited_for() -> None:
    story = Story(start_grace_s=3.0, hopeless_grace_s=15.0)
    story.sees(comes("a", says=report("a", replica(state=ReplicaState.LOADING)))).at(1.0)
    story.sees(call(1)).finds("a", Phase.LOADING).at(TEN_MINUTES_S).expects()
    story.finds("a", Phase.LOADING).sees(says("a", report("a"))).expects("1 to a")
    story.sees(answered(1)).ends()


def test_12_other_nodes_come_first() -> None:
    story = Story("b").sees(comes("a", says=report("a", replica(state=ReplicaState.LOADING))))
    story.at(1.0).sees(call(1), call(2)).expects("1 to b").at(TEN_MINUTES_S).expects()
    story.sees(answered(1)).expects("2 to b").sees(answered(2)).ends()


@pytest.mark.parametrize("persona", ["llamacpp", "ollama"])
async def test_12_a_call_waits_for_the_only_engine_while_it_loads(persona: str) -> None:
    loading = replace(FAST, persona=persona, load_time_s=1.0)  # type: ignore[arg-type]
    async with AsyncExitStack() as stack:
        engine = await stack.enter_async_context(EchoEngine(loading))
        settings = replace(IMPATIENT, nodes=(FixedNode(engine.url, name="slow-pc"),))
        built = await stack.enter_async_context(house(settings=settings))
        async with asyncio.TaskGroup() as tasks:
            await built.until(lambda: any(n.replicas for n in built.snapshot().nodes))
            waiting = tasks.create_task(built.send(chat()))
            if persona == "llamacpp":
                await built.until(lambda: built.snapshot().waiting == 1)
                assert "loading for" in shown(built)
        assert waiting.result().status == 200
        assert engine.journal.counters.started == 1
        await built.quiet()
        assert built.snapshot().closed[Outcome.ANSWERED] == 1
        assert [one.failed for node in built.snapshot().nodes for one in node.replicas] == [0]
        built.assert_books_are_clean()


async def test_12_loading_said_in_answer_to_a_call_is_no_failure_either() -> None:
    async with house(FAST, FAST) as built:
        built.engines[0].faults.set("status,status=503,message=Loading model")
        for _ in range(3):
            reply = await built.send(chat())
            assert (reply.status, reply.headers["x-pair-attempts"]) == (200, "1")
        assert not any(one.unproven for node in built.snapshot().nodes for one in node.replicas)
