from __future__ import annotations

import asyncio

import pytest

from pair.cli.demo_run import Fleet, found, parallel_nodes, simulated_fleet
from pair.cli.running_proxy import RunningProxy
from pair.core.names import NodeId
from pair.errors import SilentNode
from tests.cli.conftest import Pages
from tests.terminal.samples import node, replica, snapshot

FLEET = Fleet("echo", (NodeId("id-attic"), NodeId("id-cellar")))


async def test_it_waits_until_every_node_holds_the_model(pages: Pages) -> None:
    attic, cellar = node("attic", replica("echo")), node("cellar", replica("echo"))
    pages.put("/pair/v1/snapshot", snapshot(attic))
    async with (
        asyncio.timeout(20),
        RunningProxy(pages.url) as proxy,
        asyncio.TaskGroup() as tasks,
    ):
        waiting = tasks.create_task(found(proxy, FLEET))
        await proxy.snapshot()
        assert not waiting.done()
        pages.put("/pair/v1/snapshot", snapshot(attic, cellar))


async def test_nodes_that_stay_away_are_told(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pair.cli.demo_run.READY_LIMIT_S", 0.05)
    async with RunningProxy(pages.url) as proxy:
        pages.put("/pair/v1/snapshot", snapshot(node("attic", replica("echo"), phase="suspect")))
        with pytest.raises(SilentNode, match="found by mDNS: attic is suspect"):
            await found(proxy, FLEET)
        pages.put("/pair/v1/snapshot", snapshot())
        with pytest.raises(SilentNode, match=r"found by mDNS: none\); does this machine allow"):
            await found(proxy, FLEET)


async def test_a_simulated_fleet_has_nodes_of_its_own() -> None:
    async with simulated_fleet(2, "demo-test") as fleet:
        assert fleet.model == "echo"
        assert len(set(fleet.nodes)) == 2


@pytest.mark.parametrize(
    ("cores", "calls", "nodes"), [(1, 5, 2), (2, 5, 2), (4, 5, 4), (16, 5, 5), (64, 40, 8)]
)
def test_as_many_nodes_as_run_side_by_side_and_have_work(
    cores: int, calls: int, nodes: int
) -> None:
    assert parallel_nodes(cores, calls) == nodes
