"""The strategies that follow the cache by a rule and not by a prediction: what routers of data
centres do, here for comparison and for those who ask.

They say nothing of time, so on unequal machines or on a cold wave they can be far from the best;
`finish-time` takes the same cache into account by the seconds that it saves.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection

from pair.core.names import ModelName, ReplicaId
from pair.core.outlook import Outlook
from pair.core.prompt import whole_blocks
from pair.core.queue_depth import QueueDepth
from pair.core.replica import Replica
from pair.core.strategy import Choice, Wait
from pair.core.ticket import Ticket

PREFIXES_LIMIT = 10_000
"""Most prefixes whose node is remembered, least recently used out; 2 MB."""

WAITING_LIMIT = 64
"""Most conversations that wait for one node at a time, each of which is asked at every event;
further ones go elsewhere."""


class PrefixAware:
    """A prefix belongs to the node that had it first, until so many calls run or wait there that
    the one with more capacity takes the next.

    The rule and its settings are those of SageMaker's PREFIX_AWARE: `prefix.length_chars`
    (PrefixLength) and `prefix.concurrency_threshold` (ConcurrencyThreshold). There the call queues
    unseen at the node; here it waits for it in the one queue.
    """

    name = "prefix-aware"

    def __init__(self) -> None:
        self._homes: OrderedDict[tuple[ModelName, int], ReplicaId] = OrderedDict()

    def choose(
        self, ticket: Ticket, free: Collection[Replica], outlook: Outlook, now: float
    ) -> Choice | Wait:
        marks = ticket.opened.prompt.fingerprints
        blocks = min(len(marks), whole_blocks(outlook.limits.prefix_length_chars))
        if not blocks:
            return _most_capacity(free, "a prompt too short to have a prefix")
        key = ticket.name, marks[blocks - 1]
        home = outlook.holder(ticket, self._homes.get(key))
        if home is None:
            choice = _most_capacity(free, "a new prefix")
            self._homes[key] = choice.replica.id
            if len(self._homes) > PREFIXES_LIMIT:
                self._homes.popitem(last=False)
            return choice
        self._homes.move_to_end(key)
        ahead = home.in_flight + outlook.waits_for(home)
        if ahead >= outlook.limits.concurrency_threshold:
            return _most_capacity(free, f"{ahead} calls with its prefix's node")
        if home in free:
            return Choice(home, "its prefix was here before")
        wait = _wait_for(home, outlook)
        return wait or _most_capacity(free, "its prefix's node takes no calls now")


class KvAware:
    """The free replica that should have the largest share of the prompt in its cache; the shortest
    queue among equals.
    """

    name = "kv-aware"

    def choose(
        self, ticket: Ticket, free: Collection[Replica], outlook: Outlook, now: float
    ) -> Choice:
        prompt = ticket.opened.prompt
        chars = {replica: outlook.prefixes.cached_chars(replica, prompt) for replica in free}
        most = max(chars.values())
        best = [replica for replica, cached in chars.items() if cached == most]
        share = most / max(1, prompt.chars)
        replica = QueueDepth().choose(ticket, best, outlook, now).replica
        return Choice(replica, f"{share:.0%} of the prompt cached, most of {len(free)} free")


class Session:
    """A conversation stays where it is; a new one, or one whose client sends no mark, goes to the
    shortest queue.
    """

    name = "session"

    def __init__(self) -> None:
        self._new = QueueDepth()

    def choose(
        self, ticket: Ticket, free: Collection[Replica], outlook: Outlook, now: float
    ) -> Choice | Wait:
        home = outlook.holder(ticket, outlook.sessions.home(ticket.opened.session))
        if home is not None and home in free:
            return Choice(home, "its conversation is here")
        wait = None
        if home is not None and outlook.waits_for(home) < WAITING_LIMIT:
            wait = _wait_for(home, outlook)
        return wait or self._new.choose(ticket, free, outlook, now)


def _wait_for(home: Replica, outlook: Outlook) -> Wait | None:
    """Until a call of ours there ends; None where none runs, so that nothing would end the wait."""
    if not home.in_flight:
        return None
    outlook.wait_for(home)
    return Wait(f"waits for {home.node_name}, where it was before")


def _most_capacity(free: Collection[Replica], why: str) -> Choice:
    best = max(free, key=lambda replica: (replica.slots - replica.load, -replica.picked))
    return Choice(best, f"{why}: most free slots of {len(free)}")
