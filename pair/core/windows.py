"""Context windows: which replicas have room for a ticket's prompt.

Apart from eligibility because a prompt's tokens are an estimate: it decides among replicas, where a
mistake costs a detour, and refuses only what no tokenizer could make short enough.
"""

from __future__ import annotations

from pair.core.estimates import Estimates
from pair.core.fleet import Fleet
from pair.core.replica import Replica
from pair.core.ticket import Ticket

MOST_CHARS_PER_TOKEN = 8.0
"""No prompt of real text has fewer tokens than its characters by this: English has 4 to 5, long
runs of spaces and repeated lines come near it."""


def measure(ticket: Ticket, fleet: Fleet, estimates: Estimates) -> None:
    """Note which windows are too small for the ticket; never the largest, so that an estimate
    alone keeps it from no model.
    """
    known, any_unknown = fleet.windows(ticket.name)
    wanted = estimates.prompt_tokens(fleet.model_of(ticket.name), ticket.opened.prompt.chars)
    if known and not any_unknown:
        wanted = min(wanted, known[-1])
    ticket.too_small_tokens = max((tokens for tokens in known if tokens < wanted), default=0)


def fits(ticket: Ticket, replica: Replica) -> bool:
    """Whether the ticket has room there, or that is not known."""
    context = replica.report.context_tokens
    return context is None or context > ticket.too_small_tokens


def too_long(ticket: Ticket, fleet: Fleet, estimates: Estimates) -> int | None:
    """The largest window of those that hold its model, in tokens, if the prompt cannot fit there
    however it is counted; None if it may.
    """
    known, any_unknown = fleet.windows(ticket.name)
    if any_unknown or not known:
        return None
    ratio = max(MOST_CHARS_PER_TOKEN, 2 * estimates.chars_per_token(fleet.model_of(ticket.name)))
    return known[-1] if ticket.opened.prompt.chars / ratio > known[-1] else None
