"""Slots of calls that were left: when each is free again, and who gets it."""

from __future__ import annotations

from itertools import pairwise

import pytest

from pair.core.draining import Draining
from pair.core.events import FailureKind, NodeReported, ProbeMissed
from pair.core.names import NodeId, Phase
from pair.core.reports import NodeReport
from pair.core.snapshot import ReplicaView, take_snapshot
from tests.core.house import replica, report
from tests.core.story import (
    Story,
    answered,
    call,
    calls,
    comes,
    drains,
    ends_failed,
    failed,
    first_byte,
    hangs_up,
    refused,
    says,
)

GRACE_S = 5.0


def left(*times: float) -> Draining:
    made = Draining()
    for at in times:
        made.add(at)
    return made


@pytest.mark.parametrize(
    ("busy", "asked_at", "remain"),
    [
        (0, 3.0, 0),
        (1, 3.0, 1),
        (2, 3.0, 2),
        (9, 3.0, 2),
        (-1, 3.0, 0),
        (0, 1.5, 1),
        (1, 1.5, 1),
        (2, 1.5, 2),
        (0, 2.0, 1),
        (0, 1.0, 2),
        (0, float("-inf"), 2),
    ],
)
def test_a_count_says_how_many_can_still_run(busy: int, asked_at: float, remain: int) -> None:
    """Two that were left at 1 s and 2 s; what was asked for before says nothing."""
    draining = left(1.0, 2.0)
    draining.seen(busy, asked_at)
    assert len(draining) == remain


def test_the_clock_where_nobody_counts() -> None:
    draining = left(1.0, 2.0)
    assert (draining.expires_at(GRACE_S), draining.newest_at) == (6.0, 2.0)
    draining.expire(5.9, GRACE_S)
    assert len(draining) == 2
    draining.expire(6.0, GRACE_S)
    assert (draining.expires_at(GRACE_S), len(draining)) == (7.0, 1)
    draining.expire(60.0, GRACE_S)
    assert (draining.expires_at(GRACE_S), draining.newest_at) == (None, None)
    assert not draining.counts


def test_a_grace_runs_from_the_last_word_of_what_counts_now_and_then() -> None:
    draining = left(1.0)
    draining.seen(1, 9.0)
    assert (draining.counts, draining.expires_at(GRACE_S)) == (True, 14.0)
    draining.expire(13.0, GRACE_S)
    assert len(draining) == 1
    draining.expire(14.0, GRACE_S)
    assert (len(draining), draining.counts) == (0, True)


def counting(node: str, running: int, slots: int = 1) -> NodeReport:
    return report(node, replica(slots=slots, running=running))


def shown(story: Story, node: str = "a") -> ReplicaView:
    nodes = take_snapshot(story.house.scheduler, story.house.now).nodes
    (view,) = next(each for each in nodes if each.id == node).replicas
    return view


def test_an_engine_that_counts_is_asked_soon_and_its_slot_is_free_at_its_word() -> None:
    story = Story().sees(comes("a", says=counting("a", 0))).at(1.5)
    story.sees(*calls(1, 2), hangs_up(1)).expects("1 to a")
    assert (shown(story).in_flight, shown(story).draining, shown(story).slots) == (0, 1, 1)
    story.at(1.54).expects().at(1.56).expects("2 to a").sees(answered(2)).ends()
    assert shown(story).draining == 0


def test_one_that_computes_on_keeps_the_slot_and_is_asked_less_and_less_often() -> None:
    story = Story().sees(comes("a", says=counting("a", 0))).at(1.5).sees(call(1))
    story.house.words[NodeId("a")] = counting("a", 1)
    story.at(1.6).sees(call(2), hangs_up(1)).expects("1 to a")
    story.at(4.0).expects()
    asked = [round(at - 1.6, 2) for at, _ in story.house.probes if at > 1.6]
    assert asked[:5] == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8], rel=0.1)
    assert max(later - sooner for sooner, later in pairwise(asked)) < 0.52
    story.house.words[NodeId("a")] = counting("a", 0)
    story.at(4.51).expects("2 to a").sees(answered(2)).ends()


def test_it_is_asked_to_look_closely_at_first_and_not_before_it_can_have_heard() -> None:
    story = Story().sees(comes("a", says=counting("a", 0))).at(1.5).sees(call(1))
    story.house.words[NodeId("a")] = counting("a", 1)
    story.at(1.6).sees(hangs_up(1)).at(3.0).expects("1 to a")
    asked = [(round(at - 1.6, 2), probe.closely) for at, probe in story.house.probes if at > 1.0]
    assert [at for at, closely in asked if closely] == pytest.approx([0.05, 0.1, 0.2], rel=0.1)
    assert len(asked) > 5


def test_a_report_without_a_count_frees_nothing_at_an_engine_that_counts() -> None:
    """llama.cpp is not asked for it every time."""
    story = Story(left_grace_s=2.0).sees(comes("a", says=counting("a", 0))).at(1.5).sees(call(1))
    story.house.words[NodeId("a")] = counting("a", 1)
    story.at(1.6).sees(hangs_up(1), call(2)).at(1.62).expects("1 to a")
    story.at(1.7)
    story.house.words[NodeId("a")] = report("a")
    story.at(3.6).expects().at(3.8).expects("2 to a").sees(answered(2)).ends()


