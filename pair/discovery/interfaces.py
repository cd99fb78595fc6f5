"""This machine's network interfaces at one moment, and what follows from them for mDNS.

Pure but for `read_surroundings`, so that every odd machine (containers, a VPN, two cards, no
network) is a value in a test. The system's interfaces change under a running program: whoever keeps
a `Surroundings` reads it anew now and then.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv6Address,
    IPv6Interface,
    ip_address,
    ip_interface,
)

import ifaddr

ADDRESSES_LIMIT = 8
"""Of one record, told or believed: a machine with more has them from its router's many IPv6
prefixes, and each is a connection attempt for the prober."""

_INTERNAL = re.compile(
    # Docker's own bridges; `br-lan` and `vmbr0` are a router's and a hypervisor's real networks.
    r"docker\d|docker_gwbridge|br-[0-9a-f]{12}$"
    # One end of a container's cable, and what Kubernetes' network plugins, Podman and LXC make.
    r"|veth|cni\d|cni-podman|podman\d|cali[0-9a-f]|flannel|lxcbr|lxdbr|incusbr"
    # Bridges and taps of virtual machines (libvirt, WSL, Hyper-V's NAT).
    r"|virbr\d|vnet\d|vEthernet \((WSL|Default Switch)"
    # Apple's own device-to-device links, on which other systems never are.
    r"|awdl\d|llw\d"
)


@dataclass(frozen=True, slots=True)
class Interface:
    """One interface that has an address.

    Attributes:
        index: the system's number for it, 0 where it has none (then IPv6 multicast cannot use it).
        scope: what follows the `%` in a link-local address here; the name where the system takes
            names.
    """

    name: str
    index: int
    addresses: tuple[IPv4Interface | IPv6Interface, ...]
    scope: str

    @property
    def internal(self) -> bool:
        """Whether only this machine's containers and virtual machines are behind it."""
        return _INTERNAL.match(self.name) is not None

    @property
    def loopback(self) -> bool:
        """Whether only this machine is behind it."""
        return any(address.ip.is_loopback for address in self.addresses)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """All interfaces of this machine at one moment."""

    interfaces: tuple[Interface, ...]

    @property
    def on_the_lan(self) -> tuple[Interface, ...]:
        """The interfaces behind which other machines of the house may be."""
        return tuple(
            interface
            for interface in self.interfaces
            if not interface.loopback and not interface.internal
        )

    @property
    def on_this_machine(self) -> tuple[Interface, ...]:
        """The loopback interface, if it is up."""
        return tuple(
            # It may carry addresses besides that are known outside.
            replace(own, addresses=tuple(a for a in own.addresses if a.ip.is_loopback))
            for own in self.interfaces
            if own.loopback
        )

    def own_addresses(self, listening: IPv4Address | IPv6Address) -> tuple[str, ...]:
        """What to tell others of a socket that listens there: best first, empty if nobody could
        connect to it now.

        A wildcard stands for all addresses of its kind on the LAN, and for loopback where there is
        no LAN.
        """
        if not listening.is_unspecified:
            known = {address.ip for interface in self.interfaces for address in interface.addresses}
            return (str(listening),) if listening in known or listening.is_loopback else ()
        for interfaces in (self.on_the_lan, self.on_this_machine):
            fitting = [
                address.ip
                for interface in interfaces
                for address in interface.addresses
                if address.version == listening.version
            ]
            if fitting:
                # A link-local address is of no use without its scope, which many clients cannot
                # keep.
                fitting.sort(key=lambda address: address.is_link_local)
                return tuple(str(address) for address in fitting[:ADDRESSES_LIMIT])
        return ()

    def around(self, listening: IPv4Address | IPv6Address) -> tuple[Interface, ...]:
        """The interfaces on which to tell others of a socket that listens there."""
        if listening.is_unspecified:
            return self.on_the_lan or self.on_this_machine
        if listening.is_loopback:
            return self.on_this_machine
        return tuple(
            interface
            for interface in self.interfaces
            if any(address.ip == listening for address in interface.addresses)
        )

    def reachable(self, addresses: Iterable[str], *, loopback_only: bool) -> tuple[str, ...]:
        """The addresses of a record that can lead to its node from here, best first, in the form
        that a URL takes.

        Left out: what means our own machine or one of its containers, link-local addresses without
        the interface they were heard on, and what is no address of a machine. Loopback counts only
        where the record has nothing else: such a node is on this very machine.

        Args:
            addresses: as in the record, a link-local one with `%` and the number of the interface
                it was heard on.
            loopback_only: believe only nodes on this machine.
        """
        ranked: list[tuple[int, str]] = []
        for text in addresses:
            rank = self._rank(text)
            if rank is not None:
                ranked.append((rank, self._in_url(text)))
        ranked.sort(key=lambda entry: entry[0])
        if loopback_only or all(rank == _LOOPBACK_RANK for rank, _ in ranked):
            chosen = [text for rank, text in ranked if rank == _LOOPBACK_RANK]
        else:
            chosen = [text for rank, text in ranked if rank != _LOOPBACK_RANK]
        return tuple(dict.fromkeys(chosen))[:ADDRESSES_LIMIT]

    def _rank(self, text: str) -> int | None:
        """How near the address is, 0 the nearest; None if it is of no use here."""
        plain, _, scope = text.partition("%")
        try:
            address = ip_address(plain)
        except ValueError:
            return None
        if address.is_unspecified or address.is_multicast:
            return None
        if address.is_loopback:
            return _LOOPBACK_RANK
        if address.version == 6 and address.is_link_local:
            known = any(str(interface.index) == scope for interface in self.on_the_lan)
            return 3 if known else None
        if self._shares_network(self.on_the_lan, address):
            return 1 if address.version == 4 else 2
        if self._shares_network((i for i in self.interfaces if i.internal), address):
            return None
        # Behind a router or a VPN; the prober finds out.
        return 4 if address.version == 4 else 5

    def _in_url(self, text: str) -> str:
        plain, _, index = text.partition("%")
        if ":" not in plain:
            return plain
        scopes = [i.scope for i in self.interfaces if index and str(i.index) == index]
        # A plain percent sign: RFC 6874's %25 is decoded by no client here (aiohttp 3.14, urllib).
        return f"[{plain}%{scopes[0]}]" if scopes else f"[{plain}]"

    @staticmethod
    def _shares_network(
        interfaces: Iterable[Interface], address: IPv4Address | IPv6Address
    ) -> bool:
        return any(
            address in own.network for interface in interfaces for own in interface.addresses
        )


