"""The node side as stories: when nodes are asked, and when they are forgotten."""

from __future__ import annotations

import pytest

from pair.core.events import FailureKind, NodeReported
from pair.core.names import NodeId, Phase
from pair.core.standing import FULL_PAUSE_LEAST_S
from tests.core.house import replica, report
from tests.core.limits import limits
from tests.core.story import (
    Story,
    answered,
    call,
    comes,
    drains,
    ends_failed,
    failed,
    first_byte,
    hangs_up,
    pushes,
    says,
    withdrawn,
)

A = NodeId("a")


def asked(story: Story, node: str = "a") -> list[float]:
    """When the node was probed, rounded."""
    return [round(at, 1) for at, probe in story.house.probes if probe.node == node]


def test_a_sighted_node_is_asked_at_once_then_every_second() -> None:
    story = Story("a").at(3.5)
    assert asked(story) == [0.0, 1.0, 2.0, 3.0]


def test_a_silent_node_is_asked_soon_again_then_seldom() -> None:
    story = Story("a", probe_interval_s=1.0, suspect_interval_s=0.5, probe_limit_s=1.5)
    del story.house.words[A]
    story.at(13.0).finds("a", Phase.LOST)
    assert asked(story) == [0.0, 1.0, 3.0, 5.0, 11.5]


def test_only_a_ready_node_is_asked_on_an_old_connection() -> None:
    story = Story("a").at(1.5)
    del story.house.words[A]
    story.at(13.0)
    assert [probe.fresh for _, probe in story.house.probes] == [True, False, False] + [True] * 3


def test_slow_probes_on_a_busy_engine_lose_nothing() -> None:
    story = Story()
    story.sees(comes("a", says=report("a", version=""))).at(1.0).sees(call(1)).expects("1 to a")
    story.house.slow.add(A)
    story.at(120.0).finds("a", Phase.READY).expects()
    story.sees(answered(1), call(2)).expects("2 to a").sees(answered(2))
    story.at(130.0).finds("a", Phase.LOST)
    story.ends()


def test_a_silent_engine_that_works_for_us_is_the_last_choice() -> None:
    bare = {node: report(node, replica(slots=4), version="") for node in "ab"}
    story = Story().sees(*(comes(node, says=word) for node, word in bare.items())).at(1.0)
    story.sees(call(1), call(2)).expects("1 to a", "2 to b")
    story.house.slow.add(A)
    story.at(3.0).finds("a", Phase.READY)
    story.sees(*(call(ticket) for ticket in (3, 4, 5))).expects("3 to b", "4 to b", "5 to b")
    story.sees(call(6)).expects("6 to a")  # b is full, and silence alone is no fault
    story.house.flowing.add(A)
    story.at(6.0).sees(answered(6), answered(5), call(7)).expects("7 to a")
    story.sees(*(answered(ticket) for ticket in (1, 2, 3, 4, 7))).ends()


def test_a_silent_node_with_pair_is_frozen_and_its_tickets_move_or_end() -> None:
    story = Story().sees(comes("a", says=report("a", replica(slots=3)))).at(1.0)
    story.sees(call(1), call(2), first_byte(1)).expects("1 to a", "2 to a").sees(comes("b"))
    story.house.slow.add(A)
    story.at(15.0).finds("a", Phase.SUSPECT).expects()
    story.at(19.0).finds("a", Phase.LOST)
    story.expects("1 taken from a", "2 taken from a", "2 to b, try 2")
    story.sees(ends_failed(1), answered(2))
    story.house.slow.clear()
    story.at(30.0).finds("a", Phase.READY).ends()


@pytest.mark.parametrize("needs_s", [2.0, 5.0])
def test_a_node_that_needs_seconds_for_its_report_is_not_frozen(needs_s: float) -> None:
    story = Story("a").at(1.0).sees(call(1)).expects("1 to a")
    story.house.needs_s[A] = needs_s
    story.at(300.0).expects().sees(answered(1))
    waited_s = {probe.limit_s for at, probe in story.house.probes if at > 1.0}
    assert min(waited_s) == limits().probe_limit_s
    assert max(waited_s) > needs_s
    story.at(320.0).finds("a", Phase.LOST).ends()


def test_our_own_sleep_is_nobody_s_silence() -> None:
    story = Story("a").at(1.0).sees(call(1)).expects("1 to a")
    story.house.slow.add(A)
    story.at(4.0).finds("a", Phase.SUSPECT)
    story.house.oversleep_until(3600.0)
    story.at(3603.0).finds("a", Phase.SUSPECT).expects()
    story.at(3620.0).finds("a", Phase.LOST).expects("1 taken from a")


