"""Heads of requests and answers as values, and how they are rewritten on the way through.

The one place that lists the headers which do not pass (invariant I10): everything else goes on as
it came, order, case and duplicates included. Pure: bytes and values only.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus

Header = tuple[bytes, bytes]

# About one connection and not about the message (RFC 9110, 7.6.1), in either direction; so are
# those that `Connection` names and all of `proxy-*`.
_OF_ONE_CONNECTION = frozenset(
    {b"connection", b"keep-alive", b"te", b"transfer-encoding", b"upgrade"}
)
# Of a request besides: what we say ourselves (`Host` and the length), what was between the client
# and us (`Expect`), and trailers, which a body sent with its length cannot have.
_REQUEST_STOPS = _OF_ONE_CONNECTION | {b"host", b"content-length", b"expect", b"trailer"}
_REQUEST_STOPS_BY_PREFIX = (b"proxy-", b"x-pair-")
# Only the nearest `pair` says where an answer came from.
_ANSWER_STOPS_BY_PREFIX = (b"proxy-", b"x-pair-")

# Clients and engines say the same few names again and again; others make it slower, not larger.
_NAMES_REMEMBERED = 512

# The one status after which a connection speaks something else.
SWITCHING = 101
# Upgrades that are never taken: HTTP/1.1 does as well, as the client that offers them says (RFC
# 9110, 7.8). `curl --http2` sends the first with every request.
_NO_SWITCH = (b"h2c", b"http/", b"tls/")

# As many as the largest length has that llhttp takes (64 bits).
_LENGTH_DIGITS = 20

# Said with our own 503s, for which nobody knows better.
RETRY_AFTER_S = 1

REASONS = {status.value: status.phrase.encode("ascii") for status in HTTPStatus}

_NOTHING: frozenset[bytes] = frozenset()
_PLAIN_CONNECTION = frozenset({b"keep-alive", b"Keep-Alive", b"close"})
# Values of ours may quote what strangers say (a node's name), which must not become a line of its
# own.
_CONTROL_TO_SPACE = bytes(32 if byte < 32 or byte == 127 else byte for byte in range(256))


@dataclass(slots=True)
class RequestHead:
    """A client's request without its body. Made once by the relay and not changed after.

    Attributes:
        target: in origin form (`/v1/models?x=1`, or `*`); percent-encoding untouched.
        headers: as they came.
        named: the first value of each header by its lower-case name; of `connection` all, with
            commas.
        keep_alive: the client wants the connection kept.
        content_length: None without one.
        expects_continue: the client waits for `100 Continue` before it sends its body.
        upgrade: the client offers another protocol.
    """

    method: bytes
    target: bytes
    minor_version: int
    headers: list[Header]
    named: dict[bytes, bytes]
    keep_alive: bool
    content_length: int | None
    chunked: bool
    expects_continue: bool
    upgrade: bool

    @property
    def protocol(self) -> bytes:
        """What the client wants to speak from here on, b"" for what it speaks: then the request
        becomes a tunnel, if the upstream agrees.
        """
        if not self.upgrade or self.minor_version == 0:
            return b""
        wanted = self.first(b"upgrade") or b""
        # A list lets the upstream choose (RFC 9110, 7.8), so one that may not be taken spoils it.
        for offer in wanted.lower().split(b","):
            if offer.strip().startswith(_NO_SWITCH):
                return b""
        return wanted

    def first(self, name: bytes) -> bytes | None:
        """The first value of the header with this lower-case name, None without one."""
        value = self.named.get(name)
        return value if value is None else value.rstrip()


@dataclass(slots=True)
class AnswerHead:
    """An answer without its body.

    Attributes:
        headers, named: see `RequestHead`.
        content_length: None without one (chunked, or the end of the connection is the end of the
            body).
        keep_alive: the upstream keeps its connection.
    """

    status: int
    reason: bytes
    minor_version: int
    headers: list[Header]
    named: dict[bytes, bytes]
    content_length: int | None
    chunked: bool
    keep_alive: bool

    def first(self, name: bytes) -> bytes | None:
        """The first value of the header with this lower-case name, None without one."""
        value = self.named.get(name)
        return value if value is None else value.rstrip()

    @property
    def packed(self) -> bool:
        """Whether the body is compressed, so that nothing can be read from it or put into it; some
        engines say that theirs is not (`identity`).
        """
        encoding = self.first(b"content-encoding")
        return encoding is not None and encoding.strip().lower() not in (b"", b"identity")

    def readable(self, body: bytes) -> bytes:
        """Its body for whoever looks for words in it; b"" for a compressed one."""
        return b"" if self.packed else body


def first_values(headers: Sequence[Header]) -> dict[bytes, bytes]:
    """The field `named` of a head."""
    named = {name.lower(): value for name, value in reversed(headers)}
    if len(named) < len(headers) and b"connection" in named:
        values = [value for name, value in headers if name.lower() == b"connection"]
        named[b"connection"] = b",".join(values)
    return named


def length_of(named: dict[bytes, bytes]) -> int | None:
    """The content length in a head that llhttp has accepted, None without one.

    Raises:
        ValueError: more leading zeros than anybody needs; llhttp takes any number of them.
    """
    value = named.get(b"content-length")
    if value is None:
        return None
    if len(value) > _LENGTH_DIGITS:
        raise ValueError(f"a content length of {len(value)} digits")
    return int(value)


def request_bytes(
    head: RequestHead,
    *,
    authority: bytes,
    body_length: int,
    drop: Collection[bytes] = (),
    add: Sequence[Header] = (),
    target: bytes | None = None,
) -> bytes:
    """The head to send upstream, its blank line included.

    Args:
        authority: the `Host` there (engines check it), `pool.authority`.
        body_length: of the whole body, which is always sent with its length: some engines cannot
            read chunks.
        drop: lower-case names that do not pass besides the hop-by-hop ones and `x-pair-*`.
        add: headers of ours, `x-pair-*` included.
        target: instead of the client's.

    A wish to switch protocols passes as it is, save for those that are never taken.
    """
    parts = [head.method, b" ", target or head.target, b" HTTP/1.1\r\nHost: ", authority, b"\r\n"]
    dropped = _named_by_connection(head.named).union(drop)
    for name, value in head.headers:
        if not _stops_upward(name) and (not dropped or name.lower() not in dropped):
            parts += (name, b": ", value, b"\r\n")
    if body_length or head.content_length is not None or head.chunked:
        parts.append(b"Content-Length: %d\r\n" % body_length)
    for name, value in add:
        parts += (name, b": ", value.translate(_CONTROL_TO_SPACE), b"\r\n")
    if head.upgrade and (protocol := head.protocol):
        parts += (b"Connection: Upgrade\r\nUpgrade: ", protocol, b"\r\n")
    parts.append(b"\r\n")
    return b"".join(parts)


def answer_bytes(
    head: AnswerHead,
    *,
    framing: bytes,
    keep_length: bool,
    drop: Collection[bytes] = (),
    add: Sequence[Header] = (),
) -> bytes:
    """The head to send to the client, its blank line included.

    Args:
        framing: whole header lines that say how this connection carries the body, and whether it
            stays.
        keep_length: `Content-Length` passes, whatever `Connection` names: the client needs it to
            find the end, and RFC 9110, 7.6.1 does not let a sender name it there.
        drop: lower-case names that do not pass besides the hop-by-hop ones and `x-pair-*`.
        add: headers of ours.
    """
    reason = head.reason.translate(_CONTROL_TO_SPACE)
    parts = [b"HTTP/1.1 %d %b\r\n" % (head.status, reason)]
    length = {b"content-length"}
    named = _named_by_connection(head.named)
    dropped = named - length if keep_length else named | length
    if drop:
        dropped = dropped.union(drop)
    for name, value in head.headers:
        if not _stops_downward(name) and (not dropped or name.lower() not in dropped):
            parts += (name, b": ", value, b"\r\n")
    for name, value in add:
        parts += (name, b": ", value.translate(_CONTROL_TO_SPACE), b"\r\n")
    parts += (framing, b"\r\n")
    return b"".join(parts)


def trailer_bytes(trailers: Sequence[Header]) -> bytes:
    """The lines of a chunked body's trailer section, without its blank line."""
    return b"".join(
        b"%b: %b\r\n" % (name, value.translate(_CONTROL_TO_SPACE)) for name, value in trailers
    )


@lru_cache(_NAMES_REMEMBERED)
def _stops_upward(name: bytes) -> bool:
    lower = name.lower()
    return lower in _REQUEST_STOPS or lower.startswith(_REQUEST_STOPS_BY_PREFIX)


@lru_cache(_NAMES_REMEMBERED)
def _stops_downward(name: bytes) -> bool:
    lower = name.lower()
    return lower in _OF_ONE_CONNECTION or lower.startswith(_ANSWER_STOPS_BY_PREFIX)


def _named_by_connection(named: dict[bytes, bytes]) -> frozenset[bytes]:
    """The lower-case names that the message's own `Connection` header keeps to one connection."""
    value = named.get(b"connection")
    if value is None or value in _PLAIN_CONNECTION:
        return _NOTHING
    return frozenset(token.strip().lower() for token in value.split(b","))
