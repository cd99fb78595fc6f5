"""Whether a client takes what it is sent, over a socket whose other side reads when told to."""

from __future__ import annotations

import asyncio
import socket

from pair.relay.intake import Intake
from pair.relay.sockets import tune
from tests.relay.wires import eventually


async def test_it_is_stuck_for_as_long_as_nothing_is_taken() -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=ours)
    tune(transport)
    intake = Intake(0.0)
    assert intake.stuck_s(transport, 5.0) == 0.0
    sent = b"x" * (4 << 20)
    transport.write(sent)
    intake.written_bytes += len(sent)
    intake.stuck_s(transport, 6.0)
    assert intake.stuck_s(transport, 9.0) == 3.0
    pending_bytes = transport.get_write_buffer_size()
    theirs.recv(1 << 20)
    await eventually(lambda: transport.get_write_buffer_size() < pending_bytes)
    assert intake.stuck_s(transport, 10.0) == 0.0
    assert intake.stuck_s(transport, 12.0) == 2.0
    theirs.close()
    transport.abort()