def test_live_bytes_keep_a_node_ready_that_has_no_time_to_answer() -> None:
    story = Story("a").at(1.0).sees(call(1)).expects("1 to a").sees(first_byte(1))
    story.house.slow.add(A)
    story.house.flowing.add(A)
    story.at(60.0).finds("a", Phase.READY).sees(answered(1)).ends()


def test_the_withdrawn_record_of_a_living_node_is_a_question_no_more() -> None:
    story = Story("ab").at(1.5).sees(withdrawn("a"))
    assert asked(story) == [0.0, 1.0, 1.5]
    story.at(4.0).finds("a", Phase.READY)
    # Later it is slow once, like anybody.
    story.house.slow.add(A)
    story.at(6.2).finds("a", Phase.SUSPECT)
    story.house.slow.clear()
    story.at(8.0).finds("a", Phase.READY).ends()


def test_the_withdrawn_record_of_a_dead_node_ends_it_at_once() -> None:
    story = Story("ab").at(1.5)
    del story.house.words[A]
    story.sees(withdrawn("a")).at(3.1).finds("a", Phase.LOST).at(12.0)
    assert A not in story.house.scheduler.membership.nodes
    story.ends()


def test_a_goodbye_while_it_works_for_us_takes_nothing_away() -> None:
    story = Story("a").at(1.5).sees(call(1)).expects("1 to a").sees(withdrawn("a"))
    story.house.slow.add(A)
    story.at(12.0).finds("a", Phase.SUSPECT).expects().sees(answered(1)).ends()


def test_the_user_s_own_node_is_never_withdrawn_and_never_forgotten() -> None:
    story = Story(forget_s=50.0)
    story.sees(comes("a", fixed=True)).at(1.5).sees(withdrawn("a"))
    del story.house.words[A]
    story.at(3.6).finds("a", Phase.SUSPECT).at(500.0).finds("a", Phase.LOST)


def test_a_lost_node_is_forgotten_after_a_while() -> None:
    story = Story("a", forget_s=50.0)
    del story.house.words[A]
    story.at(50.0).finds("a", Phase.LOST).at(62.0)
    assert story.house.scheduler.membership.nodes == {}
    assert story.house.scheduler.fleet.names() == ()


def test_a_lost_node_that_is_sighted_again_is_asked_at_once() -> None:
    story = Story("a")
    word = story.house.words.pop(A)
    story.at(8.0).finds("a", Phase.LOST).sees(comes("a", says=word)).at(8.1).finds("a", Phase.READY)


def test_a_failed_connection_is_a_reason_to_ask_at_once() -> None:
    story = Story("a").at(1.5).sees(call(1)).expects("1 to a")
    story.sees(failed(1, FailureKind.UNREACHABLE)).expects().finds("a", Phase.SUSPECT)
    story.at(1.6).expects("1 to a, try 2").finds("a", Phase.READY)
    assert asked(story) == [0.0, 1.0, 1.5]
    story.sees(answered(1)).ends()


def test_reports_of_nodes_that_nobody_sighted_are_dropped() -> None:
    story = Story().sees(NodeReported(A, report("a")), withdrawn("a"), drains("a"))
    assert story.house.scheduler.membership.nodes == {}


def test_a_node_that_takes_back_foreign_work_lets_ours_in() -> None:
    story = Story()
    story.sees(comes("a", says=report("a", replica(running=1)))).at(0.5)
    story.sees(call(1)).expects()
    story.house.words[A] = report("a", replica(running=0))
    story.at(1.1).expects("1 to a").sees(answered(1)).ends()


def test_more_slots_are_used_at_once_and_fewer_as_leases_end() -> None:
    story = Story("a").at(0.5).sees(*(call(ticket) for ticket in (1, 2, 3, 4))).expects("1 to a")
    story.sees(says("a", report("a", replica(slots=3)))).expects("2 to a", "3 to a")
    story.sees(says("a", report("a", replica(slots=1)))).sees(answered(1), answered(2)).expects()
    story.sees(answered(3)).expects("4 to a").sees(answered(4)).ends()


