"""Nodes that the user names: any engine or node at a URL, without mDNS (VPN, VLAN, Tailscale, no
`pair` there).

Separate from mDNS because these are facts and not rumours: they are never withdrawn. Until such a
node says who it is, its URL is its id; no mDNS record can carry that one (`pair/wire/advert.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv6Address
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from pair.core.events import NodeSighted
from pair.core.names import NodeId
from pair.discovery.source import Listener
from pair.errors import SettingsError
from pair.wire.advert import clean_name

NODE_PORT = 7248
"""Of a machine named without scheme and port: what runs `pair` listens there. A URL without a port
means its scheme's."""

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"(?=.{{1,253}}$){_LABEL}(?:\.{_LABEL})*")
_SCOPE = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_EXAMPLE = "right is a URL such as http://192.168.1.20:11434"


class FixedList:
    """Tells the listener of each node once, when it is entered; a `Source`.

    Args:
        nodes: URL and name of each; an empty name becomes the machine and port of the URL.

    Raises:
        SettingsError: a URL cannot be used, or two mean the same.
    """

    def __init__(self, listener: Listener, nodes: Iterable[tuple[str, str]]) -> None:
        self._listener = listener
        self._sightings: list[NodeSighted] = []
        for text, name in nodes:
            url = base_url(text)
            if any(sighting.node == url for sighting in self._sightings):
                raise SettingsError(f"the node {url} is named twice")
            shown = clean_name(name) or url.removeprefix("http://")
            self._sightings.append(NodeSighted(NodeId(url), shown, (url,), fixed=True))

    async def __aenter__(self) -> Self:
        for sighting in self._sightings:
            self._listener(sighting)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing was opened."""


def base_url(text: str) -> str:
    """The one form of a URL that the user wrote: scheme, machine, port and nothing else.

    A machine without scheme is taken as a node (port 7248). A `/v1` at the end, as in a client's
    base URL, goes.

    Raises:
        SettingsError: it cannot mean a node; the text says what would be right.
    """
    stripped = text.strip()
    if "@" in stripped:
        # Not repeated: what stands there may be a key.
        raise SettingsError("a node's URL must not carry a user or password")
    bare = "://" not in stripped
    try:
        parts = urlsplit(f"http://{stripped}" if bare else stripped)
        port = parts.port
    except ValueError as error:
        raise SettingsError(f"the node {text!r} cannot be read ({error}); {_EXAMPLE}") from None
    if parts.scheme != "http":
        raise SettingsError(
            f"the node {text!r} asks for {parts.scheme}, and pair speaks http to nodes; {_EXAMPLE}"
        )
    if parts.query or parts.fragment or parts.path.rstrip("/") not in ("", "/v1"):
        raise SettingsError(f"the node {text!r} has more than scheme, machine and port; {_EXAMPLE}")
    if port == 0:
        raise SettingsError(f"the node {text!r} has port 0; {_EXAMPLE}")
    machine = _machine(text, parts.hostname or "")
    return f"http://{machine}:{port or (NODE_PORT if bare else 80)}"


def _machine(text: str, name: str) -> str:
    """The name or literal in its one form, with brackets where a URL needs them."""
    plain, percent, scope = name.partition("%")
    if ":" in plain:
        try:
            literal = str(IPv6Address(plain))
        except ValueError:
            raise SettingsError(f"the node {text!r} has no IPv6 address; {_EXAMPLE}") from None
        if not percent:
            return f"[{literal}]"
        # Both ways to write it: %eth0, and %25eth0 as in RFC 6874.
        scope = scope[2:] if scope.startswith("25") and len(scope) > 2 else scope
        if _SCOPE.fullmatch(scope):
            return f"[{literal}%{scope}]"
    elif _NAME.fullmatch(name.rstrip(".")):
        return name.rstrip(".")
    raise SettingsError(f"the node {text!r} names no machine; {_EXAMPLE}")
