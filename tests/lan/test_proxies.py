"""Several proxies of one house: what they lose to each other, over a real network."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lan import house
from tests.lan.house import Call, House
from tests.lan.machine import Machine, lan

pytestmark = pytest.mark.lan

NODES = ("attic", "cellar", "study")
CALL_S = 0.4
CALLS = 24
"""Of each proxy, all at once."""


async def refusals(proxy: House) -> int:
    """How often a node was full when a call of this proxy came."""
    nodes = await proxy.nodes()
    return sum(replica["failed"] for node in nodes.values() for replica in node["replicas"])


async def test_two_proxies_share_three_nodes(
    tmp_path: Path, record_testsuite_property: Callable[[str, object], None]
) -> None:
    async with lan(tmp_path, [*NODES, "desk", "sofa"]) as home:
        async with asyncio.TaskGroup() as tasks:
            for name in NODES:
                tasks.create_task(furnish(home[name]))
        async with House(home["desk"]) as desk, House(home["sofa"]) as sofa:
            for proxy in (desk, sofa):
                await proxy.until_ready(NODES, 10)
            began = time.monotonic()
            async with asyncio.TaskGroup() as tasks:
                calls = {
                    name: [tasks.create_task(proxy.call(f"{name} {n}")) for n in range(CALLS)]
                    for name, proxy in (("desk", desk), ("sofa", sofa))
                }
            took_s = time.monotonic() - began
            answers = {name: [call.result() for call in of_one] for name, of_one in calls.items()}
            assert [one.status for of_one in answers.values() for one in of_one] == [
                200
            ] * 2 * CALLS
            refused = await refusals(desk) + await refusals(sofa)

            # A single call is not held up by the many of the other proxy.
            async with asyncio.TaskGroup() as tasks:
                for number in range(CALLS):
                    tasks.create_task(desk.call(f"many {number}"))
                await desk.until(
                    lambda seen: (
                        sum(r["in_flight"] for n in seen.values() for r in n["replicas"]) == 3
                    ),
                    "all slots taken",
                    5,
                )
                single = await sofa.call("one")
            single_s = single.ended - single.began

        utilisation = 2 * CALLS * CALL_S / (len(NODES) * took_s)
        shares = [sum(ended_early(one, began, took_s) for one in answers[name]) for name in answers]
        jain = sum(shares) ** 2 / (len(shares) * sum(share**2 for share in shares))
        figures = (
            f"{refused / (2 * CALLS):.2f} refusals a call, utilisation {utilisation:.2f},"
            f" Jain {jain:.3f} of {shares}, a single call {single_s / CALL_S:.2f} service times"
        )
        record_testsuite_property("two proxies on three nodes", figures)
        assert refused <= CALLS * 1.5, figures
        assert utilisation > 0.8, figures
        assert jain > 0.9, figures
        assert single_s < 3 * CALL_S, figures


async def furnish(machine: Machine) -> None:
    """An engine and a node."""
    await house.engine(machine, call_s=CALL_S)
    await house.node(machine)


def ended_early(call: Call, began: float, took_s: float) -> bool:
    """Whether it ended in the first two thirds, in which both had calls waiting."""
    return call.ended < began + took_s * 2 / 3
