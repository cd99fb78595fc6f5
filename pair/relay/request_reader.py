"""Cuts one request after another out of what a client sends, and refuses what could be read in two
ways.

Separate from the connection because it is pure: bytes in, heads and pieces of bodies out, no
transport and no clock. llhttp does the parsing; what it lets through and we do not is listed in
`_checked`. llhttp would parse on into the next pipelined request, and has no limits of its own, so
it is fed up to the next place where a request can end and no further: a head and a chunked body
both end with an empty line, any other body after its length.
"""

from __future__ import annotations

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from pair.errors import RequestFault
from pair.relay.heads import Header, RequestHead, first_values

_EMPTY_LINE = b"\r\n\r\n"


class RequestReader:
    """Feed it until it is `whole`, then `restart` it for the next request.

    Attributes:
        head: None until it is whole.
        whole: head and body are; nothing more is taken.
    """

    head: RequestHead | None
    whole: bool

    def __init__(self, head_limit_bytes: int) -> None:
        self._head_limit_bytes = head_limit_bytes
        self._parser = HttpRequestParser(self)
        self._pieces: list[bytes] = []
        self.restart()

    def restart(self) -> None:
        """Be ready for the next request."""
        self.head = None
        self.whole = False
        self._method = b""
        self._target = b""
        self._headers: list[Header] = []
        self._keep_alive = False
        self._version = ""
        self._upgrade = False
        self._tail = b""
        self._body_left_bytes: int | None = None
        # Fed without the limit's subject coming to its end: a head, or what surrounds chunks.
        self._fed_bytes = 0

    @property
    def started(self) -> bool:
        """Something of a request has come."""
        return self._fed_bytes > 0 or self.head is not None

    def feed(self, received: bytes, start: int = 0) -> int:
        """Take bytes from `start` on; returns where it stopped: at the end of them, of the head,
        or of the request.

        Stops after the head so that its owner can act on it before the body comes.

        Raises:
            RequestFault: no request can be read from these bytes; the connection is of no use any
                more.
        """
        end = self._next_end(received, start)
        if self.head is not None:
            self._parse(memoryview(received)[start:end])
        elif (piece := received[start:end]).isascii():
            self._parse(piece)
        else:
            raise RequestFault(400, "bad_request", "A request's head takes ASCII characters only.")
        return end

    def take_pieces(self) -> list[bytes]:
        """The pieces of the body that have come since the last call."""
        pieces, self._pieces = self._pieces, []
        return pieces

    def _next_end(self, received: bytes, start: int) -> int:
        """Up to where these bytes are certain not to belong to the next request."""
        if self._body_left_bytes is not None:
            end = min(start + self._body_left_bytes, len(received))
            self._body_left_bytes -= end - start
            return end
        tail = self._tail
        self._tail = b""
        if tail and (found := (tail + received[start : start + 3]).find(_EMPTY_LINE)) >= 0:
            end = start + found + len(_EMPTY_LINE) - len(tail)
        elif (found := received.find(_EMPTY_LINE, start)) >= 0:
            end = found + len(_EMPTY_LINE)
        else:
            end = len(received)
            self._tail = (tail + received[max(start, end - 3) :])[-3:]
        self._fed_bytes += end - start
        if self._fed_bytes > self._head_limit_bytes and self.head is None:
            raise RequestFault(
                431, "head_too_large", f"The head is above {self._head_limit_bytes} bytes."
            )
        return end

    def _parse(self, piece: bytes | memoryview) -> None:
        head = self.head
        try:
            self._parser.feed_data(piece)
        except HttpParserUpgrade:
            # llhttp leaves the rest to the other protocol, the body of this request included. We
            # may not follow the client there, so a fresh parser reads the body.
            self._parser = HttpRequestParser(self)
        except HttpParserError as error:
            raise RequestFault(400, "bad_request", f"Not an HTTP request: {error}.") from error
        if head is None:
            if self._version:
                self._begin_body()
        elif head.chunked and self._fed_bytes > self._head_limit_bytes:
            raise RequestFault(
                400, "bad_request", f"More than {self._head_limit_bytes} bytes around its chunks."
            )

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
        if self._upgrade:
            self._read_on_after_upgrade(head)

    def _read_on_after_upgrade(self, head: RequestHead) -> None:
        if head.chunked:
            self._parser.feed_data(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
        elif head.content_length:
            self._parser.feed_data(
                b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % head.content_length
            )
        else:
            self.whole = True

    # What llhttp calls. After the head these come for trailers, which do not pass, and for the head
    # that a fresh parser is told after an upgrade.

    def on_url(self, piece: bytes) -> None:
        """A piece of the target."""
        self._target += piece

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer."""
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
        """Also called when the parser gives up on an upgrade."""
        self.whole = not self._upgrade or self.head is not None


def _checked(
    method: bytes,
    target: bytes,
    version: str,
    headers: list[Header],
    keep_alive: bool,
    upgrade: bool,
) -> RequestHead:
    """The head as a value, or what is wrong with it beyond what llhttp (9.3, strict) refuses.

    llhttp refuses two lengths, a length beside chunks, folded lines, bare line feeds, control
    characters, names that are no tokens and `Transfer-Encoding : chunked`. It lets through: other
    transfer codings in front of `chunked` and chunks from HTTP/1.0, versions 0.9 and 2.0,
    fragments, any `Host` or none.
    """
    named = first_values(headers)
    transfer = named.get(b"transfer-encoding")
    complaint = None
    if version not in {"1.1", "1.0"}:
        raise RequestFault(505, "bad_version", f"HTTP/{version} is not spoken here.")
    if method == b"CONNECT":
        raise RequestFault(405, "bad_method", "This is not a proxy to other addresses.")
    if transfer is not None and (transfer.lower() != b"chunked" or version == "1.0"):
        complaint = "only HTTP/1.1 and only `Transfer-Encoding: chunked` are taken"
    elif len(named) < len(headers) and sum(name.lower() == b"host" for name, _ in headers) > 1:
        complaint = "it has two `Host` headers"
    elif version == "1.1" and b"host" not in named:
        complaint = "it has no `Host`"
    if complaint is not None:
        raise RequestFault(400, "bad_request", f"The request cannot be taken: {complaint}.")
    length = named.get(b"content-length")
    return RequestHead(
        method=method,
        target=_origin_form(method, target, named),
        minor_version=1 if version == "1.1" else 0,
        headers=headers,
        named=named,
        keep_alive=keep_alive,
        content_length=None if length is None else int(length),
        chunked=transfer is not None,
        expects_continue=version == "1.1" and named.get(b"expect", b"").lower() == b"100-continue",
        upgrade=upgrade,
    )


def _origin_form(method: bytes, target: bytes, named: dict[bytes, bytes]) -> bytes:
    """The target without the scheme and authority of the absolute form, which take the place of
    `Host`.
    """
    complaint = RequestFault(400, "bad_request", "The request target cannot be taken.")
    if b"#" in target:
        raise complaint
    if target.startswith(b"/") or (target == b"*" and method == b"OPTIONS"):
        return target
    scheme, separator, rest = target.partition(b"://")
    if not separator or scheme.lower() not in {b"http", b"https"}:
        raise complaint
    end = next((at for at, byte in enumerate(rest) if byte in b"/?"), len(rest))
    authority, path = rest[:end], rest[end:]
    if not authority or b"@" in authority:
        raise complaint
    named[b"host"] = authority
    return path if path.startswith(b"/") else b"/" + path
