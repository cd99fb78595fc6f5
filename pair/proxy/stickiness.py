"""Which node made what it keeps: a bounded memory from ids to nodes.

It is only a memory. A proxy that was restarted has none, and then a request goes where any other
would go; so nothing here needs to be stored.
"""

from __future__ import annotations

from collections import OrderedDict

from pair.core.names import NodeId
from pair.wire.kept_ids import IdFinder


class Stickiness:
    """Ids and their nodes, of which the least recently used are forgotten beyond `limit`."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._nodes: OrderedDict[str, NodeId] = OrderedDict()

    def __len__(self) -> int:
        return len(self._nodes)

    def learn(self, name: str, node: NodeId) -> None:
        """The node has made it, or knows it."""
        self._nodes[name] = node
        self._nodes.move_to_end(name)
        if len(self._nodes) > self._limit:
            self._nodes.popitem(last=False)

    def node_of(self, names: tuple[str, ...]) -> tuple[str, NodeId] | None:
        """The first of these ids that is known, with its node."""
        for name in names:
            node = self._nodes.get(name)
            if node is not None:
                self._nodes.move_to_end(name)
                return name, node
        return None


class Learner:
    """Learns from one node's answer, at the relay's tap.

    Args:
        named: ids in the request; the node knows them, since it has answered.
        makes: the answer tells a new id.
    """

    def __init__(
        self, stickiness: Stickiness, node: NodeId, named: tuple[str, ...], *, makes: bool
    ) -> None:
        self._stickiness = stickiness
        self._node = node
        self._named = named
        self._finder = IdFinder(named) if makes else None

    def answered(self, status: int) -> bool:
        """The head of the node's answer has come; whether its body is of interest."""
        if not 200 <= status < 300:
            return False
        for name in self._named:
            self._stickiness.learn(name, self._node)
        return self._finder is not None

    def feed(self, piece: bytes) -> bool:
        """The next bytes of the answer; whether more are of interest."""
        finder = self._finder
        if finder is None:
            return False
        finder.feed(piece)
        if finder.found is not None:
            self._stickiness.learn(finder.found, self._node)
        return not finder.over
