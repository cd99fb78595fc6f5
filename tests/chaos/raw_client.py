"""A client on a bare socket, which can leave at any byte, read slowly, and see every byte."""

from __future__ import annotations

import asyncio
import hashlib
import json
import socket
import struct
import time
from dataclasses import dataclass, field

from tests.chaos.answers import PATHS, expected, read_answer, request_body
from tests.chaos.plan import CallPlan, Manner
from tests.chaos.record import Record, Seen

SLOW_BYTES_PER_S = 1024
_LINGER_NONE = struct.pack("ii", 1, 0)


class Left(Exception):
    """The client's plan was to leave here."""


@dataclass(slots=True)
class _Answer:
    """What has come so far; `whole` once the framing says so."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)
    whole: bool = False


class RawClient:
    """One connection at a time, kept alive where the plan allows."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def call(self, plan: CallPlan, record: Record) -> None:
        """Make one call; what came of it is in `record`, save for hanging."""
        answer = _Answer()
        try:
            await self._send(plan, record)
            await self._read(plan, record, answer)
        except Left:
            record.seen = Seen.LEFT
        except (OSError, EOFError, ValueError) as error:
            record.detail = f"{type(error).__name__}: {error}"
        finally:
            if record.seen is not Seen.LEFT:
                _judge(plan, record, answer)
            keeps = answer.whole and answer.headers.get("connection", "") != "close"
            if not keeps or plan.manner in (Manner.HALF_CLOSES, Manner.SLOW):
                self.close(by_reset=plan.by_reset and record.seen is Seen.LEFT)

    def close(self, *, by_reset: bool = False) -> None:
        """Close the connection, if there is one."""
        if self._writer is None:
            return
        if by_reset:
            raw = self._writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NONE)
            self._writer.transport.abort()
        self._writer.close()
        self._reader = self._writer = None

    async def _connect(self, plan: CallPlan) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        slow = plan.manner is Manner.SLOW
        if self._reader is not None and (plan.fresh or slow or self._reader.at_eof()):
            self.close()
        if self._reader is None or self._writer is None:
            raw = socket.socket()
            raw.setblocking(False)
            if slow:
                # Before the connection is made, or it has no effect on the window.
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            await asyncio.get_running_loop().sock_connect(raw, self._address)
            limit = 4096 if slow else 65536
            self._reader, self._writer = await asyncio.open_connection(sock=raw, limit=limit)
        return self._reader, self._writer

    async def _send(self, plan: CallPlan, record: Record) -> None:
        _, writer = await self._connect(plan)
        body = json.dumps(request_body(plan)).encode()
        head = (
            f"POST {PATHS[plan.api]} HTTP/1.1\r\nHost: chaos\r\nContent-Type: application/json\r\n"
            f"x-request-id: {plan.mark}\r\nContent-Length: {len(body)}\r\n\r\n"
        ).encode()
        whole = head + body
        if plan.manner is Manner.LEAVES_SENDING:
            writer.write(whole[: int(len(whole) * plan.moment)])
            await writer.drain()
            raise Left
        writer.write(whole)
        await writer.drain()
        record.sent = True
        if plan.manner is Manner.LEAVES_WAITING:
            await asyncio.sleep(plan.moment * 0.4)
            raise Left
        if plan.manner is Manner.HALF_CLOSES:
            writer.write_eof()

    async def _read(self, plan: CallPlan, record: Record, answer: _Answer) -> None:
        assert self._reader is not None
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        status, *lines = head[:-4].split("\r\n")
        answer.status = record.status = int(status.split()[1])
        for line in lines:
            name, _, value = line.partition(":")
            answer.headers[name.lower()] = value.strip()
        record.node = answer.headers.get("x-pair-node", "")
        record.attempts = answer.headers.get("x-pair-attempts", "")
        # An answer is about 200 bytes a streamed token, or 4 of a whole one.
        leave_at = plan.moment * plan.tokens * (200 if plan.streamed else 4)
        if "content-length" in answer.headers:
            await self._take(int(answer.headers["content-length"]), plan, record, answer, leave_at)
        else:
            while length := int((await self._reader.readuntil(b"\r\n"))[:-2], 16):
                await self._take(length, plan, record, answer, leave_at)
                await self._reader.readexactly(2)
            await self._reader.readexactly(2)
        answer.whole = True

    async def _take(
        self, length: int, plan: CallPlan, record: Record, answer: _Answer, leave_at: float
    ) -> None:
        assert self._reader is not None
        slow = plan.manner is Manner.SLOW
        while length:
            piece = await self._reader.read(min(length, SLOW_BYTES_PER_S if slow else 65536))
            if not piece:
                raise EOFError("the connection ended within the body")
            if record.content_s is None and answer.status == 200 and not piece.startswith(b":"):
                record.content_s = time.monotonic()
            answer.body += piece
            length -= len(piece)
            if slow:
                await asyncio.sleep(len(piece) / SLOW_BYTES_PER_S)
            if plan.manner is Manner.LEAVES_READING and len(answer.body) > leave_at:
                raise Left


def _judge(plan: CallPlan, record: Record, answer: _Answer) -> None:
    """What the client saw, and whether it was right."""
    body = bytes(answer.body)
    if answer.status != 200:
        left = plan.manner is Manner.HALF_CLOSES and not answer.status
        record.seen = Seen.LEFT if left else Seen.ERROR
        record.detail = record.detail or body.decode("utf-8", "replace")[:400]
        return
    said = read_answer(plan.api, plan.streamed, body)
    right = expected(plan)
    if answer.whole and not said.error:
        record.seen = Seen.ANSWERED
        record.body_sha256 = hashlib.sha256(body).hexdigest()
        if said.text != right:
            record.wrong = f"the answer is {said.text[:80]!r}, not {right[:80]!r}"
        elif not said.ended:
            record.wrong = "whole by its framing, without its dialect's end"
        return
    if plan.manner is Manner.HALF_CLOSES and not said.error:
        record.seen = Seen.LEFT
        return
    record.seen = Seen.ERROR if record.content_s is None else Seen.BROKEN
    record.detail = said.error or record.detail
    if plan.streamed and not right.startswith(said.text):
        record.wrong = f"the broken answer is {said.text[:80]!r}, not {right[:80]!r}"
    elif plan.streamed and said.ended:
        record.wrong = "a broken answer with its dialect's regular end"
    elif (
        plan.streamed
        and not said.error
        and not (
            # Within a line no event can be put in: it would be torn, too.
            record.detail.startswith("Connection") or not body.endswith(b"\n")
        )
    ):
        record.wrong = "a broken stream without an error event"
    elif answer.whole and plan.streamed:
        record.wrong = "a broken stream with a regular end of its framing"
