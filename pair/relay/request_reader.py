"""Cuts requests out of what a client sends, and refuses what could be read in two ways.

Separate from the connection because it is pure: bytes in, heads and pieces of bodies out, no
transport and no clock. llhttp does the parsing; what it lets through and we do not is listed in
`_checked`. llhttp would parse on into the next pipelined request, and has no limits of its own, so
it is fed up to the next place where a request can end and no further: a head and a chunked body
both end with an empty line. A body with a length is cut off here.
"""

from __future__ import annotations

import re

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from pair.errors import RequestFault
from pair.relay.heads import Header, RequestHead, first_values, length_of

_EMPTY_LINE = b"\r\n\r\n"
# Some clients send an empty line after a body (RFC 9112, 2.2); llhttp skips just these characters.
_OF_A_REQUEST = re.compile(rb"[^\r\n]")

# Name or literal and port: no user, no path, no list, and not nothing.
_NAMED_PLACE = re.compile(rb"(?:[A-Za-z0-9._~-]+|\[[A-Za-z0-9:.%_~-]+\])(?::[0-9]*)?[ \t]*")


class RequestReader:
    """Feed it until it is `whole`, then `restart` it for the next request.

    Attributes:
        head: None until it is whole.
        started: something of a request has come; empty lines before it are nothing of it.
        whole: head and body are; nothing more is taken.
    """

    head: RequestHead | None
    started: bool
    whole: bool

    def __init__(self, head_limit_bytes: int) -> None:
        self._head_limit_bytes = head_limit_bytes
        self._pieces: list[bytes] = []
        self.restart()

    def restart(self) -> None:
        """Be ready for the next request."""
        self.head = None
        self.started = False
        self.whole = False
        self._parser = HttpRequestParser(self)
        self._method = b""
        self._target = b""
        self._headers: list[Header] = []
        self._keep_alive = False
        self._version = ""
        self._upgrade = False
        self._tail = b""
        self._body_left_bytes = 0
        # Fed without the limit's subject coming to its end: a head, or what surrounds chunks.
        self._fed_bytes = 0

    def feed(self, received: bytes, start: int = 0) -> int:
        """Take bytes from `start` on; returns where it stopped.

        That is at their end, at the end of the head, or at the end of the request.

        Stops after the head so that its owner can act on it before the body comes.

        Raises:
            RequestFault: no request can be read from these bytes; the connection is of no use any
                more.
        """
        head = self.head
        if head is None:
            return self._feed_head(received, start)
        if head.chunked:
            return self._feed_chunks(received, start)
        end = min(start + self._body_left_bytes, len(received))
        self._pieces.append(received[start:end])
        self._body_left_bytes -= end - start
        self.whole = self._body_left_bytes == 0
        return end

    def take_pieces(self) -> list[bytes]:
        """The pieces of the body that have come since the last call."""
        pieces, self._pieces = self._pieces, []
        return pieces

    def _feed_head(self, received: bytes, start: int) -> int:
        end = self._after_empty_line(received, start)
        self.started = self.started or _OF_A_REQUEST.search(received, start, end) is not None
        self._fed_bytes += end - start
        if self._fed_bytes > self._head_limit_bytes:
            raise RequestFault(
                400, "head_too_large", f"The head is above {self._head_limit_bytes} bytes."
            )
        piece = received[start:end]
        if not piece.isascii():
            raise RequestFault(400, "bad_request", "A request's head takes ASCII characters only.")
        self._parse(piece)
        if self._version:
            self._begin_body()
        return end

    def _begin_body(self) -> None:
        """The head has just ended: check it and find out how the body ends."""
        self._fed_bytes = 0
        head = self.head = _checked(
            self._method,
            self._target,
            self._version,
            self._headers,
            self._keep_alive,
            self._upgrade,
        )
        if not head.chunked:
            self._body_left_bytes = head.content_length or 0
            self.whole = self._body_left_bytes == 0
        elif self._upgrade:
            # llhttp leaves all that follows to the other protocol. We may not follow the client
            # there, so a fresh parser reads the body.
            self._parser = HttpRequestParser(self)
            self._parse(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")

    def _feed_chunks(self, received: bytes, start: int) -> int:
        end = self._after_empty_line(received, start)
        self._fed_bytes += end - start
        self._parse(memoryview(received)[start:end])
        if self._fed_bytes > self._head_limit_bytes:
            raise RequestFault(
                400, "bad_request", f"More than {self._head_limit_bytes} bytes around its chunks."
            )
        return end

    def _after_empty_line(self, received: bytes, start: int) -> int:
        """Where the next empty line ends, which may have begun in what came before."""
        tail = self._tail
        self._tail = b""
        if tail and (found := (tail + received[start : start + 3]).find(_EMPTY_LINE)) >= 0:
            return start + found + len(_EMPTY_LINE) - len(tail)
        if (found := received.find(_EMPTY_LINE, start)) >= 0:
            return found + len(_EMPTY_LINE)
        self._tail = (tail + received[max(start, len(received) - 3) :])[-3:]
        return len(received)

    def _parse(self, piece: bytes | memoryview) -> None:
        try:
            self._parser.feed_data(piece)
        except HttpParserUpgrade:
            return  # said by `should_upgrade` already
        except HttpParserError as error:
            raise RequestFault(400, "bad_request", f"Not an HTTP request: {error}.") from error

    # What llhttp calls: for a head, then for chunks and trailers, which do not pass. A body with a
    # length is none of its business.

    def on_url(self, piece: bytes) -> None:
        """A piece of the target."""
        self._target += piece

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer, which is no header and does not pass (RFC 9110, 6.5.1)."""
        if self.head is None:
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """The head is whole; only now does the parser know these."""
        if self.head is None:
            self._method = self._parser.get_method()
            self._version = self._parser.get_http_version()
            self._keep_alive = self._parser.should_keep_alive()
            self._upgrade = self._parser.should_upgrade()

    def on_body(self, piece: bytes) -> None:
        """A piece of the body."""
        self._fed_bytes = 0
        self._pieces.append(piece)

    def on_message_complete(self) -> None:
        """After the last chunk; what ends with the head is known from the head."""
        self.whole = self.head is not None


def _checked(
    method: bytes,
    target: bytes,
    version: str,
    headers: list[Header],
    keep_alive: bool,
    upgrade: bool,
) -> RequestHead:
    """The head as a value, or what is wrong with it beyond what llhttp refuses.

    llhttp (in httptools 0.9, strict) refuses two lengths, a length beside chunks, folded lines,
    bare line feeds, control characters, names that are no tokens and `Transfer-Encoding :
    chunked`. It lets through: other transfer codings in front of `chunked` and chunks from
    HTTP/1.0, versions 0.9 and 2.0, fragments, any `Host` or none.
    """
    named = first_values(headers)
    transfer = named.get(b"transfer-encoding")
    if version == "0.9":
        raise _bad("its first line names no version")
    if version not in {"1.1", "1.0"}:
        raise RequestFault(505, "bad_version", f"HTTP/{version} is not spoken here.")
    if method == b"CONNECT":
        raise RequestFault(405, "bad_method", "This is not a proxy to other addresses.")
    if transfer is not None and (transfer.rstrip().lower() != b"chunked" or version == "1.0"):
        raise _bad("only HTTP/1.1 and only `Transfer-Encoding: chunked` are taken")
    if len(named) < len(headers) and sum(name.lower() == b"host" for name, _ in headers) > 1:
        raise _bad("it has two `Host` headers")
    if version == "1.1" and b"host" not in named:
        raise _bad("it has no `Host`")
    if b"host" in named and not _NAMED_PLACE.fullmatch(named[b"host"]):
        raise _bad("its `Host` is no name with a port")
    try:
        content_length = length_of(named)
    except ValueError as error:
        raise _bad(f"it has {error}") from error
    return RequestHead(
        method=method,
        target=_origin_form(method, target, named),
        minor_version=1 if version == "1.1" else 0,
        headers=headers,
        named=named,
        keep_alive=keep_alive,
        content_length=content_length,
        chunked=transfer is not None,
        expects_continue=version == "1.1"
        and named.get(b"expect", b"").rstrip().lower() == b"100-continue",
        upgrade=upgrade,
    )


def _origin_form(method: bytes, target: bytes, named: dict[bytes, bytes]) -> bytes:
    """The target without scheme and authority of the absolute form; the latter replaces `Host`."""
    if target.startswith(b"/") and b"#" not in target:
        return target
    if target == b"*" and method == b"OPTIONS":
        return target
    scheme, _, rest = target.partition(b"://")
    end = next((at for at, byte in enumerate(rest) if byte in b"/?"), len(rest))
    authority, path = rest[:end], rest[end:]
    if scheme.lower() not in {b"http", b"https"} or not _NAMED_PLACE.fullmatch(authority):
        raise _bad("its target is neither a path nor a URL")
    if b"#" in path:
        raise _bad("its target has a fragment")
    named[b"host"] = authority
    return path if path.startswith(b"/") else b"/" + path


def _bad(why: str) -> RequestFault:
    return RequestFault(400, "bad_request", f"The request cannot be taken: {why}.")
