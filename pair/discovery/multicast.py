"""The mDNS sockets: zeroconf on exactly the interfaces it is told, which may change while it runs.

Apart from browser and advertiser because both need it, and because this is the seam where the
errors of zeroconf and of the system's sockets become ours. The interfaces are always chosen by us:
zeroconf's own choice (`All`) would send into every container network, and would not notice a Wi-Fi
that comes up later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from zeroconf import DNSQuestionType, Error, IPVersion, ServiceInfo
from zeroconf.asyncio import AsyncServiceBrowser, AsyncZeroconf

from pair.discovery.interfaces import Interface, ipv4_addresses, ipv6_indexes
from pair.errors import NoMulticast

_REFRESH_DELAY_MS = 10_000
"""zeroconf's own shortest time between two questions that refresh a record; passed as every option
is."""


class Multicast:
    """Zeroconf, open from the first `use` to `close`.

    Port 5353 is shared with whatever else listens there (avahi, mDNSResponder, another `pair`):
    zeroconf sets SO_REUSEADDR and SO_REUSEPORT. What is sent to the group reaches all of them, but
    a unicast answer only one, picked by the kernel; so nothing here asks for unicast answers.
    """

    def __init__(self) -> None:
        # Its warnings repeat what we say in one line, with traces, once per socket.
        logging.getLogger("zeroconf").setLevel(logging.ERROR)
        self._zeroconf: AsyncZeroconf | None = None
        self._asking: AsyncServiceBrowser | None = None
        self._speaks_ipv6 = True
        self._in_use: frozenset[tuple[str, int]] = frozenset()
        self._changing = asyncio.Lock()

    async def use(self, interfaces: Sequence[Interface]) -> bool:
        """Listen and speak on these interfaces and no others; True if one of their addresses is
        new.

        Called again with the same interfaces it only tries again what could not be bound before (an
        IPv6 address is checked for duplicates in its first seconds). An interface that has gone
        while we looked is left out.

        Raises:
            NoMulticast: the sockets cannot be opened; the text says why.
        """
        async with _our_errors():
            # Shielded, because to be cancelled halfway would leave sockets that nobody can close
            # any more: zeroconf's own future (0.154) and uvloop's datagram endpoints (0.23) do not
            # survive it. It takes milliseconds, and `close` waits for it.
            return await asyncio.shield(self._use(interfaces))

    async def _use(self, interfaces: Sequence[Interface]) -> bool:
        async with self._changing:
            if self._zeroconf is None:
                await self._open()
            return await self._adapt(self._opened_before(), interfaces)

    async def ask(self, service_type: str, handler: Callable[..., None]) -> None:
        """Ask on all interfaces who offers this, now and 1, 5 and 14 s later, and tell the handler
        what is heard.

        What is known already is told again, before this returns. Replaces the handler before.

        Raises:
            NoMulticast: see `use`.
        """
        async with _our_errors():
            opened = self._opened_before()
            if self._asking is not None:
                await self._asking.async_cancel()
            self._asking = AsyncServiceBrowser(
                opened.zeroconf,
                service_type,
                handlers=[handler],
                delay=_REFRESH_DELAY_MS,
                question_type=DNSQuestionType.QM,
            )

    async def announce(self, record: ServiceInfo) -> None:
        """Say hello for a record now and twice in the next half second, and answer for it until
        `close`.

        Not probed for: its name must be nobody else's.

        Raises:
            NoMulticast: see `use`.
        """
        async with _our_errors():
            await self._opened_before().async_register_service(
                record, allow_name_change=False, cooperating_responders=True, strict=True
            )

    async def correct(self, record: ServiceInfo) -> None:
        """Say what has changed in a record that was announced.

        Raises:
            NoMulticast: see `use`.
        """
        async with _our_errors():
            await (await self._opened_before().async_update_service(record))

    async def close(self) -> None:
        """Say goodbye for what was announced (0.25 s) and close the sockets."""
        async with self._changing:
            await self._close()

    async def _close(self) -> None:
        opened, self._zeroconf = self._zeroconf, None
        asking, self._asking = self._asking, None
        if asking is not None:
            await asking.async_cancel()
        if opened is not None:
            await opened.async_close()

    def _opened_before(self) -> AsyncZeroconf:
        if self._zeroconf is None:
            raise NoMulticast("the mDNS sockets are not open")
        return self._zeroconf

    async def _open(self) -> None:
        # Without interfaces at first: one that fails while it is added is only left out, while one
        # that fails in the constructor leaks the sockets before it.
        try:
            self._zeroconf = AsyncZeroconf(interfaces=[], unicast=False, ip_version=IPVersion.All)
        except OSError:
            # A kernel without IPv6, unless this fails in the same way.
            self._zeroconf = AsyncZeroconf(
                interfaces=[], unicast=False, ip_version=IPVersion.V4Only
            )
            self._speaks_ipv6 = False
        if not await _has_started(self._zeroconf):
            await self._close()
            raise NoMulticast("the mDNS sockets did not open in time")

    async def _adapt(self, opened: AsyncZeroconf, interfaces: Sequence[Interface]) -> bool:
        wanted = frozenset(
            (str(address.ip), interface.index)
            for interface in interfaces
            for address in interface.addresses
        )
        addresses = ipv4_addresses(interfaces)
        # By number and not by address: VLANs on one card share their link-local address.
        indexes = ipv6_indexes(interfaces) if self._speaks_ipv6 else []
        new = wanted - self._in_use
        # zeroconf tells IPv4 interfaces apart by address only. One that was removed and made anew
        # (a USB card, a container's cable) has its old address and is no longer in the group.
        remade = {address for address, _ in new} & {address for address, _ in self._in_use}
        if remade:
            kept = [address for address in addresses if address not in remade]
            await opened.async_update_interfaces(interfaces=[*kept, *indexes])
        await opened.async_update_interfaces(interfaces=[*addresses, *indexes])
        self._in_use = wanted
        return bool(new)


async def _has_started(opened: AsyncZeroconf) -> bool:
    try:
        await opened.zeroconf.async_wait_for_start()
    except Error:
        return False
    return True


@asynccontextmanager
async def _our_errors() -> AsyncIterator[None]:
    try:
        yield
    except (OSError, Error) as error:
        raise NoMulticast(
            f"mDNS does not work here: {str(error) or type(error).__name__}"
        ) from error
