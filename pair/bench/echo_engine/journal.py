"""What the echo engine did, for tests and reports to read: the engine's side of the story.

A proxy's own counters cannot show that it never sent two requests where one slot was free, or that
it did not start an answer twice. These can. Everything is bounded; times are seconds since the
engine's start.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Fate = Literal["open", "done", "refused", "faulted", "hung_up", "stopped"]


@dataclass(slots=True, eq=False)
class Entry:
    """One request for work.

    Attributes:
        arrival_s: its head was read; `start_s`: it got a slot; `first_token_s`: the first token was
            handed to the socket; `end_s`: all was over. None: that never happened.
        load_s: how long it waited for the model to be loaded.
        slot: which slot, None if it never got one.
        status: the HTTP status sent, 0 if no answer was begun.
        fate: "open" until over; "refused": a regular error answer; "faulted": a scripted one;
            "hung_up": the client left first; "stopped": the engine did.
        fault: kind of the scripted fault that was applied, empty if none.
        request_sha256, body_sha256: hex digests of the body received and of the body bytes sent,
            transfer coding aside.
        headers: the request's header lines as received. In process only, not in the JSON.
    """

    number: int
    request_id: str
    path: str
    arrival_s: float
    headers: Sequence[tuple[bytes, bytes]] = ()
    model: str = ""
    stream: bool = False
    start_s: float | None = None
    load_s: float = 0.0
    first_token_s: float | None = None
    end_s: float | None = None
    slot: int | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    status: int = 0
    fate: Fate = "open"
    fault: str = ""
    request_sha256: str = ""
    body_sha256: str = ""
    body_bytes: int = 0
    digest: Any = field(default_factory=hashlib.sha256)

    def sent(self, body: bytes) -> None:
        """Count body bytes that were handed to the socket."""
        self.digest.update(body)
        self.body_bytes += len(body)

    def as_json(self) -> dict[str, object]:
        """The entry for GET /echo/journal."""
        hidden = ("headers", "digest")
        return {name: getattr(self, name) for name in self.__slots__ if name not in hidden}


@dataclass(slots=True)
class Counters:
    """Sums since the start or the last reset.

    Attributes:
        running, waiting: now, on slots and in the queue.
        max_running: most at one instant; never above the number of slots, or the engine is broken.
        fates: ended requests for work by fate.
        requests_by_path: all requests outside /echo, those for work and others.
        prompt_tokens: prefilled ones, without those from the cache.
        prefill_s, decode_s: time spent on slots.
    """

    running: int = 0
    waiting: int = 0
    max_running: int = 0
    started: int = 0
    fates: Counter[str] = field(default_factory=Counter)
    requests_by_path: Counter[str] = field(default_factory=Counter)
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    prefill_s: float = 0.0
    decode_s: float = 0.0


Witness = Callable[[Entry], None]


class Journal:
    """A ring of the last entries, sums over all, and a way to wait for what they say.

    Args:
        witness: told of each entry as it is opened, started and closed, for what must outlive the
            process.
    """

    def __init__(self, limit: int, witness: Witness | None = None) -> None:
        self._limit = limit
        self._witness = witness
        self._origin_s = time.monotonic()
        self._numbers = 0
        self._watchers: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self.entries: deque[Entry] = deque(maxlen=limit)
        self.counters = Counters()
        self.starts: OrderedDict[str, int] = OrderedDict()

    def now_s(self) -> float:
        """Seconds since the engine's start."""
        return time.monotonic() - self._origin_s

    def seen(self, path: str) -> None:
        """Count one request of any kind; paths beyond the limit share one count."""
        by_path = self.counters.requests_by_path
        by_path[path if path in by_path or len(by_path) < self._limit else "(others)"] += 1
        self.changed()

    def open(self, path: str, request_id: str, headers: Sequence[tuple[bytes, bytes]]) -> Entry:
        """A request for work has arrived."""
        self._numbers += 1
        entry = Entry(self._numbers, request_id, path, self.now_s(), headers)
        self.entries.append(entry)
        self._tell(entry)
        self.changed()
        return entry

    def started(self, entry: Entry, slot: int) -> None:
        """`entry` got a slot. Two starts under one request id are a generation that ran twice."""
        entry.slot, entry.start_s = slot, self.now_s()
        self.counters.started += 1
        if entry.request_id:
            self.starts[entry.request_id] = self.starts.get(entry.request_id, 0) + 1
            self.starts.move_to_end(entry.request_id)
            if len(self.starts) > self._limit:
                self.starts.popitem(last=False)
        self._tell(entry)
        self.changed()

    def close(self, entry: Entry, fate: Fate) -> None:
        """`entry` is over, once."""
        entry.fate, entry.end_s = fate, self.now_s()
        entry.body_sha256 = entry.digest.hexdigest()
        self.counters.fates[fate] += 1
        self._tell(entry)
        self.changed()

    def set_load(self, running: int, waiting: int) -> None:
        """How many requests hold a slot and wait for one from now on."""
        self.counters.running, self.counters.waiting = running, waiting
        self.counters.max_running = max(self.counters.max_running, running)
        self.changed()

    def reset(self) -> None:
        """Forget entries and sums; what is running stays counted as running."""
        running, waiting = self.counters.running, self.counters.waiting
        self.entries.clear()
        self.starts.clear()
        self.counters = Counters(running=running, waiting=waiting, max_running=running)
        self.changed()

    async def until(self, condition: Callable[[], bool], timeout_s: float | None) -> None:
        """Return as soon as `condition()` holds; it is asked again at each change of the journal.

        Raises TimeoutError after `timeout_s` (None: never).
        """
        if condition():
            return
        met: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        watcher = (condition, met)
        self._watchers.append(watcher)
        try:
            async with asyncio.timeout(timeout_s):
                await met
        finally:
            self._watchers.remove(watcher)

    def _tell(self, entry: Entry) -> None:
        if self._witness is not None:
            self._witness(entry)

    def changed(self) -> None:
        """Wake those in `until` whose condition holds now."""
        for condition, met in self._watchers:
            if not met.done() and condition():
                met.set_result(None)

    def as_json(self) -> dict[str, object]:
        """The answer to GET /echo/journal."""
        counters = {name: getattr(self.counters, name) for name in Counters.__slots__}
        return {
            "now_s": self.now_s(),
            "counters": counters,
            "starts": dict(self.starts),
            "entries": [entry.as_json() for entry in self.entries],
        }
