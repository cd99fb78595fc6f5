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
    """Note how large a window the ticket wants: its prompt's, or the largest that there is, so
    that an estimate alone never keeps it from all of them.
    """
    smallest, largest = fleet.windows(ticket.name)
    wanted = estimates.prompt_tokens(ticket.name, ticket.opened.prompt.chars)
    ticket.window_tokens = wanted if largest is None else min(wanted, largest)
    ticket.cramped = smallest is not None and ticket.window_tokens > smallest


def fits(ticket: Ticket, replica: Replica) -> bool:
    """Whether the ticket has room there, or that is not known."""
    context = replica.report.context_tokens
    return context is None or ticket.window_tokens <= context


def too_long(ticket: Ticket, fleet: Fleet, estimates: Estimates) -> int | None:
    """The largest window of those that hold its model, in tokens, if the prompt cannot fit there
    however it is counted; None if it may.
    """
    _, largest = fleet.windows(ticket.name)
    if largest is None:
        return None
    ratio = max(MOST_CHARS_PER_TOKEN, 2 * estimates.chars_per_token(ticket.name))
    return largest if ticket.opened.prompt.chars / ratio > largest else None
