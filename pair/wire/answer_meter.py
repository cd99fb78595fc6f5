"""What an answer has cost, told from its bytes while they pass to the client unchanged.

Keeps the first and the last few kilobytes only, because every engine says its counts in one of
those two places; the middle of a long answer is counted and forgotten.
"""

from __future__ import annotations

from dataclasses import replace

from pair.core.events import Usage
from pair.wire.sse import EventCounter
from pair.wire.usage import read_usage

HEAD_LIMIT_BYTES = 4096
"""Kept of an answer's beginning: Anthropic's first event, or an embedding's counts before its
numbers."""

TAIL_LIMIT_BYTES = 8192
"""Kept of its end: the last event with counts, timings and settings has up to 2 kB."""

_DONE = b"[DONE]"


class AnswerMeter:
    """Feed it each piece of one answer's body, then ask for the usage.

    Args:
        packed: the body is compressed; nothing is told from it.
    """

    __slots__ = ("_counter", "_head", "_readable", "_tail", "_whole")

    def __init__(self, content_type: bytes | None, *, packed: bool = False) -> None:
        self._counter = EventCounter(content_type or b"")
        self._readable = not packed
        self._head = bytearray()
        self._tail = bytearray()
        self._whole = True

    def feed(self, piece: bytes) -> None:
        """Note one piece, however the stream was split; 0.7 us for one event."""
        if not piece or not self._readable:
            return
        self._counter.feed(piece)
        room = HEAD_LIMIT_BYTES - len(self._head)
        if room > 0:
            self._head += piece[:room]
            piece = piece[room:]
        tail = self._tail
        tail += piece[-TAIL_LIMIT_BYTES:]
        if len(piece) > TAIL_LIMIT_BYTES:
            self._whole = False
        if len(tail) > 2 * TAIL_LIMIT_BYTES:  # twice, so that the cut costs little on average
            del tail[:-TAIL_LIMIT_BYTES]
            self._whole = False

    def ends(self) -> bytes:
        """With what the answer ends so far: 8 KiB of it at least, or all, as after a blank line."""
        if self._whole:
            return b"\n\n" + self._head + self._tail
        return bytes(self._tail)

    def usage(self) -> Usage:
        """The engine's own counts; without them a stream's events stand for its output tokens.

        An event is about one token: the first and the last carry none, some carry two. All None for
        an answer that is compressed, or no stream and silent about its cost.
        """
        gap = b"" if self._whole else b"\n"
        said = read_usage(bytes(self._head) + gap + bytes(self._tail))
        if said.output_tokens is not None or not self._counter.count:
            return said
        ends = (self._tail or self._head).rstrip()
        return replace(said, output_tokens=self._counter.count - ends.endswith(_DONE))
