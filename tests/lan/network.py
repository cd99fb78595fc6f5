"""A home network out of network namespaces: a switch and machines on it, each with its own
interfaces, routes and port 5353.

Nothing of it is in the machine's own namespace: the switch is a bridge in a namespace too. Names
carry the process id of the run, so that runs do not meet and what a killed run left behind can be
told and removed.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")

_PREFIX = "pairlan"
_NETNS = Path("/run/netns")
_CLONE_NEWNET = 0x40000000
_SERIAL = itertools.count()
_LIBC = ctypes.CDLL(None, use_errno=True)


def ip(*batch: str, namespace: str) -> None:
    """Run `ip` commands in a namespace, all or, at the first error, an exception with its text."""
    subprocess.run(
        ["ip", "-n", namespace, "-batch", "-"],
        input="\n".join(batch),
        text=True,
        check=True,
        capture_output=True,
    )


def remove_leftovers() -> None:
    """Remove the namespaces of runs that are no more, and end what still runs in them."""
    for entry in _NETNS.glob(f"{_PREFIX}*"):
        found = re.match(rf"{_PREFIX}(\d+)-", entry.name)
        if found is not None and not Path(f"/proc/{found[1]}").exists():
            _remove(entry.name)


def _remove(namespace: str) -> None:
    inside = subprocess.run(
        ["ip", "netns", "pids", namespace], text=True, check=True, capture_output=True
    )
    for pid in inside.stdout.split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    subprocess.run(["ip", "netns", "delete", namespace], check=True, capture_output=True)


def _addressing(address: str) -> tuple[str, str]:
    """What a machine does with the address that a router gives it."""
    return f"addr add {address}/24 broadcast + dev eth0", "route add default via 192.168.77.1"


class Cable:
    """What plugs one namespace into the switch.

    Attributes:
        namespace: of the machine, as `ip netns exec` takes it.
        address: the IPv4 address that the machine has while plugged in.
    """

    def __init__(self, switch: str, namespace: str, number: int) -> None:
        self._switch = switch
        self._port = f"port{number}"
        self.namespace = namespace
        self.address = f"192.168.77.{number + 10}"

    def plug(self) -> None:
        """Put a network card `eth0` in and connect it, with the address and routes that a home
        router gives.
        """
        ip(
            f"link add {self._port} type veth peer name eth0 netns {self.namespace}",
            f"link set {self._port} master switch",
            f"link set {self._port} up",
            namespace=self._switch,
        )
        ip(
            "link set eth0 up",
            *_addressing(self.address),
            namespace=self.namespace,
        )

    def unplug(self) -> None:
        """Take the card out of the machine."""
        ip(f"link delete {self._port}", namespace=self._switch)

    def cut(self) -> None:
        """Nothing gets through any more; no goodbye, no reset."""
        ip(f"link set {self._port} down", namespace=self._switch)

    def mend(self) -> None:
        """Undo `cut`."""
        ip(f"link set {self._port} up", namespace=self._switch)

    def readdress(self, address: str) -> None:
        """Give the machine another IPv4 address, as a router does after its own restart."""
        ip(
            f"addr del {self.address}/24 dev eth0",
            *_addressing(address),
            namespace=self.namespace,
        )
        self.address = address

    def internal_bridge(self, name: str, address: str) -> None:
        """Give the machine a bridge as Docker makes one, e.g. `docker0` with 172.17.0.1/16."""
        ip(
            f"link add {name} type bridge",
            f"addr add {address} dev {name}",
            f"link set {name} up",
            namespace=self.namespace,
        )

    def inside(self, work: Callable[[], Result]) -> Result:
        """Do the work in a thread that is in the machine's namespace; sockets made there stay
        there.
        """
        results: list[Result] = []
        errors: list[BaseException] = []

        def enter() -> None:
            try:
                with (_NETNS / self.namespace).open("rb") as entry:
                    if _LIBC.setns(entry.fileno(), _CLONE_NEWNET) != 0:
                        raise OSError(ctypes.get_errno(), "setns")
                results.append(work())
            except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
                errors.append(error)

        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
        if errors:
            raise errors[0]
        return results[0]

    def socket(self, family: int, kind: int, protocol: int) -> socket.socket:
        """A socket of the machine, for the test's own event loop."""
        return self.inside(lambda: socket.socket(family, kind, protocol))


@contextlib.contextmanager
def network(names: Sequence[str]) -> Iterator[dict[str, Cable]]:
    """A switch and a machine for each name, with loopback up and not yet plugged in."""
    remove_leftovers()
    run = f"{_PREFIX}{os.getpid()}-{next(_SERIAL)}"
    switch = f"{run}-switch"
    made: list[str] = []
    try:
        for namespace in (switch, *(f"{run}-{name}" for name in names)):
            subprocess.run(["ip", "netns", "add", namespace], check=True, capture_output=True)
            made.append(namespace)
            ip("link set lo up", namespace=namespace)
        # Without snooping, as cheap switches are: a bridge that prunes multicast needs a querier.
        ip(
            "link add switch type bridge mcast_snooping 0 forward_delay 0",
            "link set switch up",
            namespace=switch,
        )
        yield {name: Cable(switch, f"{run}-{name}", number) for number, name in enumerate(names)}
    finally:
        for namespace in made:
            _remove(namespace)