@pytest.mark.parametrize("phase", [Phase.SIGHTED, Phase.LOST])
def test_a_drain_does_not_wake_the_dead(phase: Phase) -> None:
    story = Story("a" if phase is Phase.LOST else "")
    if phase is Phase.LOST:
        del story.house.words[A]
        story.at(8.0)
    else:
        story.house.answer_probes = False
        story.sees(comes("a"))
    story.finds("a", phase).sees(drains("a")).finds("a", phase)
    story.sees(says("a", report("a"))).finds("a", Phase.DRAINING)


def test_strangers_push_out_strangers_only() -> None:
    story = Story("ab", nodes_limit=4)
    for number in range(20):
        story.at(10.0 * (number + 1)).sees(comes(f"s{number}"))
        del story.house.words[NodeId(f"s{number}")]
    nodes = story.house.scheduler.membership.nodes
    assert set(nodes) == {"a", "b", "s18", "s19"}


def test_a_table_full_of_members_lets_nobody_in() -> None:
    story = Story("ab", nodes_limit=2).at(1.0).sees(comes("c")).at(2.0)
    assert set(story.house.scheduler.membership.nodes) == {"a", "b"}


FULL = report("a", replica(running=1, yours=0))
ROOM = report("a", replica(running=0, yours=0))


def test_a_full_node_is_tried_again_when_it_says_that_it_has_room() -> None:
    story = Story("a", pause_s=60.0).at(5.1).sees(call(1)).expects("1 to a")
    story.house.words[A] = FULL
    story.sees(failed(1, FailureKind.BUSY, retry_after_s=30.0), call(2)).expects()
    story.at(9.1).sees(pushes("a", FULL)).expects()
    story.house.words[A] = ROOM
    story.sees(pushes("a", ROOM)).expects("1 to a")
    story.sees(answered(1)).expects("2 to a").sees(answered(2)).ends()


def test_room_that_was_there_before_another_took_it_ends_no_pause() -> None:
    """The push and the refusal come on two connections, so either may be first; the probe that
    follows a refusal knows.
    """
    story = Story("a").at(5.1).sees(call(1)).expects("1 to a")
    story.house.words[A] = FULL
    story.sees(failed(1, FailureKind.BUSY), pushes("a", ROOM)).expects()
    story.at(9.9).expects()
    story.house.words[A] = ROOM
    story.sees(pushes("a", ROOM)).expects("1 to a").sees(answered(1)).ends()


def test_a_node_that_turns_away_and_says_that_it_has_room_is_not_asked_in_a_circle() -> None:
    story = Story("a").at(5.1).sees(call(1)).expects("1 to a")
    story.house.words[A] = ROOM
    for _ in range(2):
        story.sees(failed(1, FailureKind.BUSY), pushes("a", ROOM)).expects()
        story.at(story.house.now + FULL_PAUSE_LEAST_S).expects("1 to a")
    story.sees(answered(1)).ends()


def test_room_ends_no_pause_that_a_broken_engine_has() -> None:
    story = Story("a", pause_s=2.0).at(5.1).sees(call(1)).expects("1 to a")
    story.sees(failed(1, FailureKind.RESET)).at(6.0).sees(pushes("a", ROOM)).expects()
    story.at(7.2).expects("1 to a, try 2").sees(answered(1)).ends()


def test_a_push_is_no_answer_to_a_probe() -> None:
    story = Story("a").at(0.5)
    story.house.slow.add(A)
    story.at(1.1).sees(pushes("a", FULL)).at(2.6).finds("a", Phase.SUSPECT)
    assert asked(story) == [0.0, 1.0]
    story.sees(pushes("a", ROOM)).finds("a", Phase.SUSPECT).at(9.0).finds("a", Phase.LOST)


def test_a_push_tells_of_a_drain_a_model_and_a_slot_at_once() -> None:
    story = Story("a").at(0.5).sees(call(1), call(2)).expects("1 to a")
    story.sees(pushes("a", report("a", replica(slots=2, running=1, yours=1)))).expects("2 to a")
    story.sees(call(3), pushes("a", report("a", draining=True))).finds("a", Phase.DRAINING)
    story.sees(answered(1), answered(2)).expects()
    story.sees(pushes("a", report("a"))).expects("3 to a").sees(answered(3)).ends()


def test_a_push_has_a_call_that_was_left_asked_about() -> None:
    story = Story().sees(comes("a", says=report("a", replica(running=0)))).at(5.2)
    story.sees(call(1)).expects("1 to a").sees(hangs_up(1), call(2)).expects()
    story.at(5.21).sees(pushes("a", ROOM)).expects().at(5.22).expects("2 to a")
    assert asked(story)[-1] == 5.2
    story.sees(answered(2)).ends()
