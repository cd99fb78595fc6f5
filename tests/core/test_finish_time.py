"""The default strategy: predicted finish, and when a ticket waits beside a free slot."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pair.core.events import Closed, Usage
from pair.core.names import Outcome, TicketId
from pair.core.prompt import Prompt
from tests.core.house import replica, report
from tests.core.speeds_of import alike, learned, prompt, prompted
from tests.core.story import Happening, Story, answered, call, calls, comes, first_byte, hangs_up

UNEQUAL = {"a": 1.0, "b": 5.6, "c": 5.6}


def story(nodes: str = "abc", /, **service_s: float) -> Story:
    return learned(Story(nodes, "finish-time"), **service_s)


def leaves(ticket: int) -> tuple[Happening, Happening]:
    """It has been read, and its client hangs up: nothing is learned of speeds, nothing drains."""
    return first_byte(ticket), hangs_up(ticket)


def test_while_nothing_is_known_it_counts_calls() -> None:
    told = story("ab").sees(*calls(1, 2, 3)).expects("1 to a", "2 to b")
    told.sees(answered(1)).expects("3 to a").sees(answered(2), answered(3)).ends()


def test_the_fastest_is_taken_first() -> None:
    told = story(a=5.6, b=1.0, c=2.0).sees(alike(1), alike(2)).expects("1 to b", "2 to c")
    told.sees(*map(hangs_up, (1, 2)))


def test_a_call_waits_for_the_fast_node_while_that_ends_it_sooner() -> None:
    """Four more calls end there within the 5.6 s that the slow nodes need; the next two do not."""
    told = story(**UNEQUAL).sees(*(alike(ticket) for ticket in range(1, 8)))
    told.expects("1 to a", "6 to b", "7 to c")
    for ticket in range(2, 6):
        told.at(ticket - 1.0).sees(*leaves(ticket - 1)).expects(f"{ticket} to a")
    told.sees(*map(hangs_up, (5, 6, 7)))


def test_a_burst_of_20_on_unequal_nodes_meets_its_bound() -> None:
    """T_LB of 20 calls at 1 s, 5.6 s and 5.6 s is 16 s: 16 calls on the fast node, 2 on each."""
    told = story(**UNEQUAL).sees(*(alike(ticket) for ticket in range(1, 21)))
    ends: list[tuple[float, int]] = []
    scheduler = told.house.scheduler

    def begun() -> None:
        for lease in [lease for node in "abc" for lease in scheduler.desk.ledger.on_node(node)]:  # type: ignore[arg-type]
            entry = (round(lease.granted_at + UNEQUAL[lease.replica.id.node], 6), lease.ticket)
            if entry not in ends:
                ends.append(entry)

    begun()
    closed = 0
    while closed < 20:
        at, ticket = sorted(ends)[closed]
        told.at(at).sees(answered(ticket))
        closed += 1
        begun()
    assert max(ends)[0] == pytest.approx(16.0, abs=0.05)


def test_who_waits_is_told_for_what() -> None:
    told = story("ab", a=1.0, b=9.0).sees(alike(1), alike(2)).expects("1 to a")
    waits = told.house.scheduler.desk.tickets[TicketId(2)].wait_reason
    assert waits == "waits for a: done there in 2.0 s, on b in 9.0 s"
    told.sees(*leaves(1)).expects("2 to a").sees(hangs_up(2))


def test_nobody_waits_longer_than_the_slow_node_would_have_needed() -> None:
    told = story("ab", a=1.0, b=3.0).sees(alike(1), alike(2)).expects("1 to a")
    told.at(2.9).expects()
    told.at(3.1).expects("2 to b")
    told.sees(*map(hangs_up, (1, 2)))


def test_a_call_that_hangs_keeps_nobody_from_waiting_for_another_node() -> None:
    told = story(a=1.0, b=1.0, c=5.0).sees(alike(1), alike(2)).expects("1 to a", "2 to b")
    for ticket in range(3, 33):
        told.at(ticket - 2.0).sees(answered(ticket - 1), alike(ticket)).expects(f"{ticket} to b")
    told.sees(alike(33)).expects()
    told.at(30.9).sees(answered(32)).expects("33 to b")
    told.sees(*map(hangs_up, (1, 33)))


def test_a_long_line_of_calls_without_output_waits_for_the_fast_node() -> None:
    """Embeddings: an answer of no tokens takes no time, so any number of them could end."""
    read = Prompt(4000, (), None)
    told = Story("ab", "finish-time").sees(prompted(1, read), prompted(2, read))
    for ticket, at in ((1, 1.0), (2, 9.0)):
        closed = Closed(TicketId(ticket), Outcome.ANSWERED, Usage(prompt_tokens=1000))
        told.at(at).sees(first_byte(ticket), closed)
    told.expects("1 to a", "2 to b")
    told.sees(*(prompted(ticket, read) for ticket in range(3, 303)))
    told.expects("3 to a", "11 to b")
    told.at(9.3).sees(*leaves(11)).expects("12 to b")
    told.sees(*(hangs_up(ticket) for ticket in range(3, 303) if ticket != 11))


def test_nobody_waits_for_a_node_whose_speed_is_not_known() -> None:
    told = story("ab", b=3.0).sees(alike(1)).expects("1 to a").sees(alike(2)).expects("2 to b")
    told.sees(*map(hangs_up, (1, 2)))


def test_an_unknown_node_is_taken_for_as_fast_as_the_best() -> None:
    told = story(a=1.0, b=3.0).sees(alike(1), alike(2)).expects("1 to a", "2 to c")
    told.sees(*map(hangs_up, (1, 2)))


def test_a_pinned_ticket_waits_for_no_other_node() -> None:
    told = story("ab", a=1.0, b=9.0).sees(alike(1)).expects("1 to a")
    told.sees(call(2, pin="b")).expects("2 to b").sees(*map(hangs_up, (1, 2)))


def test_equal_nodes_take_turns() -> None:
    told = story(a=2.0, b=2.01, c=1.99)
    for ticket, node in ((1, "a"), (2, "b"), (3, "c"), (4, "a")):
        told.sees(alike(ticket)).expects(f"{ticket} to {node}").sees(*leaves(ticket))


def test_a_conversation_goes_back_to_its_prefix() -> None:
    first, second = prompt("x", chars=6000), prompt("x", "x", chars=8000)
    told = story("ab", a=2.0, b=2.0).sees(prompted(1, first)).expects("1 to a")
    told.at(1.0).sees(*leaves(1), alike(2)).expects("2 to b").sees(*leaves(2))
    told.sees(prompted(3, second)).expects("3 to a").sees(hangs_up(3))


def test_it_waits_for_its_prefix_unless_waiting_costs_more_than_prefilling() -> None:
    long = prompt("x", chars=16000)  # 2 s of prefill
    told = story("ab", a=1.0, b=1.0).sees(prompted(1, long)).expects("1 to a")
    told.at(2.0).sees(*leaves(1))
    told.sees(prompted(2, prompt("y", chars=2000))).expects("2 to b").sees(alike(3))
    told.expects("3 to a")
    # 1.0 s more of the third, then only the answer: sooner than 2 s of prefill on b.
    told.sees(hangs_up(2), prompted(4, long)).expects()
    told.sees(answered(3)).expects("4 to a").sees(hangs_up(4))


def test_conversations_that_begin_alike_go_back_to_their_nodes() -> None:
    """Agents of one kind have one system prompt. While one of them works the wave is open, and
    another may have more than its share of the calls: its own turns are warm on its node only.
    """
    told = story(a=2.0, b=2.0, c=2.0)

    def turn(ticket: int, agent: str, turns: int) -> Happening:
        parts = (*["shared"] * 4, *(f"{agent}{at}" for at in range(turns)))
        return prompted(ticket, prompt(*parts, chars=1024 * len(parts)))

    told.sees(turn(1, "x", 1), turn(2, "y", 1), turn(3, "z", 1))
    told.expects("1 to a", "2 to b", "3 to c")
    told.at(5.0).sees(first_byte(1), first_byte(2), first_byte(3), hangs_up(1), hangs_up(2))
    for ticket in range(4, 9):
        told.at(ticket + 2.0).sees(turn(ticket, "x", ticket - 2)).expects(f"{ticket} to a")
        told.sees(*leaves(ticket))
    told.sees(hangs_up(3))


def test_a_cold_wave_spreads_over_nodes_with_many_slots() -> None:
    """Twelve siblings come one after the other; the first has read their prompt long before the
    last comes, and still each node gets four.
    """
    told = Story((), "finish-time")
    for node in "abc":
        shares = replace(replica(slots=8), engine_kind="vllm")
        told.sees(comes(node, says=report(node, shares)))
    learned(told.at(0.01), a=2.0, b=2.0, c=2.0)
    # A greeting in common with somebody else's prompt is not what makes siblings.
    told.at(0.05).sees(
        prompted(99, prompt("shared", "x", chars=4096)), first_byte(99), hangs_up(99)
    )
    taken = []
    for ticket in range(1, 13):
        told.at(0.1 * ticket).sees(prompted(ticket, prompt("shared", chars=8192)))
        taken.append(told.house.leases[TicketId(ticket)].replica.node)
        told.at(0.1 * ticket + 0.05).sees(first_byte(ticket))
    assert {node: taken.count(node) for node in taken} == {"a": 4, "b": 4, "c": 4}
    told.sees(*(hangs_up(ticket) for ticket in range(1, 13)))
