"""The default strategy: the replica on which the call is predicted to end first, busy ones
included.

One quantity with a unit: the predicted finish in seconds. A warm prefix counts by the prefill that
it saves, a cold model by its load, a fast machine by its rates; nothing is weighed against anything
else. While nothing has been learned it is `queue-depth`.
"""

from __future__ import annotations

from collections.abc import Collection

from pair.core.offer import Offer
from pair.core.outlook import Outlook
from pair.core.queue_depth import QueueDepth
from pair.core.replica import Replica
from pair.core.strategy import Choice, Wait
from pair.core.ticket import Ticket

_EQUAL = 0.05
"""Predictions that differ by less than this share are equal: rates scatter by about as much."""

_LONG_LINE = 256
"""From so many waiting tickets on nobody is left waiting if all of them could not be served
meanwhile anyhow: who takes the slow slot is then a matter of turn, and asking each would cost too
much."""


class FinishTime:
    """Predicted finish = wait for the slot + load + uncached prompt tokens / prefill rate +
    expected output tokens x TPOT.

    A ticket waits beside a free slot while a busy one should end it sooner, each with the slots
    that those before it wait for taken into account (list scheduling by earliest completion). What
    bounds the regret: it waits no longer than the free slot would have needed, and is asked again
    at every event.
    """

    name = "finish-time"

    def __init__(self) -> None:
        self._blind = QueueDepth()

    def choose(
        self, ticket: Ticket, free: Collection[Replica], outlook: Outlook, now: float
    ) -> Choice | Wait:
        offers = [
            offer for replica in free if (offer := outlook.offer(ticket, replica, now)) is not None
        ]
        if not offers:
            warm = [replica for replica in free if replica.report.resident is not False]
            return self._blind.choose(ticket, warm or free, outlook, now)
        best = _best(ticket, _spread(ticket, offers, outlook), outlook, now)
        if self._may_wait(ticket, best, outlook, now):
            sooner = outlook.sooner(
                ticket,
                best,
                _EQUAL * best.service_s,
                now,
                lambda offer: _spreads_to(best, offer, ticket, outlook),
            )
            if sooner is not None:
                outlook.promise(sooner)
                return Wait(
                    f"waits for {sooner.replica.node_name}: done there in"
                    f" {sooner.finish_at - now:.1f} s, on {best.replica.node_name} in"
                    f" {best.service_s:.1f} s",
                    now + best.service_s,
                )
        return Choice(best.replica, _reason(best, len(free)))

    def _may_wait(self, ticket: Ticket, best: Offer, outlook: Outlook, now: float) -> bool:
        if ticket.patience_until is not None and now >= ticket.patience_until:
            return False
        waiting = outlook.waiting(ticket.name)
        return waiting < _LONG_LINE or waiting < outlook.could_finish(
            ticket.name, best.service_s, now
        )


def _spread(ticket: Ticket, offers: list[Offer], outlook: Outlook) -> list[Offer]:
    """A wave that began cold goes to all nodes that are equally fast before any has more than its
    share: else all siblings would follow the first, onto the one node that has read their prompt.
    """
    first = min(offers, key=lambda offer: offer.service_s)
    if not outlook.had_share(ticket, first):
        return offers
    others = [
        offer for offer in offers if _as_fast(offer, first) and not outlook.had_share(ticket, offer)
    ]
    return others or offers


def _spreads_to(free: Offer, busy: Offer, ticket: Ticket, outlook: Outlook) -> bool:
    """Whether a ticket must not wait for a busy node, since that has had its share of a cold wave
    and an equally fast one that is free has not.
    """
    return (
        _as_fast(free, busy)
        and outlook.had_share(ticket, busy)
        and not outlook.had_share(ticket, free)
    )


def _as_fast(one: Offer, other: Offer) -> bool:
    """Whether one would need about as little time as the other, with nothing cached on either."""
    return one.service_s + one.saved_s <= (other.service_s + other.saved_s) * (1 + _EQUAL)


def _best(ticket: Ticket, offers: list[Offer], outlook: Outlook, now: float) -> Offer:
    """The first to finish; among equals the one where the least is pushed out of the cache, then
    the shortest queue, then turns.
    """
    first = min(offers, key=lambda offer: offer.service_s)
    limit_s = first.service_s * (1 + _EQUAL)
    equals = [offer for offer in offers if offer.service_s <= limit_s]
    if len(equals) == 1:
        return first
    home = outlook.sessions.home(ticket.opened.session)

    def rank(offer: Offer) -> tuple[bool, float, float, int]:
        replica = offer.replica
        evicts_s = outlook.evicts_s(ticket, replica, now)
        return replica.id != home, evicts_s, replica.load / replica.slots, replica.picked

    return min(equals, key=rank)


def _reason(best: Offer, count: int) -> str:
    parts = [f"prefill {best.prefill_s:.1f}", f"answer {best.decode_s:.1f}"]
    if best.load_s:
        parts.insert(0, f"load {best.load_s:.1f}")
    cached = ""
    if best.cached_tokens >= 1:
        cached = f", {best.cached_tokens:.0f} of {best.prompt_tokens:.0f} prompt tokens cached"
    return (
        f"first to finish of {count} free: in {best.service_s:.1f} s ({', '.join(parts)}{cached})"
    )