def test_a_call_in_mid_answer_drains_there_too() -> None:
    story = Story().sees(comes("a", says=counting("a", 0))).at(1.5)
    story.sees(*calls(1, 2), first_byte(1), hangs_up(1)).expects("1 to a")
    story.at(1.56).expects("2 to a").sees(answered(2)).ends()


def test_others_come_first() -> None:
    story = Story().sees(comes("a", says=counting("a", 1, slots=2)))
    story.sees(comes("b", says=counting("b", 0))).at(1.5)
    story.sees(call(1)).expects("1 to b").sees(hangs_up(1), call(2)).expects("2 to a")
    story.at(2.0).sees(answered(2)).ends()


def test_what_cannot_count_keeps_an_unanswered_call_for_a_grace() -> None:
    story = Story("a", left_grace_s=GRACE_S).at(1.0).sees(*calls(1, 2), hangs_up(1))
    story.expects("1 to a").at(5.9).expects().at(6.1).expects("2 to a")
    story.sees(answered(2)).ends()


def test_what_cannot_count_stops_in_mid_answer() -> None:
    story = Story("a").at(1.0).sees(*calls(1, 2), first_byte(1), hangs_up(1))
    story.expects("1 to a", "2 to a").sees(answered(2)).ends()


def test_only_what_we_ended_ourselves_drains() -> None:
    story = Story("a", pause_s=0.1).at(1.0).sees(*calls(1, 2, 3))
    story.sees(failed(1, FailureKind.ENGINE_ERROR), ends_failed(1))
    story.expects("1 to a", "1 refused: attempts_spent", "2 to a")
    story.sees(first_byte(2), failed(2, FailureKind.CUT), ends_failed(2)).at(1.2)
    story.expects("3 to a").sees(answered(3)).ends()


def test_a_stalled_answer_was_ended_by_us() -> None:
    story = Story().sees(comes("a", says=counting("a", 0))).at(1.5)
    story.sees(*calls(1, 2), first_byte(1)).expects("1 to a")
    story.house.words[NodeId("a")] = counting("a", 1)
    story.sees(failed(1, FailureKind.STALLED), ends_failed(1)).at(5.0).expects()
    assert shown(story).draining == 1
    story.house.words[NodeId("a")] = counting("a", 0)
    story.at(5.6).expects("2 to a").sees(answered(2)).ends()


def test_a_light_call_that_is_left_holds_nothing() -> None:
    story = Story("a").at(1.0).sees(call(1, light=True), hangs_up(1), call(2))
    story.expects("1 to a", "2 to a").sees(answered(2)).ends()


def test_a_lost_node_that_comes_back_may_compute_yet() -> None:
    story = Story().sees(comes("a", says=counting("a", 0))).at(1.5).sees(call(1)).expects("1 to a")
    del story.house.words[NodeId("a")]
    story.at(60.0).expects("1 taken from a", "1 refused: no_node").sees(refused(1))
    assert shown(story).draining == 0
    story.sees(comes("a", says=counting("a", 1))).at(61.0).sees(call(2)).expects()
    assert (shown(story).draining, shown(story).foreign) == (0, 1)
    story.house.words[NodeId("a")] = counting("a", 0)
    story.at(62.1).expects("2 to a").sees(answered(2)).ends()


def test_a_slot_that_drains_on_a_node_is_lost_with_it() -> None:
    story = Story().sees(comes("a", says=counting("a", 0))).at(1.5).sees(call(1), hangs_up(1))
    del story.house.words[NodeId("a")]
    story.at(1.6)
    assert shown(story).draining == 1
    story.at(30.0).expects("1 to a").finds("a", Phase.LOST).ends()
    assert shown(story).draining == 0


def test_a_question_from_before_says_nothing() -> None:
    story = Story().sees(comes("a", says=counting("a", 0))).at(1.5)
    story.house.answer_probes = False
    story.at(2.1)
    assert story.house.probes[-1][0] > 1.9, "it is being asked"
    story.sees(*calls(1, 2)).at(2.2).sees(hangs_up(1)).expects("1 to a")
    story.sees(says("a", counting("a", 0))).expects()
    story.house.answer_probes = True
    story.at(2.3).expects("2 to a").sees(answered(2)).ends()


def test_silence_frees_nothing() -> None:
    story = Story().sees(comes("a", says=counting("a", 0))).at(1.5)
    story.sees(*calls(1, 2), hangs_up(1)).expects("1 to a")
    story.sees(ProbeMissed(NodeId("a"), True, None, "it computes")).expects()
    assert shown(story).draining == 1
    story.at(3.0).expects("2 to a").sees(answered(2)).ends()


def test_a_model_that_is_gone_takes_its_ghosts_along() -> None:
    story = Story().sees(comes("a", says=counting("a", 0))).at(1.5).sees(call(1), hangs_up(1))
    story.expects("1 to a").sees(says("a", report("a", replica("other"))))
    story.sees(says("a", counting("a", 0)), call(2)).expects("2 to a")
    story.sees(drains("a"), answered(2)).ends()


def test_an_engine_of_which_only_a_push_has_told_is_asked_as_soon() -> None:
    word = report("a", replica(running=0, waiting=0))
    story = Story().sees(comes("a", says=NodeReport(NodeId("a"), "a", "1"))).at(0.1).expects()
    story.house.words[NodeId("a")] = word
    story.sees(NodeReported(NodeId("a"), word, pushed=True), call(1)).expects("1 to a")
    story.sees(call(2), hangs_up(1)).expects().at(0.2).expects("2 to a").sees(hangs_up(2))
