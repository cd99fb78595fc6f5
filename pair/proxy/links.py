"""The proxy's connections to each node: one pool an address, the address that last worked first.

Apart from the prober and the forwarder because both use them: the prober finds out which address
works, the forwarder then uses that one. No node's connections can delay another's.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from pair.core.membership import Node
from pair.core.names import NodeId
from pair.engines.question import NO_HEADERS
from pair.relay.addresses import parse_base_url
from pair.relay.credentials import Credential
from pair.relay.limits import UpstreamLimits
from pair.relay.upstream_pool import UpstreamPool
from pair.wire.headers import FROM


class Link:
    """One address of a node: a base URL taken apart, with its pool.

    Attributes:
        mark: of this proxy, see `Links`.
    """

    def __init__(
        self, url: str, limits: UpstreamLimits, credential: Credential | None, mark: bytes
    ) -> None:
        self.credential = credential
        self.mark = mark
        address, self.path = parse_base_url(url)
        self.url = url.rstrip("/")
        """What stands before every target there, usually empty."""
        self.pool = UpstreamPool(address, limits)


class Links:
    """All links, bounded by the nodes in the scheduler's table and their addresses.

    Attributes:
        mark: by which a node tells our calls from those of other proxies.

    Args:
        nodes: the scheduler's own table, for reading.
        credentials: by URL; a key goes to the address that the user named it for and no other.
    """

    def __init__(
        self,
        limits: UpstreamLimits,
        nodes: Mapping[NodeId, Node],
        credentials: Mapping[str, Credential],
    ) -> None:
        self.mark = secrets.token_hex(8)
        self._credentials = credentials
        self._limits = limits
        self._nodes = nodes
        self._links: dict[str, Link] = {}
        self._worked: dict[NodeId, str] = {}

    def urls(self, node_id: NodeId) -> list[str]:
        """The addresses to try, the one that last worked first; none for an unknown node."""
        node = self._nodes.get(node_id)
        if node is None:
            return []
        worked = self._worked.get(node_id)
        return sorted(node.addresses, key=lambda url: url != worked)

    def to_node(self, node_id: NodeId) -> Link | None:
        """The link to use for a request, None if the node is no longer known."""
        urls = self.urls(node_id)
        if not urls:
            return None
        link = self._links.get(urls[0])
        if link is None:
            self._tidy()
            link = self._links[urls[0]] = Link(
                urls[0], self._limits, self._credentials.get(urls[0]), self.mark.encode()
            )
        return link

    def question_headers(self, url: str) -> Mapping[str, str]:
        """What each question to a `pair` node carries there: its key, and who asks."""
        return {**self._credentials.get(url, NO_HEADERS), FROM.decode(): self.mark}

    def worked(self, node_id: NodeId, url: str) -> None:
        """The node has answered there."""
        if len(self._worked) > len(self._nodes):
            self._tidy()
        self._worked[node_id] = url

    def last_byte_at(self, node_id: NodeId) -> float | None:
        """When an answer byte last came from the node, by loop time."""
        links = (self._links.get(url) for url in self.urls(node_id))
        times = (link.pool.last_byte_at for link in links if link is not None)
        return max((at for at in times if at is not None), default=None)

    def in_use(self, node_id: NodeId) -> bool:
        """Whether work of ours runs there."""
        node = self._nodes.get(node_id)
        return node is not None and any(one.in_flight for one in node.replicas.values())

    def close(self) -> None:
        """Close every idle connection."""
        for link in self._links.values():
            link.pool.close()

    def _tidy(self) -> None:
        """Forget nodes and addresses that the scheduler no longer knows."""
        for node_id in self._worked.keys() - self._nodes.keys():
            del self._worked[node_id]
        known = {url for node in self._nodes.values() for url in node.addresses}
        for url in self._links.keys() - known:
            self._links.pop(url).pool.close()
