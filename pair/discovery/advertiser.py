"""This machine's own mDNS record: one node, one port, the addresses at which it can be reached now.

The record follows the machine: addresses and interfaces are looked at every few seconds. What
listens on loopback is told on loopback only, so that the LAN never hears of a node that it could
not reach.
"""

from __future__ import annotations

import asyncio
from ipaddress import IPv4Address, IPv6Address, ip_address
from types import TracebackType
from typing import Self

from zeroconf import ServiceInfo

from pair.discovery.interfaces import read_surroundings
from pair.discovery.multicast import Multicast
from pair.discovery.upkeep import Upkeep, repeat
from pair.errors import BookkeepingError
from pair.wire.advert import SERVICE_TYPE, Advert, instance_label, target_name, text_record

ADDRESS_TTL_S = 120
OTHER_TTL_S = 4500
"""How long others remember address and port, and the rest (RFC 6762 section 10). A dead node shows
by probes long before."""


class Advertiser:
    """Announces the node while it is entered, and says goodbye when it is left (0.25 s).

    Announcing starts at once and without probing for the label (1.2 s): the label holds a digest of
    the node's id, so that only the same node could have it (`pair/wire/advert.py`). Nothing about
    the network is an error here.

    Args:
        listening: the literal address that the node's socket is bound to, wildcards included,
            without a scope.
    """

    def __init__(self, advert: Advert, listening: str, port: int) -> None:
        self._advert = advert
        self._listening = _literal(listening)
        self._port = port
        self._upkeep = Upkeep()
        self._multicast = Multicast()
        self._announced: ServiceInfo | None = None
        self._addresses: tuple[str, ...] = ()

    async def __aenter__(self) -> Self:
        await self._upkeep.start({"discovery: advertise": self._advertise})
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._upkeep.stop()

    async def _advertise(self) -> None:
        try:
            await repeat(self._look_around, "announce this node")
        finally:
            await self._multicast.close()

    async def _look_around(self) -> str:
        """Make the record and the sockets fit the interfaces that there are now."""
        surroundings = await asyncio.to_thread(read_surroundings)
        addresses = surroundings.own_addresses(self._listening)
        changed = bool(addresses) and addresses != self._addresses
        if self._announced is not None and changed:
            # Before the sockets change, as a new one announces the record at once.
            self._announced.addresses = [ip_address(address).packed for address in addresses]
        await self._multicast.use(surroundings.around(self._listening))
        if not addresses:
            return f"no network of this machine has {self._listening}, where the node listens"
        if self._announced is None:
            record = self._record(addresses)
            await self._multicast.announce(record)
            self._announced = record
        elif changed:
            await self._multicast.correct(self._announced)
        self._addresses = addresses
        return ""

    def _record(self, addresses: tuple[str, ...]) -> ServiceInfo:
        return ServiceInfo(
            SERVICE_TYPE,
            f"{instance_label(self._advert)}.{SERVICE_TYPE}",
            port=self._port,
            weight=0,
            priority=0,
            properties=text_record(self._advert),
            server=target_name(self._advert),
            host_ttl=ADDRESS_TTL_S,
            other_ttl=OTHER_TTL_S,
            addresses=[ip_address(address).packed for address in addresses],
        )


def _literal(text: str) -> IPv4Address | IPv6Address:
    """The bound address as a value; the listening socket knows no names any more."""
    try:
        return ip_address(text.partition("%")[0])
    except ValueError:
        raise BookkeepingError(f"{text!r} is not an address that a socket is bound to") from None
