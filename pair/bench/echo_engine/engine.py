"""The running echo engine: a listening socket, its connections, and the way to stop or to crash."""

from __future__ import annotations

import asyncio
import os
import weakref
from types import TracebackType
from typing import Self

from aiohttp import web

from pair.bench.echo_engine import control
from pair.bench.echo_engine.exchange import Exchange, Premises
from pair.bench.echo_engine.faults import FaultBook
from pair.bench.echo_engine.generation import Workbench
from pair.bench.echo_engine.journal import Journal, Witness
from pair.bench.echo_engine.personas import persona
from pair.bench.echo_engine.reply import abort
from pair.bench.echo_engine.settings import EchoSettings, parse_listen
from pair.errors import SettingsError

# Long lines in a head are the client's business; 64 KiB is what the proxy lets through, too.
_HEAD_LINE_LIMIT_BYTES = 64 * 1024
# A burst of hundreds of connections must not meet a full accept queue.
_BACKLOG = 1024
# How long a stopping engine lets running answers go on: not at all, but aiohttp takes 0 for "for
# ever".
_STOP_S = 0.01
# How long a connection whose request was refused unread is read from before it is closed.
_LINGERING_S = 1.0


class EchoEngine:
    """One pretended engine, listening while entered.

    Attributes:
        settings: as given.
        journal: what it did.
        faults: what goes wrong on purpose; may be changed at any time.
        url: its address, `http://ADDRESS:PORT`, once entered.
    """

    def __init__(
        self, settings: EchoSettings | None = None, witness: Witness | None = None
    ) -> None:
        self.settings = settings or EchoSettings()
        self.journal = Journal(self.settings.journal_limit, witness)
        self.faults = FaultBook(self.settings.faults)
        self.url = ""
        self._bench = Workbench(self.settings, self.journal)
        self._stopping = False
        self._idle_closings: dict[asyncio.BaseTransport, asyncio.TimerHandle] = {}
        self._used_connections: weakref.WeakSet[asyncio.BaseTransport] = weakref.WeakSet()
        self._premises = Premises(
            bench=self._bench,
            persona=persona(self.settings.persona),
            faults=self.faults,
            stopping=lambda: self._stopping,
            close_when_idle=self._close_when_idle,
        )
        app = web.Application(client_max_size=self.settings.body_limit_bytes)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(
            app,
            handle_signals=False,
            access_log=None,
            # Frees the slot the moment the client hangs up; off by default in aiohttp.
            handler_cancellation=True,
            keepalive_timeout=self.settings.idle_close_s,
            shutdown_timeout=_STOP_S,
            lingering_time=_LINGERING_S,
            max_line_size=_HEAD_LINE_LIMIT_BYTES,
            max_field_size=_HEAD_LINE_LIMIT_BYTES,
            # The journal's digest is of the bytes as they came.
            auto_decompress=False,
        )

    async def __aenter__(self) -> Self:
        """Listen; raises SettingsError where that is not possible."""
        address, port = parse_listen(self.settings.listen)
        await self._runner.setup()
        site = web.TCPSite(self._runner, address, port, backlog=_BACKLOG)
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            raise SettingsError(
                f"The echo engine cannot listen on {self.settings.listen}: {_why(error)}."
            ) from None
        bound_address, bound_port = self._runner.addresses[0][:2]
        shown = f"[{bound_address}]" if ":" in bound_address else bound_address
        self.url = f"http://{shown}:{bound_port}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop: no new connections, running answers are broken off with a close."""
        self._stopping = True
        self._bench.pace.stop()
        for timer in self._idle_closings.values():
            timer.cancel()
        self._idle_closings.clear()
        await self._runner.cleanup()

    async def crash(self) -> None:
        """End as a killed process does, in the middle of everything: all connections are reset."""
        self._stopping = True
        for site in tuple(self._runner.sites):
            await site.stop()
        if self._runner.server is not None:
            for connection in self._runner.server.connections:
                abort(connection.transport)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        transport = request.transport
        reused = transport in self._used_connections
        if transport is not None:
            self._used_connections.add(transport)
            if (timer := self._idle_closings.pop(transport, None)) is not None:
                timer.cancel()
        if request.path.startswith(control.PREFIX):
            return await control.answer(request, self._bench, self.faults)
        return await Exchange(self._premises, request, reused=reused).run()

    def _close_when_idle(self, request: web.BaseRequest, after_s: float) -> None:
        transport = request.transport
        if transport is None:
            return

        def close() -> None:
            self._idle_closings.pop(transport, None)
            transport.close()

        loop = asyncio.get_running_loop()
        self._idle_closings[transport] = loop.call_later(after_s, close)


def _why(error: OSError) -> str:
    """The system's own words: asyncio puts its own around them."""
    # Not above 0 where a name is not found, and none at all from some versions of asyncio.
    number = error.errno or 0
    return os.strerror(number) if number > 0 else error.strerror or str(error)
