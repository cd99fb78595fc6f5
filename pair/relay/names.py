"""Looking names up without a hung one being in the way of the others.

The system's resolver can only be asked by a thread that waits, for half a minute where nobody
answers, and the event loop has four or so of those for everything: as many dead names would keep
every other name from being found. So each look-up has a thread of its own, and a name never more
than one. The threads are daemons: a hung one does not hold up the end of the process.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

THREADS_LIMIT = 128
"""Most look-ups at once by one of these: as many names that hang. Further ones fail at once."""

Found = Sequence[tuple[Any, ...]]
"""As `socket.getaddrinfo` returns it."""


class Names:
    """Bounded by `THREADS_LIMIT`; belongs to one event loop."""

    def __init__(self) -> None:
        self._under_way: dict[tuple[str, int], asyncio.Future[Found]] = {}

    async def look_up(self, name: str, port: int) -> Found:
        """The addresses of a name; who gives up leaves the look-up to whoever asks next.

        Raises:
            socket.gaierror: there are none, or too many look-ups hang.
        """
        found = self._under_way.get((name, port))
        if found is None:
            if len(self._under_way) >= THREADS_LIMIT:
                raise socket.gaierror(socket.EAI_AGAIN, "too many names are being looked up")
            found = self._start(name, port)
        return await asyncio.shield(found)

    def _start(self, name: str, port: int) -> asyncio.Future[Found]:
        loop = asyncio.get_running_loop()
        found: asyncio.Future[Found] = loop.create_future()

        def settle(result: Found | OSError) -> None:
            del self._under_way[name, port]
            if found.cancelled():
                return
            if isinstance(result, OSError):
                found.set_exception(result)
                # Nobody may be left to hear of it.
                found.exception()
            else:
                found.set_result(result)

        def ask() -> None:
            result: Found | OSError
            try:
                result = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
            except OSError as error:
                result = error
            except UnicodeError:
                result = socket.gaierror(socket.EAI_NONAME, "not a name")
            # The loop may have ended meanwhile.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(settle, result)

        self._under_way[name, port] = found
        threading.Thread(target=ask, name=f"look-up of {name}", daemon=True).start()
        return found
