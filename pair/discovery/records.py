"""The mDNS records that a browser has heard, as sightings of nodes.

Apart from the browser because it needs no socket: records in, events out. A record is known by its
own name, a node by its id; one node may have several records (two cards, an old label, two
processes), and a record may change its node.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from pair.core.events import NodeSighted, NodeWithdrawn
from pair.core.names import NodeId
from pair.discovery.interfaces import ADDRESSES_LIMIT
from pair.wire.advert import Advert

RECORDS_LIMIT = 1024
"""As many as the proxy remembers nodes. Beyond it the record heard of longest ago goes, silently: a
record that was forgotten says nothing about its node, and comes back when it is heard again."""


@dataclass(frozen=True, slots=True)
class _Record:
    advert: Advert
    addresses: tuple[str, ...]


class Records:
    """At most `RECORDS_LIMIT` records, by name, the one heard of last at the end."""

    def __init__(self) -> None:
        self._records: OrderedDict[str, _Record] = OrderedDict()

    def __len__(self) -> int:
        return len(self._records)

    def heard(
        self, name: str, advert: Advert, addresses: tuple[str, ...], *, news: bool
    ) -> list[NodeSighted | NodeWithdrawn]:
        """What a record, whole, means: nothing if it is as it was and no news.

        Args:
            name: of the record, compared without case.
            addresses: base URLs, best first, at least one.
            news: the node said it just now, and it was not known; tell the listener even if nothing
                differs.
        """
        key = name.lower()
        before = self._records.get(key)
        record = _Record(advert, addresses)
        self._records[key] = record
        self._records.move_to_end(key)
        while len(self._records) > RECORDS_LIMIT:
            self._records.popitem(last=False)
        if record == before and not news:
            return []
        events: list[NodeSighted | NodeWithdrawn] = []
        if before is not None and before.advert.node != advert.node:
            events += self._one_less(before.advert.node)
        events.append(self._sighting(advert.node))
        return events

    def gone(self, name: str) -> list[NodeSighted | NodeWithdrawn]:
        """What a record's goodbye, or its end of life, means; nothing if it was not known."""
        record = self._records.pop(name.lower(), None)
        return [] if record is None else self._one_less(record.advert.node)

    def _one_less(self, node: NodeId) -> list[NodeSighted | NodeWithdrawn]:
        """What remains of a node after one of its records is gone."""
        if any(record.advert.node == node for record in self._records.values()):
            return [self._sighting(node)]
        return [NodeWithdrawn(node)]

    def _sighting(self, node: NodeId) -> NodeSighted:
        newest_first = [
            record for record in reversed(self._records.values()) if record.advert.node == node
        ]
        addresses = dict.fromkeys(url for record in newest_first for url in record.addresses)
        # All records of one node, not the newest alone: a stranger who uses its id adds an address
        # to try, and takes none away.
        return NodeSighted(
            node=node,
            name=newest_first[0].advert.name,
            addresses=tuple(addresses)[: 2 * ADDRESSES_LIMIT],
        )
