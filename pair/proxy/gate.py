"""Who may come in: checked before anything else, by what a browser says of the page that asks.

A program on this machine may use the proxy as it likes. A web page may not, though it runs on this
machine, too: its browser tells where it is from (`Origin`) and under which name it knows the proxy
(`Host`), and neither can be forged by the page. So a page from elsewhere can neither read an answer
nor start work, and one whose own name was made to mean this address (DNS rebinding) gets nothing.

What `Origin` says ends here: the proxy is who asks the engine, and Ollama would refuse a page that
the user has allowed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from pair.relay.exchange import Exchange
from pair.relay.heads import Header
from pair.wire.dialects import dialect_of, split_target
from pair.wire.errors import own_answer
from pair.wire.headers import ATTEMPTS, JOB, NODE, QUEUE_MS, REASON, REQUEST_ID

LOOPBACK_WORD = "loopback"
"""In `proxy.cors_origins`: every page that this machine itself serves, on any port."""
APPS_WORD = "apps"
"""In `proxy.cors_origins`: desktop programs that show their window as a page."""
ANY_WORD = "*"

_APP_SCHEMES = frozenset(("app", "file", "tauri", "vscode-file", "vscode-webview"))
"""What such programs call their own pages; no page from a network has one of these. The same list
as Ollama's."""

_HOUSE_ENDS = (".localhost", ".local", ".internal", ".home.arpa")
"""Names that nobody can buy: loopback, mDNS, what containers call their machine
(`host.docker.internal`), and RFC 8375. A name without a dot is none of the public DNS either."""

_REMEMBERED = 256
"""Values of `Host` and `Origin` whose verdict is kept; a house has a handful."""

SHOWN_BYTES = 200
"""Of a `Host` or `Origin` that is refused, repeated in the error."""

PREFLIGHT_S = 600
"""How long a browser may remember a preflight's answer; Chrome takes no more than two hours."""

_METHODS = b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
_EXPOSED = b", ".join((b"*", NODE, ATTEMPTS, QUEUE_MS, REASON, JOB, REQUEST_ID))
"""All headers of an answer; ours by name as well, since `*` is a mere name for calls with
cookies."""
_OF_CORS = frozenset(
    (
        b"access-control-allow-origin",
        b"access-control-allow-credentials",
        b"access-control-expose-headers",
    )
)
"""What an engine says in an answer for the page that it believes to speak with; here it is ours to
say."""


class Gate:
    """Stands before the front door.

    Args:
        origins: `proxy.cors_origins`: words of this module, or origins as browsers write them.
        names: `proxy.names`, under which clients may know this proxy besides the house's own.
    """

    def __init__(
        self,
        serve: Callable[[Exchange], Awaitable[None]],
        *,
        origins: Sequence[str],
        names: Sequence[str],
    ) -> None:
        self._serve = serve
        self._origins = frozenset(origin.lower() for origin in origins)
        self._names = frozenset(name.lower() for name in names)
        # The setting is a list: who is told to set it must not lose what is in it.
        self._more_origins = " ".join((*origins, "ORIGIN"))
        self._more_names = " ".join((*names, "NAME"))
        # Methods are wrapped for each gate, so that no verdict outlives the setting it comes from.
        self._knows_name = lru_cache(_REMEMBERED)(self._is_ours)
        self._welcomes = lru_cache(_REMEMBERED)(self._is_welcome)

    async def serve(self, exchange: Exchange) -> None:
        """Pass it on, answer a preflight, or refuse."""
        first = exchange.head.first
        called = first(b"host") or b""
        # A Unix socket has no name that a browser could know, and `client` says that it is one.
        if exchange.client != "local" and not self._knows_name(called):
            _refuse(
                exchange,
                "unknown_name",
                f"This proxy is not known as {_shown(called)}. If that is its name, do"
                f' `pair settings set proxy.names "{self._more_names}"` and start it anew;'
                " its IP address always works.",
            )
            return
        origin = first(b"origin")
        if origin is None:
            await self._serve(exchange)
            return
        welcome = self._welcomes(origin, called)
        if welcome:
            exchange.stopped = _OF_CORS
            exchange.own = _allowing(origin)
        if exchange.head.method == b"OPTIONS" and first(b"access-control-request-method"):
            # It asks and does nothing, so that no is no fault: it is what the head lacks. 200 as
            # llama.cpp says it; old browsers stumble over 204.
            exchange.answer(200, _permission(exchange) if welcome else (), b"")
        elif welcome:
            await self._serve(exchange)
        else:
            _refuse(
                exchange,
                "foreign_origin",
                f"Pages from {_shown(origin)} may not use this proxy. To allow them, do"
                f' `pair settings set proxy.cors_origins "{self._more_origins}"`'
                " and start it anew.",
            )

    def _is_ours(self, called: bytes) -> bool:
        """Whether this can be the proxy's name without a stranger's doing."""
        name = _name(called)
        if not name or ANY_WORD in self._names or name in self._names:
            return True
        if "." not in name or name.endswith(_HOUSE_ENDS):
            return True
        return _literal(name)

    def _is_welcome(self, origin: bytes, called: bytes) -> bool:
        """Whether a page from there may ask; the proxy's own pages always may."""
        text = origin.decode("latin-1").lower()
        if ANY_WORD in self._origins or text in self._origins:
            return True
        scheme, _, authority = text.partition("://")
        if scheme in {"http", "https"}:
            name = _name(authority.encode("latin-1"))
            if authority == called.decode("latin-1").lower():
                return True
            return LOOPBACK_WORD in self._origins and _is_loopback(name)
        return APPS_WORD in self._origins and scheme in _APP_SCHEMES


def _allowing(origin: bytes) -> tuple[Header, ...]:
    return (
        (b"Access-Control-Allow-Origin", origin),
        (b"Access-Control-Expose-Headers", _EXPOSED),
        (b"Vary", b"Origin"),
    )


def _permission(exchange: Exchange) -> Sequence[Header]:
    first = exchange.head.first
    headers = [
        (b"Access-Control-Allow-Methods", _METHODS),
        (b"Access-Control-Max-Age", b"%d" % PREFLIGHT_S),
    ]
    if (wanted := first(b"access-control-request-headers")) is not None:
        headers.append((b"Access-Control-Allow-Headers", wanted))
        headers.append((b"Vary", b"Access-Control-Request-Headers"))
    if first(b"access-control-request-private-network") == b"true":
        headers.append((b"Access-Control-Allow-Private-Network", b"true"))
    return headers


def _refuse(exchange: Exchange, code: str, words: str) -> None:
    path, _ = split_target(exchange.head.target)
    answer = own_answer(dialect_of(path), 403, code, words)
    exchange.answer(answer.status, answer.headers, answer.body)


def _name(authority: bytes) -> str:
    """The name or literal in `NAME:PORT`, lower case; one that cannot be read is as it is."""
    text = authority.decode("latin-1").strip()
    try:
        return (urlsplit(f"//{text}").hostname or "").rstrip(".")
    except ValueError:
        return text.lower()


def _literal(name: str) -> bool:
    try:
        ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True


def _is_loopback(name: str) -> bool:
    if name == "localhost" or name.endswith(".localhost"):
        return True
    return _literal(name) and ip_address(name.partition("%")[0]).is_loopback


def _shown(value: bytes) -> str:
    return repr(value[:SHOWN_BYTES].decode("latin-1"))
