"""The strategies that follow the cache by a rule."""

from __future__ import annotations

from pair.core.events import Opened
from pair.core.names import ModelName, SessionId, TicketId
from tests.core.house import replica, report
from tests.core.speeds_of import prompt, prompted
from tests.core.story import Happening, Story, call, comes, first_byte, hangs_up

X, Y = prompt("x", chars=5000), prompt("y", chars=5000)


def story(strategy: str, nodes: str = "ab", slots: int = 1, **changes: float) -> Story:
    told = Story((), strategy, **changes)
    for node in nodes:
        told.sees(comes(node, says=report(node, replica(slots=slots))))
    return told.at(0.05).expects()


def leaves(ticket: int) -> tuple[Happening, Happening]:
    return first_byte(ticket), hangs_up(ticket)


def in_session(ticket: int, session: str) -> Happening:
    return prompted(ticket, prompt(session), session=SessionId(session))


def test_prefix_aware_keeps_a_prefix_on_its_node_and_waits_for_it() -> None:
    told = story("prefix-aware").sees(prompted(1, X), prompted(2, Y)).expects("1 to a", "2 to b")
    told.sees(*leaves(2), prompted(3, X)).expects()
    told.sees(*leaves(1)).expects("3 to a").sees(prompted(4, X), *leaves(3)).expects("4 to a")
    told.sees(hangs_up(4))


def test_prefix_aware_spills_over_at_its_threshold() -> None:
    told = story("prefix-aware", slots=4, concurrency_threshold=2)
    told.sees(*(prompted(ticket, X) for ticket in (1, 2, 3, 4)))
    told.expects("1 to a", "2 to a", "3 to b", "4 to b").sees(*map(hangs_up, (1, 2, 3, 4)))


def test_prefix_aware_compares_only_the_first_characters() -> None:
    told = story("prefix-aware", slots=4, prefix_length_chars=1024)
    told.sees(prompted(1, prompt("x", "y", chars=4096)), prompted(2, prompt("x", "z", chars=4096)))
    told.expects("1 to a", "2 to a").sees(*map(hangs_up, (1, 2)))


def test_prefix_aware_gives_what_has_no_prefix_to_the_node_with_more_capacity() -> None:
    told = story("prefix-aware", slots=2).sees(call(1), call(2), call(3), call(4))
    told.expects("1 to a", "2 to b", "3 to a", "4 to b").sees(*map(hangs_up, (1, 2, 3, 4)))


def test_prefix_aware_does_not_wait_for_a_node_that_is_gone() -> None:
    told = story("prefix-aware").sees(prompted(1, X)).expects("1 to a").sees(*leaves(1))
    del told.house.words["a"]  # type: ignore[arg-type]
    told.at(9.0).sees(prompted(2, X)).expects("2 to b").sees(hangs_up(2))


def test_kv_aware_takes_the_largest_cached_share_and_never_waits() -> None:
    told = story("kv-aware").sees(prompted(1, X), prompted(2, Y)).expects("1 to a", "2 to b")
    told.sees(*leaves(1), *leaves(2))
    told.sees(prompted(3, prompt("y", "x", chars=10_000))).expects("3 to b")
    told.sees(prompted(4, Y)).expects("4 to a").sees(*map(hangs_up, (3, 4)))


def test_a_conversation_that_goes_on_with_another_model_waits_for_nobody() -> None:
    """Claude Code asks a small model in between: the node of the one may be busy with the other."""
    told = Story((), "session")
    for node in "ab":
        models = replica("m"), replica("small", engine="echo:2")
        told.sees(comes(node, says=report(node, *models)))
    small = Opened(TicketId(1), ModelName("small"), session=SessionId("one"))
    told.at(0.05).sees(small).expects("1 to a").sees(first_byte(1))
    told.sees(in_session(2, "one")).expects("2 to a").sees(*map(hangs_up, (1, 2)))


def test_session_keeps_a_conversation_on_its_node() -> None:
    told = story("session").sees(in_session(1, "one"), in_session(2, "two"))
    told.expects("1 to a", "2 to b").sees(*leaves(1), *leaves(2))
    told.sees(in_session(3, "two"), in_session(4, "two")).expects("3 to b")
    told.sees(*leaves(3)).expects("4 to b")
    told.sees(call(5)).expects("5 to a").sees(*map(hangs_up, (4, 5)))


def test_prefix_aware_counts_those_who_wait_for_the_node_too() -> None:
    told = story("prefix-aware", concurrency_threshold=3)
    told.sees(*(prompted(ticket, X) for ticket in (1, 2, 3, 4))).expects("1 to a", "4 to b")
    told.sees(*leaves(1)).expects("2 to a").sees(*map(hangs_up, (2, 3, 4)))
