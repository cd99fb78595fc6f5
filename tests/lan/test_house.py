"""A house of real `pair` processes: found without a word of configuration, and what a cut cable
does to it.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.lan import house
from tests.lan.house import Call, House
from tests.lan.machine import Lan, lan

pytestmark = pytest.mark.lan

NAMES = ("attic", "cellar", "study")


async def furnish(home: Lan, *names: str, call_s: float) -> None:
    """An engine and a node on each of these machines."""

    async def furnish_one(name: str) -> None:
        await house.engine(home[name], call_s=call_s)
        await house.node(home[name])

    async with asyncio.TaskGroup() as tasks:
        for name in names:
            tasks.create_task(furnish_one(name))


async def test_three_nodes_are_found_in_three_seconds_and_share_the_calls(tmp_path: Path) -> None:
    async with lan(tmp_path, [*NAMES, "late", "proxy"]) as home:
        await furnish(home, *NAMES, call_s=0.5)
        async with House(home["proxy"]) as proxy:
            assert await proxy.until_ready(NAMES, 5) < 3

            async with asyncio.TaskGroup() as tasks:
                calls = [tasks.create_task(proxy.call(f"agent {number}")) for number in range(6)]
            answers = [call.result() for call in calls]
            assert [answer.status for answer in answers] == [200] * 6
            assert sorted(answer.node for answer in answers) == sorted([*NAMES, *NAMES])

            await house.engine(home["late"], call_s=0.5)
            program = await house.node(home["late"])
            assert await proxy.until_ready(["late"], 5) < 3

            # A goodbye is not waited out: nothing new goes there.
            assert await program.stop() == 0
            await proxy.until(lambda seen: seen["late"]["phase"] != "ready", "late gone", 3)


async def test_a_cut_cable_loses_no_ticket_and_mending_it_brings_the_node_back(
    tmp_path: Path,
) -> None:
    async with lan(tmp_path, [*NAMES, "proxy"]) as home:
        await furnish(home, *NAMES, call_s=0.6)
        async with House(home["proxy"]) as proxy:
            await proxy.until_ready(NAMES, 10)
            answers: list[Call] = []
            enough = asyncio.Event()

            async def agent(name: str) -> None:
                while not enough.is_set():
                    answers.append(await proxy.call(f"{name}, {len(answers)}"))

            async with asyncio.TaskGroup() as tasks:
                # Six agents on three slots, so that somebody always waits.
                for number in range(6):
                    tasks.create_task(agent(f"agent {number}"))
                await proxy.until(lambda seen: _in_flight(seen, "attic") == 1, "attic busy", 10)
                home["attic"].cable.cut()
                cut_at = time.monotonic()
                await proxy.until(
                    lambda seen: seen["attic"]["phase"] not in {"ready", "loading"},
                    "attic takes nothing new",
                    5,
                )
                served = (await proxy.nodes())["attic"]["replicas"][0]["served"]
                lost_after_s = await proxy.until(
                    lambda seen: _in_flight(seen, "attic") == 0, "what ran there is moved", 20
                )
                # Somebody works on meanwhile, and nobody is sent to the silent one.
                assert time.monotonic() - cut_at < 25, lost_after_s
                replica = (await proxy.nodes())["attic"]["replicas"][0]
                assert (replica["served"], replica["in_flight"]) == (served, 0)

                home["attic"].cable.mend()
                mended_at = time.monotonic()
                await proxy.until_ready(["attic"], 10)
                await proxy.until(
                    lambda seen: _served(seen, "attic") > served, "attic serves again", 10
                )
                enough.set()
            assert {answer.status for answer in answers} == {200}, _failed(answers)
            moved = [answer for answer in answers if answer.attempts > 1]
            assert {answer.node for answer in moved} <= {"cellar", "study"}
            assert len(moved) == 1
            between = {answer.node for answer in answers if cut_at + 5 < answer.began < mended_at}
            assert between <= {"cellar", "study"}
            books = await proxy.snapshot()
            assert (books["in_flight"], books["waiting"]) == (0, 0)


async def test_a_proxy_that_is_cut_off_for_a_while_loses_no_ticket(tmp_path: Path) -> None:
    async with lan(tmp_path, [*NAMES, "proxy"]) as home:
        await furnish(home, *NAMES, call_s=1.0)
        async with House(home["proxy"]) as proxy:
            await proxy.until_ready(NAMES, 10)
            async with asyncio.TaskGroup() as tasks:
                calls = [tasks.create_task(proxy.call(f"agent {number}")) for number in range(6)]
                await proxy.until(
                    lambda seen: all(_in_flight(seen, name) == 1 for name in NAMES), "all busy", 10
                )
                home["proxy"].cable.cut()
                await proxy.until(
                    lambda seen: all(seen[name]["phase"] != "ready" for name in NAMES),
                    "nobody in sight",
                    10,
                )
                home["proxy"].cable.mend()
            assert [call.result().status for call in calls] == [200] * 6
            await proxy.until_ready(NAMES, 10)


async def test_a_node_that_gets_another_address_stays_the_same_node(tmp_path: Path) -> None:
    async with lan(tmp_path, ["attic", "proxy"]) as home:
        await furnish(home, "attic", call_s=0.2)
        async with House(home["proxy"]) as proxy:
            await proxy.until_ready(["attic"], 10)
            before = (await proxy.nodes())["attic"]["id"]
            home["attic"].cable.readdress("192.168.77.99")
            await proxy.until(
                lambda seen: "http://192.168.77.99:7248" in seen["attic"]["addresses"],
                "the new address known",
                5,
            )
            answer = await proxy.call("are you there?")
            assert (answer.status, answer.node) == (200, "attic")
            nodes = (await proxy.snapshot())["nodes"]
            assert [entry["id"] for entry in nodes] == [before]


async def test_a_named_engine_without_pair_serves_where_multicast_does_not_reach(
    tmp_path: Path,
) -> None:
    async with lan(tmp_path, ["attic", "cellar", "proxy"]) as home:
        await furnish(home, "cellar", call_s=0.2)
        await house.engine(home["attic"], call_s=0.2, address="0.0.0.0")
        named = f"http://{home['attic'].address}:8080,slots=1,name=attic"
        async with House(home["proxy"], "--no-discovery", "--node", named) as proxy:
            await proxy.until_ready(["attic"], 10)
            answer = await proxy.call("hello")
            assert (answer.status, answer.node) == (200, "attic")
            assert set(await proxy.nodes()) == {"attic"}


def _in_flight(seen: dict[str, dict[str, object]], name: str) -> int:
    return _sum(seen, name, "in_flight")


def _served(seen: dict[str, dict[str, object]], name: str) -> int:
    return _sum(seen, name, "served")


def _sum(seen: dict[str, dict[str, object]], name: str, count: str) -> int:
    replicas = seen[name]["replicas"]
    assert isinstance(replicas, list)
    return sum(int(replica[count]) for replica in replicas)


def _failed(answers: list[Call]) -> list[tuple[int, str]]:
    return [(answer.status, answer.text) for answer in answers if answer.status != 200]
