"""One answer on its way to the client, written byte by byte by us.

aiohttp reads requests and owns the connections; the answer's bytes are ours, because an engine that
plays tricks must decide about every one of them: the head's exact lines, each chunk, and where the
connection breaks. Regular and tampered answers go through the same few lines.
"""

from __future__ import annotations

import asyncio
import http
import socket
import struct
import sys
import time
from collections.abc import Sequence
from typing import Literal

from aiohttp import web

from pair.bench.echo_engine.faults import AnyFault, CloseAfterHead, Cut, SlowHead
from pair.bench.echo_engine.journal import Entry
from pair.bench.echo_engine.pace import sleep_until

Framing = Literal["chunked", "length", "close"]
HeaderLines = Sequence[tuple[str, str]]

# SO_LINGER on with zero seconds: closing then sends a reset instead of an orderly end.
_LINGER_NONE = struct.pack("hh" if sys.platform == "win32" else "ii", 1, 0)
# A chunk that is cut announces this much and holds less.
_CUT_CHUNK_BYTES = 4096
# Promised by a head that no body follows.
_UNSENT_BODY_BYTES = 512
_PHRASES = {status.value: status.phrase for status in http.HTTPStatus}


class ReplyBroken(Exception):
    """A scripted fault has ended the connection; nothing more can be sent."""


class Sent(web.StreamResponse):
    """Tells aiohttp that the answer is out already, and whether the connection lives on."""

    def __init__(self, *, keep_alive: bool) -> None:
        super().__init__()
        self._lives_on = keep_alive

    @property
    def keep_alive(self) -> bool | None:
        """Whether aiohttp reads a further request from this connection."""
        return self._lives_on

    async def prepare(self, request: web.BaseRequest) -> None:
        """Nothing is left to prepare."""

    async def write_eof(self, rest: bytes = b"") -> None:
        """Nothing is left to send."""


def abort(transport: asyncio.Transport | None) -> None:
    """Reset a connection now; None is one that is gone already."""
    if transport is None:
        return
    raw = transport.get_extra_info("socket")
    if raw is not None:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NONE)
    transport.abort()


class Reply:
    """The answer to one request: `whole`, or `begin`, `send` ... and `end`.

    Every method raises ConnectionResetError once the client has gone, and ReplyBroken once the
    scripted fault has struck. Nothing waits for a slow reader, as llama.cpp does not either; what
    it has not taken is bounded by the length of one answer.
    """

    def __init__(self, request: web.BaseRequest, entry: Entry, headers: HeaderLines) -> None:
        self._request = request
        self._entry = entry
        self._headers = headers
        self.fault: AnyFault | None = None
        self._framing: Framing = "length"
        self._events = 0
        self._keep_alive = False
        self.begun = False

    def sent(self) -> Sent:
        """What the handler returns to aiohttp."""
        return Sent(keep_alive=self._keep_alive)

    async def whole(
        self, status: int, content_type: str, body: bytes, headers: HeaderLines = ()
    ) -> None:
        """Send a complete answer."""
        head = self._head(status, content_type, "length", len(body), headers)
        if self._request.method == "HEAD":
            body = b""
        match self.fault:
            case CloseAfterHead():
                self._write(head)
                self._break("close")
            case Cut(how=how):
                self._write(head)
                self._write_body(body[: len(body) // 2])
                self._break(how)
            case SlowHead(for_s=for_s):
                await self._trickle(head, for_s)
                self._write_body(body)
            case _:
                self._write_body(body, before=head)

    async def begin(
        self,
        status: int,
        content_type: str,
        framing: Framing = "chunked",
        length: int = _UNSENT_BODY_BYTES,
        headers: HeaderLines = (),
    ) -> None:
        """Send the head of an answer that follows in parts."""
        if framing == "chunked" and self._request.version < (1, 1):
            framing = "close"
        head = self._head(status, content_type, framing, length, headers)
        if isinstance(self.fault, SlowHead):
            await self._trickle(head, self.fault.for_s)
        else:
            self._write(head)
        if isinstance(self.fault, CloseAfterHead):
            self._break("close")

    def send(self, events: Sequence[bytes], opening: bytes = b"") -> None:
        """Send token events in one write, before the first of them what opens the stream."""
        if isinstance(self.fault, Cut):
            left = self.fault.after_events - self._events
            self._events += len(events)
            if self._events >= self.fault.after_events:
                self.send_part(opening + b"".join(events[:left]) if left > 0 else b"")
                self._break(self.fault.how)
        self.send_part(opening + b"".join(events))

    def send_part(self, part: bytes) -> None:
        """Send body bytes as they are (as one chunk, where the framing is chunked)."""
        if not part:
            return
        if self._framing == "chunked":
            self._entry.sent(part)
            self._write(b"%x\r\n%b\r\n" % (len(part), part))
        else:
            self._write_body(part)

    def end(self, closing: bytes = b"") -> None:
        """Send what closes the stream, and its end."""
        self.send_part(closing)
        if self._framing == "chunked":
            self._write(b"0\r\n\r\n")

    def garble(self, content: bytes) -> None:
        """Send bytes that are no HTTP, and close."""
        self._write(content)
        self._break("close")

    def reset(self) -> None:
        """Reset the connection."""
        self._break("reset")

    def _head(
        self,
        status: int,
        content_type: str,
        framing: Framing,
        length: int,
        headers: HeaderLines,
    ) -> bytes:
        self.begun = True
        self._entry.status = status
        self._framing = framing
        self._keep_alive = self._request.keep_alive and framing != "close"
        lines = [f"HTTP/1.1 {status} {_PHRASES.get(status, 'Unknown')}"]
        lines.extend(f"{name}: {value}" for name, value in (*self._headers, *headers))
        if content_type:
            lines.append(f"Content-Type: {content_type}")
        if framing == "length":
            lines.append(f"Content-Length: {length}")
        elif framing == "chunked":
            lines.append("Transfer-Encoding: chunked")
        if not self._keep_alive:
            lines.append("Connection: close")
        elif self._request.version < (1, 1):
            lines.append("Connection: keep-alive")
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    async def _trickle(self, head: bytes, for_s: float) -> None:
        began_s = time.monotonic()
        for position in range(len(head)):
            await sleep_until(began_s + for_s * (position + 1) / len(head))
            self._write(head[position : position + 1])

    def _write_body(self, body: bytes, before: bytes = b"") -> None:
        self._entry.sent(body)
        self._write(before + body)

    def _write(self, content: bytes) -> None:
        transport = self._request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client has gone")
        transport.write(content)

    def _break(self, how: Literal["close", "reset", "mid_chunk"]) -> None:
        self._keep_alive = False
        if how == "reset":
            abort(self._request.transport)
        elif how == "mid_chunk" and self._framing == "chunked":
            self._write(b"%x\r\ndata: " % _CUT_CHUNK_BYTES)
        raise ReplyBroken
