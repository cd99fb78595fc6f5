"""Discovery alone between machines: how soon, how far, and what it survives."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from urllib.request import urlopen

import pytest

from pair.discovery.records import RECORDS_LIMIT
from tests.lan.machine import lan
from tests.lan.watch import Watch, advertise

pytestmark = pytest.mark.lan


async def test_nodes_are_found_at_once_whether_they_or_the_browser_came_first(
    tmp_path: Path,
) -> None:
    async with lan(tmp_path, ["a", "b", "c", "proxy"]) as home:
        # Three machines of one name, as three Raspberry Pis fresh from the box are.
        nodes = [await advertise(home[name], f"node-{name}", "raspberrypi") for name in "abc"]
        watch = await Watch.on(home["proxy"])
        for name in "abc":
            seen = await watch.sighted(f"node-{name}", 3)
            assert seen.after_s < 3
            assert seen.addresses == (f"http://{home[name].address}:7248",)
            assert seen.name == "raspberrypi"

        began = time.time()
        assert await nodes[0].stop() == 0
        assert (await watch.withdrawn("node-a", 1)).at - began < 1

        began = time.time()
        await advertise(home["a"], "node-late")
        # The start of a Python program is in this, half a second on this machine.
        assert (await watch.sighted("node-late", 3)).at - began < 2


async def test_a_node_that_starts_anew_elsewhere_is_followed(tmp_path: Path) -> None:
    async with lan(tmp_path, ["a", "proxy"]) as home:
        before = await advertise(home["a"], "node-a", port=7248)
        watch = await Watch.on(home["proxy"])
        await watch.sighted("node-a", 3, address=":7248")
        await before.kill()
        await advertise(home["a"], "node-a", name="renamed", port=7300)
        seen = await watch.sighted("node-a", 3, address=":7300")
        assert seen.name == "renamed"
        home["a"].cable.readdress("192.168.77.99")
        await watch.sighted("node-a", 5, address="http://192.168.77.99:7300")


async def test_a_network_that_comes_up_later_is_used(tmp_path: Path) -> None:
    async with lan(tmp_path, ["a"], unplugged=["b", "proxy"]) as home:
        await advertise(home["a"], "node-a")
        await advertise(home["b"], "node-b")
        watch = await Watch.on(home["proxy"])
        await watch.program.line("no network but this machine's own", 3)
        assert watch.all() == []

        began = time.time()
        home["proxy"].cable.plug()
        assert (await watch.sighted("node-a", 5)).at - began < 4
        began = time.time()
        home["b"].cable.plug()
        assert (await watch.sighted("node-b", 5)).at - began < 4

        # The card is taken out and put in again: the same address, and the group must be joined
        # anew.
        home["proxy"].cable.unplug()
        home["proxy"].cable.plug()
        await watch.program.line("can look for nodes again", 5)
        await advertise(home["a"], "node-late")
        await watch.sighted("node-late", 5)
        warnings = [line for line in watch.program.lines if "no network" in line]
        assert len(warnings) <= 2


async def test_a_node_on_loopback_is_found_on_its_machine_and_nowhere_else(tmp_path: Path) -> None:
    async with lan(tmp_path, ["a", "proxy"]) as home:
        await advertise(home["a"], "node-private", address="127.0.0.1")
        await advertise(home["a"], "node-open")
        near, only = await Watch.on(home["a"]), await Watch.on(home["a"], "machine")
        far = await Watch.on(home["proxy"])
        private = ("http://127.0.0.1:7248",)
        assert (await near.sighted("node-private", 3)).addresses == private
        assert (await only.sighted("node-private", 3)).addresses == private
        await near.sighted("node-open", 3)
        await far.sighted("node-open", 3)
        assert {seen.node for seen in far.all()} == {"node-open"}
        assert {seen.node for seen in only.all()} == {"node-private"}


async def test_container_networks_are_neither_told_nor_believed(tmp_path: Path) -> None:
    async with lan(tmp_path, ["a", "proxy"]) as home:
        for machine in ("a", "proxy"):
            home[machine].cable.internal_bridge("docker0", "172.17.0.1/16")
        await advertise(home["a"], "node-a")
        watch = await Watch.on(home["proxy"])
        seen = await watch.sighted("node-a", 3)
        assert seen.addresses == (f"http://{home['a'].address}:7248",)


async def test_a_link_local_address_can_be_connected_to(tmp_path: Path) -> None:
    async with lan(tmp_path, ["a", "proxy"]) as home:
        serving = await home["a"].start(sys.executable, "-m", "http.server", "--bind", "::", "7248")
        await serving.line("Serving", 5)
        await advertise(home["a"], "node-a", address="::")
        watch = await Watch.on(home["proxy"])
        # A new link first checks for two seconds that its address is free.
        (url,) = (await watch.sighted("node-a", 5)).addresses
        assert url.startswith("http://[fe80::")
        # Blocking and over there, because a scope means something only where the interface is.
        with home["proxy"].cable.inside(
            lambda: urlopen(url, timeout=5)  # noqa: S310 - the scheme was asserted
        ) as answer:
            assert answer.status == 200


async def test_port_5353_is_shared_and_where_it_is_not_the_browser_waits(tmp_path: Path) -> None:
    async with lan(tmp_path, ["a", "b", "proxy"]) as home:
        for machine in ("a", "proxy"):
            avahi = await home[machine].start(sys.executable, "-c", _holding_5353(shared=True))
            await avahi.line("ok", 5)
        hog = await home["b"].start(sys.executable, "-c", _holding_5353(shared=False))
        await hog.line("ok", 5)

        await advertise(home["a"], "node-a")
        node = await advertise(home["b"], "node-b")
        watch, second = await Watch.on(home["proxy"]), await Watch.on(home["proxy"])
        for each in (watch, second):
            await each.sighted("node-a", 3)
        await node.line("cannot announce this node: mDNS does not work here", 3)
        await hog.kill()
        await watch.sighted("node-b", 5)
        assert len([line for line in node.lines if "WARNING" in line]) == 1


def _holding_5353(*, shared: bool) -> str:
    """A program that holds the port until it is ended, as avahi does, or as one does that shares
    nothing.
    """
    lines = ["import signal, socket", "mdns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)"]
    if shared:
        lines += [
            f"mdns.setsockopt(socket.SOL_SOCKET, socket.{option}, 1)"
            for option in ("SO_REUSEADDR", "SO_REUSEPORT")
        ]
    return "\n".join([*lines, "mdns.bind(('', 5353))", "print('ok')", "signal.pause()"])


@pytest.mark.parametrize("kind", ["pointers", "whole"])
async def test_ten_thousand_invented_records_hide_no_honest_node(tmp_path: Path, kind: str) -> None:
    async with lan(tmp_path, ["a", "b", "proxy", "stranger"]) as home:
        await advertise(home["a"], "node-before")
        watch = await Watch.on(home["proxy"])
        await watch.sighted("node-before", 3)
        flood = await home["stranger"].start(
            sys.executable, "-m", "tests.lan.stranger", kind, "10000"
        )
        await flood.line("sent", 60)
        began = time.time()
        await advertise(home["b"], "node-after")
        assert (await watch.sighted("node-after", 10)).at - began < 5
        invented = sum(seen.node.startswith("stranger") for seen in watch.all())
        if kind == "pointers":
            assert invented == 0
        else:
            # Some are lost on the way; more than we remember arrive.
            assert invented > RECORDS_LIMIT
        assert not [line for line in watch.program.lines if "Traceback" in line]