_LOOPBACK_RANK = 0


def read_surroundings() -> Surroundings:
    """Ask the system (0.2 ms on Linux, 2026-11; it blocks, and other systems take longer).

    Raises:
        OSError: the system does not tell.
    """
    interfaces = []
    for adapter in ifaddr.get_adapters(include_unconfigured=False):
        addresses = [
            ip_interface(
                f"{own.ip[0] if isinstance(own.ip, tuple) else own.ip}/{own.network_prefix}"
            )
            for own in adapter.ips
        ]
        index = adapter.index or 0
        # Windows names an adapter by a UUID in braces and takes only numbers as scopes.
        windows = adapter.name.startswith("{")
        interfaces.append(
            Interface(
                name=adapter.nice_name,
                index=index,
                addresses=tuple(addresses),
                scope=str(index) if windows else adapter.name,
            )
        )
    return Surroundings(tuple(interfaces))


def ipv4_addresses(interfaces: Sequence[Interface]) -> list[str]:
    """The IPv4 addresses by which zeroconf knows these interfaces."""
    return [
        str(address.ip)
        for interface in interfaces
        for address in interface.addresses
        if address.version == 4
    ]


def ipv6_indexes(interfaces: Sequence[Interface]) -> list[int]:
    """The numbers by which zeroconf knows those of these interfaces that speak IPv6.

    Loopback is left out: `::1` is in no multicast group.
    """
    return [
        interface.index
        for interface in interfaces
        if interface.index
        and not interface.loopback
        and any(address.version == 6 for address in interface.addresses)
    ]
