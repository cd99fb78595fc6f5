"""The proxy's connections to each node: one pool an address, the address that last worked first.

Apart from the prober and the forwarder because both use them: the prober finds out which address
works, the forwarder then uses that one. No node's connections can delay another's.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from pair.core.membership import Node
from pair.core.names import NodeId
from pair.relay.limits import UpstreamLimits
from pair.relay.upstream_pool import UpstreamPool


class Link:
    """One address of a node: a base URL taken apart, with its pool."""

    def __init__(self, url: str, limits: UpstreamLimits) -> None:
        parts = urlsplit(url)
        self.url = url.rstrip("/")
        self.path = parts.path.rstrip("/").encode()
        """What stands before every target there, usually empty."""
        self.pool = UpstreamPool(parts.netloc if parts.port else f"{parts.netloc}:80", limits)


class Links:
    """All links, bounded by the nodes in the scheduler's table and their addresses."""

    def __init__(self, limits: UpstreamLimits, node: Callable[[NodeId], Node | None]) -> None:
        self._limits = limits
        self._node = node
        self._links: dict[str, Link] = {}
        self._worked: dict[NodeId, str] = {}

    def urls(self, node_id: NodeId) -> list[str]:
        """The addresses to try, the one that last worked first."""
        node = self._node(node_id)
        if node is None:
            return []
        worked = self._worked.get(node_id)
        return sorted(node.addresses, key=lambda url: url != worked)

    def link(self, url: str) -> Link:
        link = self._links.get(url)
        if link is None:
            link = self._links[url] = Link(url, self._limits)
        return link

    def to_node(self, node_id: NodeId) -> Link | None:
        """The link to use for a request, None if the node is no longer known."""
        urls = self.urls(node_id)
        return self.link(urls[0]) if urls else None

    def worked(self, node_id: NodeId, url: str) -> None:
        """The node has answered there."""
        self._worked[node_id] = url

    def last_byte_at(self, node_id: NodeId) -> float | None:
        """When an answer byte last came from the node, by loop time."""
        times = [
            self._links[url].pool.last_byte_at for url in self.urls(node_id) if url in self._links
        ]
        return max((at for at in times if at is not None), default=None)

    def tidy(self, known: set[NodeId], urls: set[str]) -> None:
        """Forget everything about nodes and addresses that the scheduler no longer knows."""
        for node_id in self._worked.keys() - known:
            del self._worked[node_id]
        for url in self._links.keys() - urls - set(self._worked.values()):
            self._links.pop(url).pool.close()

    def close(self) -> None:
        """Close every idle connection."""
        for link in self._links.values():
            link.pool.close()
