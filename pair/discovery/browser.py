"""Nodes that announce themselves by mDNS on this machine's networks.

Anything on a LAN may send records, so what a stranger can grow is bounded, and nothing here trusts
a record further than to tell the prober of it. Interfaces come and go under a running proxy (Wi-Fi
after boot, a laptop that changes rooms), so they are looked at every few seconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from enum import Enum
from types import TracebackType
from typing import Self

from zeroconf import BadTypeInNameException, DNSQuestionType, ServiceStateChange, Zeroconf
from zeroconf.asyncio import AsyncServiceInfo

from pair.core.events import NodeSighted, NodeWithdrawn
from pair.discovery.interfaces import Surroundings, read_surroundings
from pair.discovery.multicast import Multicast
from pair.discovery.records import Records
from pair.discovery.source import Listener
from pair.discovery.upkeep import Upkeep, repeat
from pair.errors import NodeFault
from pair.wire.advert import SERVICE_TYPE, clean_name, read_advert

_log = logging.getLogger(__name__)

ASK_AGAIN_S = 60.0
"""Between two rounds of questions. zeroconf asks four times in the first 14 s and then not for an
hour, and a node says hello three times in half a second; a Wi-Fi that drops multicast for that long
would hide it."""

INCOMPLETE_LIMIT = 256
"""Names waiting to be asked about, the oldest going first. Honest nodes send whole records, which
need no question."""

ASKING_AT_ONCE = 16
"""Questions under way; each lives up to the limit below where a stranger made the name up."""

ANSWER_LIMIT_MS = 1300
"""Longest wait for the rest of a record. A node answers in 0.1 s, or in 1.2 s if it spoke just now
(RFC 6762 section 6); an honest one behind a heap of invented names waits this long once more."""

REFUSALS_LOGGED = 16
"""Records that cannot be used, logged each once; a stranger must not be able to fill a disk."""


class Reach(Enum):
    """How far to look."""

    MACHINE = "machine"
    """Nodes on this machine's loopback only."""
    NETWORK = "network"
    """This machine's loopback and every network that other machines of the house may be on."""


class Browser:
    """Tells the listener of every node whose record it hears; a `Source`.

    Nothing about the network is an error here: without one it waits for one, and says so once.

    Args:
        house: only nodes of this house are told of, "" for those that are everybody's.
    """

    def __init__(self, listener: Listener, reach: Reach, house: str = "") -> None:
        self._listener = listener
        self._reach = reach
        self._house = house
        self._upkeep = Upkeep()
        self._multicast = Multicast()
        self._surroundings = Surroundings(())
        self._records = Records()
        # Names whose record came in pieces, the newest at the end, and who heard it.
        self._incomplete: OrderedDict[str, Zeroconf] = OrderedDict()
        self._incomplete_added = asyncio.Event()
        self._refused: set[str] = set()
        # Loop time of the next round of questions.
        self._ask_at = 0.0

    async def __aenter__(self) -> Self:
        askers = {f"discovery: ask {number}": self._ask_rest for number in range(ASKING_AT_ONCE)}
        await self._upkeep.start({"discovery: browse": self._browse, **askers})
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._upkeep.stop()

    @property
    def incomplete(self) -> int:
        """Records heard of in part that wait to be asked about."""
        return len(self._incomplete)

    async def _browse(self) -> None:
        try:
            await repeat(self._look_around, "look for nodes")
        finally:
            await self._multicast.close()

    async def _look_around(self) -> str:
        """Take up the interfaces that there are now, and ask where and when it is due."""
        self._surroundings = await asyncio.to_thread(read_surroundings)
        interfaces = self._surroundings.on_this_machine
        if self._reach is Reach.NETWORK:
            interfaces += self._surroundings.on_the_lan
        new = await self._multicast.use(interfaces)
        now = asyncio.get_running_loop().time()
        if new or now >= self._ask_at:
            await self._multicast.ask(SERVICE_TYPE, self._heard)
            self._ask_at = now + ASK_AGAIN_S
        if self._reach is Reach.NETWORK and not self._surroundings.on_the_lan:
            return "no network but this machine's own: only its own nodes can be found"
        return ""

    def _heard(
        self, zeroconf: Zeroconf, service_type: str, name: str, state_change: ServiceStateChange
    ) -> None:
        """Called by zeroconf, under these very names, when the cache holds all of what it heard at
        once.
        """
        if state_change is ServiceStateChange.Removed:
            self._incomplete.pop(name, None)
            self._tell(self._records.gone(name))
            return
        try:
            record = AsyncServiceInfo(service_type, name)
        except BadTypeInNameException:
            return
        if record.load_from_cache(zeroconf):
            self._take(name, record, news=state_change is ServiceStateChange.Updated)
            return
        self._incomplete[name] = zeroconf
        # The newest is asked about first, so that a heap of invented names does not delay an honest
        # one behind it.
        self._incomplete.move_to_end(name)
        while len(self._incomplete) > INCOMPLETE_LIMIT:
            self._incomplete.popitem(last=False)
        self._incomplete_added.set()

    async def _ask_rest(self) -> None:
        """Ask for the rest of one incomplete record after the other."""
        while True:
            while not self._incomplete:
                self._incomplete_added.clear()
                await self._incomplete_added.wait()
            name, zeroconf = self._incomplete.popitem(last=True)
            record = AsyncServiceInfo(SERVICE_TYPE, name)
            try:
                if await record.async_request(
                    zeroconf, ANSWER_LIMIT_MS, question_type=DNSQuestionType.QM
                ):
                    self._take(name, record, news=False)
            except Exception:  # noqa: BLE001 - the top of a long-lived task
                _log.exception("discovery: ask: the record %r could not be read", clean_name(name))

    def _take(self, name: str, record: AsyncServiceInfo, *, news: bool) -> None:
        """Make a sighting of a whole record, or say once why not."""
        try:
            advert = read_advert(record.properties)
        except NodeFault as fault:
            self._refuse(name, str(fault))
            return
        if advert.house != self._house:
            return
        if not record.port:
            self._refuse(name, "its record has no port")
            return
        addresses = self._surroundings.reachable(
            record.parsed_scoped_addresses(), loopback_only=self._reach is Reach.MACHINE
        )
        if addresses:
            urls = tuple(f"http://{address}:{record.port}" for address in addresses)
            self._tell(self._records.heard(name, advert, urls, news=news))

    def _refuse(self, name: str, why: str) -> None:
        if name not in self._refused and len(self._refused) < REFUSALS_LOGGED:
            self._refused.add(name)
            _log.warning("ignoring the node %r: %s", clean_name(name), why)

    def _tell(self, events: list[NodeSighted | NodeWithdrawn]) -> None:
        for event in events:
            self._listener(event)
