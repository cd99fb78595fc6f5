"""The LAN itself: what it connects, what a cut does, and that nothing of it is left."""

from __future__ import annotations

import os
import socket
import subprocess

import pytest

from tests.lan.network import Cable, network, remove_leftovers

pytestmark = pytest.mark.lan


def namespaces() -> set[str]:
    """The names of all namespaces on this machine."""
    listing = subprocess.run(["ip", "netns", "list"], check=True, capture_output=True, text=True)
    return {line.split()[0] for line in listing.stdout.splitlines()}


def arrives(sender: Cable, receiver: Cable) -> bool:
    """Whether a datagram gets from one machine to the other within half a second."""
    with (
        receiver.socket(socket.AF_INET, socket.SOCK_DGRAM, 0) as inbox,
        sender.socket(socket.AF_INET, socket.SOCK_DGRAM, 0) as outbox,
    ):
        inbox.bind(("0.0.0.0", 9))
        inbox.settimeout(0.5)
        outbox.sendto(b"x", (receiver.address, 9))
        try:
            return inbox.recv(1) == b"x"
        except TimeoutError:
            return False


def test_a_cable_carries_until_it_is_cut_and_again_when_mended() -> None:
    with network(["a", "b"]) as cables:
        a, b = cables["a"], cables["b"]
        a.plug()
        b.plug()
        assert arrives(a, b)
        b.cut()
        assert not arrives(a, b)
        b.mend()
        assert arrives(a, b)
        b.readdress("192.168.77.99")
        assert arrives(a, b)


def test_nothing_of_a_network_is_in_this_machines_own_namespace_or_left_afterwards() -> None:
    before = socket.if_nameindex()
    with network(["a"]) as cables:
        cables["a"].plug()
        assert socket.if_nameindex() == before
        assert cables["a"].namespace in namespaces()
        assert [name for _, name in cables["a"].inside(socket.if_nameindex)] == ["lo", "eth0"]
    assert cables["a"].namespace not in namespaces()


def test_what_a_killed_run_left_is_removed_with_what_still_runs_there() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    stale = f"pairlan{gone.pid}-0-x"
    subprocess.run(["ip", "netns", "add", stale], check=True)
    left = subprocess.Popen(["ip", "netns", "exec", stale, "sleep", "60"])
    with network(["a"]) as cables:
        assert stale not in namespaces()
        remove_leftovers()
        assert cables["a"].namespace in namespaces(), f"run {os.getpid()} lives"
    assert left.wait(5) != 0
