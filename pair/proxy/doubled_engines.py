"""Engines that stand in the house twice: named by their own URL, and behind a node with `pair`.

Each of the two would be given calls up to the engine's slots. Only told and never mended, because
which of them the user means is not ours to guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from urllib.parse import urlsplit

from pair.core.snapshot import NodeView, Snapshot
from pair.engines.engine import LOOPBACK

_PLACE = re.compile(r"[^:]+:(?:(?P<name>.+):)?(?P<port>\d+)(?P<path>/.*)?")
"""An engine's name as `engine_name` makes it; without a name before the port: the node's own."""

_Place = tuple[str, int, str]
"""Name, port and path, in the words of whoever named it: names are not looked up here."""


def with_doubles(snapshot: Snapshot) -> Snapshot:
    """The same with a warning at each engine named by its URL that a node reports, too."""
    reporters = {
        place: node.name for node in snapshot.nodes if node.version for place in _behind(node)
    }
    if not reporters:
        return snapshot
    return replace(snapshot, nodes=tuple(_warned(node, reporters) for node in snapshot.nodes))


def _warned(node: NodeView, reporters: dict[_Place, str]) -> NodeView:
    if node.version:
        return node
    twice = [reporters[place] for place in map(_place, node.addresses) if place in reporters]
    warnings = tuple(
        f"node {name} has this engine, too, so its slots count twice: name only one of the two"
        for name in dict.fromkeys(twice)
    )
    return replace(node, warnings=(*node.warnings, *warnings))


def _behind(node: NodeView) -> Iterable[_Place]:
    """Where the engines of a node are, by each of its addresses."""
    names = {_place(url)[0] for url in node.addresses}
    for engine in {replica.engine for replica in node.replicas}:
        parts = _PLACE.fullmatch(engine)
        if parts is not None:
            own = names if parts["name"] is None else {parts["name"]}
            yield from ((name, int(parts["port"]), parts["path"] or "") for name in own)


def _place(url: str) -> _Place:
    parts = urlsplit(url)
    name = parts.hostname or ""
    return ("localhost" if name in LOOPBACK else name, parts.port or 80, parts.path.rstrip("/"))
