"""What a strategy may know beyond the replicas that are free: how fast each is, what each has in
its cache, and when the busy ones will be free.

It learns from the life of every ticket and predicts from what it learned; it decides nothing and
counts nothing that an invariant rests on, so whatever it gets wrong makes a choice worse and no
more.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice

from pair.core.eligibility import allowed
from pair.core.estimates import Estimates, Finished
from pair.core.events import Usage
from pair.core.fleet import Fleet
from pair.core.ledger import Lease
from pair.core.limits import Limits
from pair.core.names import LeaseId, ModelName, ReplicaId
from pair.core.offer import Offer
from pair.core.prefix_index import PrefixIndex
from pair.core.replica import Replica
from pair.core.sessions import Sessions
from pair.core.siblings import Siblings
from pair.core.speeds import Speed
from pair.core.ticket import Ticket
from pair.core.upcoming import Upcoming
from pair.core.waiting_room import WaitingRoom

SESSIONS_LIMIT = 10_000
"""Most conversations remembered; 3 MB."""

_BEST_S = 1.0
"""How old (s) the answer to "which is the fastest" may be, which looks at every holder."""

_LOOKED_AT = 24
"""Busy slots that are weighed against a free one, soonest free first: more than a house has, and
what a decision on a fleet of hundreds may cost (about 3 us each)."""

_PROMISES_LIMIT = 32
"""Busy slots that are waited for at one event, for the same reason; each by as many tickets, one
after the other, as should end there before the free slot would be done."""

_THINKING_S = 30.0
"""Agents come back to a conversation after 1 to 27 s of thinking (seen on the wire); from here on
each further such time halves the chance that they do."""


class Outlook:
    """Learns and predicts; see the parts for what bounds each."""

    def __init__(self, limits: Limits, fleet: Fleet, room: WaitingRoom) -> None:
        self.limits = limits
        self.fleet = fleet
        self._room = room
        self.estimates = Estimates(limits.estimates_limit)
        self.prefixes = PrefixIndex(limits.fingerprints_limit)
        self.sessions = Sessions(SESSIONS_LIMIT)
        self.siblings = Siblings()
        self.upcoming = Upcoming()
        self._promised: dict[LeaseId, float] = {}
        self._waits_for: Counter[Replica] = Counter()
        self._best: dict[ModelName, tuple[float, Speed | None]] = {}

    # What happens to tickets

    def opened(self, ticket: Ticket) -> None:
        """A call has come that will want a slot."""
        self.siblings.open(ticket.id, ticket.opened.prompt, self.prefixes.held)

    def granted(self, ticket: Ticket, lease: Lease, now: float) -> None:
        """It has a slot."""
        replica = lease.replica
        self.siblings.granted(ticket.id, replica.id.node)
        if self.estimates.speed(replica.id, replica.load) is not None:
            offer = self._offer(ticket, replica, now, replica.load, now)
            if offer is not None:
                ticket.expected = offer
                self.upcoming.expect(lease, offer.finish_at, self.fleet.names_of(replica))

    def first_byte(self, ticket: Ticket, lease: Lease, now: float) -> None:
        """Its prompt has been read there, and its prefix is in that cache from now on."""
        opened, replica = ticket.opened, lease.replica
        ticket.first_byte_at = now
        if opened.prompt.chars:
            self.prefixes.prefilled(replica, opened.prompt, now)
        self.sessions.served(opened.session, replica.id, opened.prompt.chars)
        if opened.streamed and ticket.expected is not None:
            self.upcoming.settled(lease)
            ends_at = now + ticket.expected.decode_s
            self.upcoming.expect(lease, ends_at, self.fleet.names_of(replica))

    def answered(self, ticket: Ticket, lease: Lease, usage: Usage, now: float) -> None:
        """It has its whole answer."""
        opened, replica = ticket.opened, lease.replica
        first_byte_s = None
        if opened.streamed and ticket.first_byte_at is not None:
            first_byte_s = ticket.first_byte_at - lease.granted_at
        cached = None if ticket.expected is None else ticket.expected.cached_tokens
        self.estimates.learn(
            Finished(
                replica.id,
                replica.id.model,
                opened.prompt.chars,
                usage,
                first_byte_s,
                now - lease.granted_at,
                max(1, lease.busy),
                cached,
            ),
            now,
        )
        for name in self.fleet.names_of(replica):
            if self._best.get(name, (0.0, None))[1] is None:
                self._best.pop(name, None)
        ratio = self.estimates.chars_per_token(replica.id.model)
        ticket.answer_chars = round((usage.output_tokens or 0) * ratio)
        if opened.prompt.fingerprints and usage.cached_tokens is not None:
            chars = round(usage.cached_tokens * ratio)
            self.prefixes.corrected(replica, opened.prompt, chars, now)

    def settled(self, ticket: Ticket, lease: Lease, now: float) -> None:
        """Its slot is free again, for whatever reason."""
        self.upcoming.settled(lease)
        if ticket.first_byte_at is not None and ticket.opened.prompt.chars:
            prompt, answer_chars = ticket.opened.prompt, ticket.answer_chars
            self.prefixes.released(lease.replica, prompt, now, answer_chars)
        ticket.expected = ticket.first_byte_at = None

    def failed(self, ticket: Ticket, lease: Lease) -> None:
        """The attempt was for nothing."""
        self.siblings.failed(ticket.id, lease.replica.id.node)

    def closed(self, ticket: Ticket) -> None:
        """It is over."""
        self.siblings.close(ticket.id)

    # What a strategy asks

    def begin(self) -> None:
        """Slots are about to be handed out at one event; nothing is promised yet."""
        self._promised.clear()
        self._waits_for.clear()

    def waiting(self, name: ModelName) -> int:
        """How many tickets wait for this model."""
        line = self._room.line(name)
        return 0 if line is None else len(line)

    def holder(self, ticket: Ticket, replica_id: ReplicaId | None) -> Replica | None:
        """The replica of this id, if it holds the ticket's model and the ticket may wait for it."""
        replica = None if replica_id is None else self.fleet.replica(replica_id)
        if replica is None or not self.fleet.ready(replica) or self.fleet.in_doubt(replica):
            return None
        if ticket.name not in self.fleet.names_of(replica):
            return None  # a conversation may go on with another model
        return replica if allowed(ticket, (replica,), self.fleet) else None

    def tokens(self, ticket: Ticket) -> tuple[float, float]:
        """About how many tokens its prompt and its answer have."""
        prompt = ticket.opened.prompt
        model = self.fleet.model_of(ticket.name)
        return (
            self.estimates.prompt_tokens(model, prompt.chars),
            self.estimates.output_tokens(model, prompt.output_limit_tokens),
        )

    def offer(self, ticket: Ticket, replica: Replica, now: float) -> Offer | None:
        """What a free replica could do; None while nothing is known of any that holds the model."""
        return self._offer(ticket, replica, now, replica.load + 1, now)

    def had_share(self, ticket: Ticket, offer: Offer) -> bool:
        """Whether this node has had its share of the wave that the ticket belongs to, and has
        nothing in its cache that is the ticket's alone.
        """
        wave = self.siblings.of(ticket.id)
        if wave is None:
            return False
        cached_chars = offer.cached_tokens * self.estimates.chars_per_token(offer.replica.id.model)
        nodes = len(self.fleet.holders(ticket.name))
        return wave.has_share(offer.replica.id.node, nodes) and not wave.goes_beyond(cached_chars)

    def sooner(
        self,
        ticket: Ticket,
        than: Offer,
        gain_s: float,
        now: float,
        unless: Callable[[Offer], bool],
    ) -> Offer | None:
        """The busy slot on which the ticket would end soonest, if that is sooner by at least
        `gain_s` than on a free one; others that wait may have been promised it before.

        Args:
            unless: what the ticket should not wait for, however soon it ends there.
        """
        if len(self._promised) >= _PROMISES_LIMIT:
            return None
        best: Offer | None = None
        limit_at = than.finish_at - gain_s
        for free_at, lease in islice(self.upcoming.soonest(ticket.name, now), _LOOKED_AT):
            # Not the end of the search: a call that is long overdue is first, and expected late.
            starts_at = max(free_at, self._promised.get(lease.id, 0.0))
            if starts_at >= limit_at or not self._may_come(ticket, lease.replica, now):
                continue
            offer = self._offer(ticket, lease.replica, starts_at, lease.replica.load, now, lease.id)
            if offer is not None and offer.finish_at < limit_at and not unless(offer):
                best, limit_at = offer, offer.finish_at
        return best

    def promise(self, offer: Offer) -> None:
        """A ticket waits for this slot; who is asked next gets it after that."""
        if offer.lease is not None:
            self._promised[offer.lease] = offer.finish_at

    def waits_for(self, replica: Replica) -> int:
        """How many tickets have been left waiting for this replica, by a strategy that predicts no
        times, at this event.
        """
        return self._waits_for[replica]

    def wait_for(self, replica: Replica) -> None:
        """One more waits for it."""
        self._waits_for[replica] += 1

    def could_finish(self, name: ModelName, within_s: float, now: float) -> float:
        """At least as many tickets as the busy slots could finish within this time."""
        best = self._fastest(name, now)
        if best is None:
            return 0.0
        each_s = best.service_s(0.0, self.estimates.output_tokens(self.fleet.model_of(name), None))
        # Embeddings have no output, and a prompt may be cached whole.
        return self.upcoming.count(name) * (1 + within_s / each_s) if each_s else math.inf

    def evicts_s(self, ticket: Ticket, replica: Replica, now: float) -> float:
        """What the ticket's prompt would cost others there (s): the prefill of the prefix that it
        would push out, times the chance that somebody comes back for it.
        """
        evicted = self.prefixes.evicted(replica, ticket.opened.prompt, now)
        speed = self.estimates.speed(replica.id)
        if evicted is None or speed is None:
            return 0.0
        tokens = self.estimates.prompt_tokens(replica.id.model, evicted.chars)
        away_s = max(0.0, evicted.idle_s - _THINKING_S)
        returns = math.pow(0.5, away_s / _THINKING_S)
        return tokens / speed.prefill_tokens_per_s * returns

    def _offer(
        self,
        ticket: Ticket,
        replica: Replica,
        starts_at: float,
        busy: int,
        now: float,
        lease: LeaseId | None = None,
    ) -> Offer | None:
        speed = self.estimates.speed(replica.id, max(1, busy))
        if speed is None:
            # It may be as fast as any; only by being tried it will be known.
            speed = self._fastest(ticket.name, now)
            if speed is None:
                return None
        opened, model = ticket.opened, replica.id.model
        tokens = self.estimates.prompt_tokens(model, opened.prompt.chars)
        cached = min(
            tokens, self._cached_chars(ticket, replica) * tokens / max(1, opened.prompt.chars)
        )
        output = self.estimates.output_tokens(model, opened.prompt.output_limit_tokens)
        return Offer(
            replica,
            starts_at,
            speed.load_s if replica.report.resident is False else 0.0,
            (tokens - cached) / speed.prefill_tokens_per_s,
            output * speed.tpot_s,
            cached / speed.prefill_tokens_per_s,
            cached,
            tokens,
            lease,
        )

    def _cached_chars(self, ticket: Ticket, replica: Replica) -> int:
        opened = ticket.opened
        if not opened.prompt.fingerprints:
            return self.sessions.chars_at(opened.session, replica.id)
        return self.prefixes.cached_chars(replica, opened.prompt)

    def _may_come(self, ticket: Ticket, replica: Replica, now: float) -> bool:
        """Whether the ticket could have a slot there once one is free."""
        return (
            replica.load <= replica.slots
            and now >= replica.set_aside_until
            and not replica.unproven
            and self.fleet.ready(replica)
            and not self.fleet.in_doubt(replica)
            and bool(allowed(ticket, (replica,), self.fleet))
        )

    def _fastest(self, name: ModelName, now: float) -> Speed | None:
        """The speed of the fastest replica of a model, None while nothing is known of any."""
        at, speed = self._best.get(name, (0.0, None))
        if name not in self._best or now - at >= _BEST_S:
            speed = min(self._speeds(name), key=_usual_s, default=None)
            self._best[name] = (now, speed)
            for gone in [other for other in self._best if not self.fleet.holders(other)]:
                del self._best[gone]
        return speed

    def _speeds(self, name: ModelName) -> Iterator[Speed]:
        for replica in self.fleet.holders(name):
            speed = self.estimates.speed(replica.id)
            if speed is not None:
                yield speed


def _usual_s(speed: Speed) -> float:
    """By which speeds are compared (s): 1,000 tokens of prompt and 250 of answer."""
    return speed.service_s(1000.0, 250.0)
