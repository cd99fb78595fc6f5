"""How many slots of each replica this node's requests take, counted here and nowhere else.

Separate and pure because it is what keeps a full engine from being given more: several proxies may
send at once, each with a picture that is a second old, and only the node sees all of them. A
request whose client left takes its slot until its engine is done (`pair/core/draining.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TypeVar

from pair.agent.turns import ReplicaKey, Turns
from pair.core.draining import Draining
from pair.core.names import EngineName, ModelName
from pair.errors import BookkeepingError

PEAKS_LIMIT = 4096
"""Most peaks kept, as many as a node reports replicas. An engine that never counts has its peaks
never taken, and its models come and go; a peak that is dropped counts as foreign work for one
look."""


Key = TypeVar("Key")


def _nobody_listens() -> None:
    """What a change is told to where nobody wants to know."""


@dataclass(slots=True, eq=False)
class Admitted:
    """The hold of one request on one slot; give it back with `Admission.settle`.

    Attributes:
        proxy: the mark of the proxy that it came through, None where it came through none.
    """

    key: ReplicaKey
    proxy: str | None
    settled: bool = field(default=False, init=False)


class Admission:
    """Counts never go below zero nor, through `admit`, above the slots.

    Args:
        changed: called after each change of a count.
    """

    def __init__(self, changed: Callable[[], None] = _nobody_listens) -> None:
        self._changed = changed
        self._running: Counter[ReplicaKey] = Counter()
        self._by_proxy: Counter[tuple[ReplicaKey, str]] = Counter()
        self._peak: dict[ReplicaKey, int] = {}
        self._draining: dict[ReplicaKey, Draining] = {}
        self.turns = Turns(changed)

    def full(self, key: ReplicaKey, slots: int, proxy: str | None = None) -> bool:
        """Whether there is no slot, or none but for those whose turn comes first; whoever is told
        so and came through a proxy has a turn after those.
        """
        taken = self.taken(key)
        if slots - taken > self.turns.ahead(key, proxy):
            if proxy is not None:
                self.turns.coming(key, proxy)
            return False
        if proxy is not None:
            self.turns.turned_away(key, proxy, slots, taken)
            self._changed()
        return True

    def admit(self, key: ReplicaKey, slots: int, proxy: str | None = None) -> Admitted | None:
        """Take a slot, None if it is `full`. `slots` may have shrunk since others were admitted."""
        if self.full(key, slots, proxy):
            return None
        taken = self.taken(key) + 1
        self._running[key] += 1
        if proxy is not None:
            self._by_proxy[key, proxy] += 1
            self.turns.came(key, proxy)
        self._peak[key] = max(taken, self._peak.pop(key, 0))
        if len(self._peak) > PEAKS_LIMIT:
            del self._peak[next(iter(self._peak))]
        self._count_changed(key)
        return Admitted(key, proxy)

    def settle(self, admitted: Admitted, *, left_at: float | None = None) -> None:
        """Give the slot back, once, however the request ended; or let it drain, where its client
        left at `left_at` and the engine may still compute.
        """
        if admitted.settled:
            raise BookkeepingError(f"a request to {admitted.key} was settled twice")
        admitted.settled = True
        _take_one(self._running, admitted.key)
        if admitted.proxy is not None:
            _take_one(self._by_proxy, (admitted.key, admitted.proxy))
        if left_at is not None:
            self._draining.setdefault(admitted.key, Draining()).add(left_at)
        self._count_changed(admitted.key)

    def running(self, key: ReplicaKey) -> int:
        """Requests admitted to this replica and not settled."""
        return self._running[key]

    def running_of(self, key: ReplicaKey, proxy: str) -> int:
        """Those among them that came through this proxy."""
        return self._by_proxy[key, proxy]

    def taken(self, key: ReplicaKey) -> int:
        """Slots that those take, and those whose clients left."""
        draining = self._draining.get(key)
        return self._running[key] + (0 if draining is None else len(draining))

    def counts(self, key: ReplicaKey) -> bool:
        """Whether its engine is one that tells on how many requests it works."""
        draining = self._draining.get(key)
        return draining is not None and draining.counts

    def left_at(self, key: ReplicaKey) -> float | None:
        """When a client last left a request there on which the engine may still compute."""
        draining = self._draining.get(key)
        return None if draining is None else draining.newest_at

    def total(self) -> int:
        """The same over all replicas."""
        return self._running.total()

    def take_peak(self, key: ReplicaKey) -> int:
        """The most slots taken at once since this was last asked."""
        peak = self._peak.pop(key, 0)
        if taken := self.taken(key):
            self._peak[key] = taken
        return max(peak, taken)

    def take_count(self, key: ReplicaKey, load: int, asked_at: float) -> int:
        """Believe an engine that was asked at `asked_at` and counts `load` requests there; how many
        of them did not come through this node.

        Ours is the peak since it counted before, for it may have counted at any moment of it.
        """
        foreign = max(0, load - self.take_peak(key))
        draining = self._draining.setdefault(key, Draining())
        drained = len(draining)
        draining.seen(load - self._running[key], asked_at)
        self._settle_peak(key)
        if len(draining) < drained:
            self._count_changed(key)
        return foreign

    def expire(self, key: ReplicaKey, now: float, grace_s: float) -> None:
        """The same for an engine that did not count this time: believe the clock."""
        draining = self._draining.get(key)
        if draining is not None:
            drained = len(draining)
            draining.expire(now, grace_s)
            self._settle_peak(key)
            if len(draining) < drained:
                self._count_changed(key)

    def nothing_drains(self, engine: EngineName, but: Collection[ModelName] = ()) -> None:
        """The engine is gone, or holds no other models than these any more."""
        for key in [key for key in self._draining if key[0] == engine and key[1] not in but]:
            if len(self._draining.pop(key)):
                self._count_changed(key)

    def _count_changed(self, key: ReplicaKey) -> None:
        self.turns.look(key, self.taken(key))
        self._changed()

    def _settle_peak(self, key: ReplicaKey) -> None:
        """What has drained can no longer be counted."""
        if key in self._peak:
            self._peak[key] = self.taken(key)


def _take_one(counts: Counter[Key], key: Key) -> None:
    """One less, and no entry for nothing."""
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
