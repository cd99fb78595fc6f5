"""What is learned from the life of tickets, and what is predicted from it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pair.core.events import Closed, FirstByte, Usage
from pair.core.names import LeaseId, ModelName, Outcome, SessionId, TicketId
from pair.core.outlook import Outlook
from pair.core.prompt import NO_PROMPT, Prompt
from tests.core.house import replica, report
from tests.core.speeds_of import alike, id_of, learned, prompt, prompted
from tests.core.story import Happening, Story, call, comes, first_byte, hangs_up

LONG = prompt("x", chars=8192)


def story(nodes: str = "ab", **service_s: float) -> Story:
    return learned(Story(nodes, "finish-time"), **service_s)


def outlook(told: Story) -> Outlook:
    return told.house.scheduler.matching.outlook


def answered(ticket: int, usage: Usage) -> Happening:
    return Closed(TicketId(ticket), Outcome.ANSWERED, usage)


def test_a_streams_clock_tells_how_fast_its_node_is() -> None:
    told = story("a").sees(prompted(1, Prompt(4000, (), None))).at(2.01).sees(first_byte(1))
    told.at(7.01).sees(answered(1, Usage(1000, 0, 101)))
    speed = outlook(told).estimates.speed(id_of("a"))
    assert speed is not None
    assert speed.prefill_tokens_per_s == pytest.approx(500.0, rel=0.05)
    assert speed.tpot_s == pytest.approx(0.05, rel=0.05)


def test_what_was_cached_is_not_taken_for_speed() -> None:
    told = story("a", a=2.0).sees(prompted(1, LONG)).at(1.05).sees(first_byte(1))
    told.at(2.0).sees(answered(1, Usage(2048, 0, 100)))
    told.sees(prompted(2, LONG)).at(2.01).sees(first_byte(2))
    told.at(3.0).sees(answered(2, Usage(2048, 2040, 100)))
    speed = outlook(told).estimates.speed(id_of("a"))
    assert speed is not None
    assert speed.prefill_tokens_per_s < 4000


def test_an_offer_has_the_parts_of_a_call_in_seconds() -> None:
    told = story("ab", a=2.0, b=2.0).sees(prompted(1, LONG), first_byte(1), hangs_up(1))
    told.sees(prompted(2, LONG))
    offer = told.house.scheduler.desk.tickets[TicketId(2)].expected
    assert offer is not None
    assert offer.replica.id == id_of("a")
    assert (offer.load_s, offer.prefill_s) == (0.0, 0.0)
    assert offer.decode_s == pytest.approx(1.0)
    assert offer.saved_s == pytest.approx(2.048)
    assert (offer.cached_tokens, offer.prompt_tokens) == (2048.0, 2048.0)
    told.sees(hangs_up(2))


def test_an_engines_word_on_its_cache_corrects_what_was_thought() -> None:
    told = story("a", a=2.0).sees(prompted(1, LONG)).at(1.0).sees(first_byte(1))
    told.at(2.0).sees(answered(1, Usage(2048, 0, 100)))
    replica_a = outlook(told).fleet.replica(id_of("a"))
    assert replica_a is not None
    assert outlook(told).prefixes.cached_chars(replica_a, LONG) == 8192


def test_the_session_is_a_hint_where_the_prompt_cannot_be_read() -> None:
    session = SessionId("s")
    told = story("ab", a=2.0, b=2.0).sees(prompted(1, NO_PROMPT, session=session))
    told.expects("1 to a").sees(first_byte(1), hangs_up(1))
    told.sees(call(2)).expects("2 to b").sees(first_byte(2), hangs_up(2))
    told.sees(prompted(3, NO_PROMPT, session=session)).expects("3 to a").sees(hangs_up(3))


def test_a_cold_model_costs_its_load() -> None:
    told = Story((), "finish-time")
    for node, resident in (("a", False), ("b", True)):
        one = replace(replica(), resident=resident)
        told.sees(comes(node, says=report(node, one)))
    learned(told.at(0.05), a=1.0, b=2.0).sees(alike(1)).expects("1 to b").sees(hangs_up(1))


def test_while_nothing_is_known_what_is_in_memory_goes_first() -> None:
    told = Story((), "finish-time")
    for node, resident in (("a", False), ("b", True)):
        one = replace(replica(slots=2), resident=resident)
        told.sees(comes(node, says=report(node, one)))
    told.at(0.05).sees(call(1), call(2), call(3)).expects("1 to b", "2 to b", "3 to a")
    told.sees(*map(hangs_up, (1, 2, 3)))


def test_everything_that_it_keeps_goes_with_the_tickets() -> None:
    told = story("ab", a=1.0, b=9.0)
    told.sees(*(prompted(ticket, LONG) for ticket in range(1, 9)))
    told.at(1.0).sees(*(hangs_up(ticket) for ticket in range(1, 9)))
    known = outlook(told)
    assert (len(known.upcoming), len(known.siblings)) == (0, 0)
    assert known.waiting(ModelName("m")) == 0


def test_what_others_lose_counts_by_how_soon_they_may_come_back() -> None:
    told = story("ab", a=2.0, b=2.0).sees(prompted(1, LONG)).expects("1 to a")
    told.sees(first_byte(1), hangs_up(1), alike(2))
    ticket = told.house.scheduler.desk.tickets[TicketId(2)]
    replica_a = outlook(told).fleet.replica(id_of("a"))
    assert replica_a is not None
    soon = outlook(told).evicts_s(ticket, replica_a, 10.0)
    late = outlook(told).evicts_s(ticket, replica_a, 90.0)
    assert soon == pytest.approx(2048 / 1000)
    assert late == pytest.approx(soon / 4, rel=0.02)
    told.sees(hangs_up(2))


def test_an_error_teaches_nothing() -> None:
    """An engine refuses a prompt in milliseconds: it has read none of it."""
    told = story("a").sees(prompted(1, LONG, session=SessionId("s"))).at(0.02)
    told.sees(FirstByte(TicketId(1), LeaseId(1), error=True), answered(1, Usage()))
    known = outlook(told)
    assert known.estimates.speed(id_of("a")) is None
    replica_a = known.fleet.replica(id_of("a"))
    assert replica_a is not None
    assert known.prefixes.cached_chars(replica_a, LONG) == 0
    assert known.sessions.home(SessionId("s")) is None


def test_a_short_prompt_takes_the_slot_from_what_was_there() -> None:
    told = story("a", a=2.0).sees(prompted(1, LONG), first_byte(1), hangs_up(1))
    replica_a = outlook(told).fleet.replica(id_of("a"))
    assert replica_a is not None
    assert outlook(told).prefixes.cached_chars(replica_a, LONG) == 8192
    told.sees(prompted(2, Prompt(200, (), None)), first_byte(2), hangs_up(2))
    assert outlook(told).prefixes.cached_chars(replica_a, LONG) == 0
