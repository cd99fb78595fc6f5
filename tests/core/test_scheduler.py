"""The whole core in stories: what a house lives through, and what is decided."""

from __future__ import annotations

import pytest

from pair.core.events import FailureKind, NodeIdentified, NodeReported, Ticked
from pair.core.names import NodeId, Phase
from pair.core.reports import ReplicaState
from pair.errors import BookkeepingError
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


def test_a_burst_of_5_on_3_nodes_takes_2_waves() -> None:
    story = Story("abc")
    story.at(1.0).sees(*calls(1, 2, 3, 4, 5)).expects("1 to a", "2 to b", "3 to c")
    story.at(3.0).sees(answered(1)).expects("4 to a")
    story.sees(answered(2)).expects("5 to b")
    story.sees(answered(3)).expects()
    story.at(5.0).sees(answered(4), answered(5)).expects()
    story.ends()


def test_a_burst_in_one_instant_fills_unequal_nodes_by_their_slots() -> None:
    story = Story()
    story.sees(comes("big", says=report("big", replica(slots=3))), comes("small"))
    story.at(1.0).sees(*calls(1, 2, 3, 4, 5))
    story.expects("1 to big", "2 to small", "3 to big", "4 to big")
    story.sees(answered(3)).expects("5 to big")
    story.sees(*map(answered, (1, 2, 4, 5))).expects().ends()


def test_equals_take_turns_call_after_call() -> None:
    story = Story("abc")
    for ticket, node in enumerate("abcabc", 1):
        story.at(float(ticket)).sees(call(ticket)).expects(f"{ticket} to {node}")
        story.sees(answered(ticket)).expects()
    story.ends()


def test_light_requests_go_to_one_node_and_disturb_no_turn() -> None:
    story = Story("abc")
    story.at(1.0).sees(call(1), call(2, light=True)).expects("1 to a", "2 to a")
    story.sees(call(3, None, light=True)).expects("3 to a")
    story.sees(answered(1), answered(2), answered(3)).expects()
    story.sees(call(4), call(5)).expects("4 to b", "5 to c")
    story.sees(answered(4), answered(5)).expects().ends()


def test_a_node_dies_before_the_commit_point_and_its_ticket_moves_to_the_head() -> None:
    story = Story("ab")
    story.at(1.0).sees(*calls(1, 2, 3, 4)).expects("1 to a", "2 to b")
    del story.house.words[NodeId("a")]
    story.at(30.0).expects("1 taken from a").finds("a", Phase.LOST)
    story.sees(answered(2)).expects("1 to b, try 2")
    story.sees(answered(1)).expects("3 to b").sees(answered(3)).expects("4 to b")
    story.sees(answered(4)).expects().ends()


def test_a_node_dies_after_the_commit_point_and_its_ticket_is_over() -> None:
    story = Story("ab")
    story.at(1.0).sees(*calls(1, 2)).expects("1 to a", "2 to b").sees(first_byte(1))
    del story.house.words[NodeId("a")]
    story.at(30.0).expects("1 taken from a")
    story.sees(ends_failed(1), answered(2), call(3)).expects("3 to b")
    story.sees(answered(3)).expects().ends()


def test_a_waiting_ticket_never_sees_the_death_of_a_node() -> None:
    story = Story("ab")
    story.at(1.0).sees(*calls(1, 2, 3)).expects("1 to a", "2 to b")
    del story.house.words[NodeId("a")]
    story.at(2.0).sees(failed(1, FailureKind.RESET)).expects()
    story.at(2.1).sees(answered(2)).expects("1 to b, try 2")
    story.at(8.0).finds("a", Phase.LOST).sees(answered(1)).expects("3 to b")
    story.sees(answered(3)).expects().ends()


def test_a_machine_sleeps_and_comes_back() -> None:
    story = Story("ab")
    asleep = story.house.words.pop(NodeId("a"))
    story.at(7.0).finds("a", Phase.LOST).sees(*calls(1, 2)).expects("1 to b")
    story.house.words[NodeId("a")] = asleep
    story.at(12.0).finds("a", Phase.READY).expects("2 to a")
    story.sees(answered(1), answered(2)).expects().ends()


def test_the_proxy_itself_slept_and_blames_nobody() -> None:
    story = Story("ab")
    story.at(1.0).sees(call(1)).expects("1 to a")
    # Probes are under way while the machine sleeps; their limits have all passed when it wakes.
    words, story.house.words = dict(story.house.words), {}
    story.at(2.1)
    story.house.words = words
    story.house.oversleep_until(3600.0)
    story.finds("a", Phase.READY).finds("b", Phase.READY).expects()
    story.at(3602.0).finds("a", Phase.READY).finds("b", Phase.READY)
    story.sees(call(2)).expects("2 to b").sees(answered(1), answered(2)).expects().ends()


def test_a_stall_shorter_than_a_probe_s_limit_is_seen_by_a_late_alarm() -> None:
    story = Story("a")
    story.at(0.5).sees(comes("b"))
    del story.house.words[NodeId("a")]
    # a is asked at 1.0 and has until 2.5; b is to be asked at 1.5, which happens at 3.2.
    story.at(1.2)
    story.house.oversleep_until(3.2)
    story.finds("a", Phase.READY).at(4.8).finds("a", Phase.SUSPECT)


def test_after_a_sleep_the_new_probes_count() -> None:
    story = Story("ab")
    del story.house.words[NodeId("a")]
    story.at(1.5)
    story.house.oversleep_until(3600.0)
    story.at(3610.0).finds("a", Phase.LOST).finds("b", Phase.READY).ends()


def test_a_busy_node_keeps_the_ticket_and_the_try_is_free() -> None:
    story = Story("a", busy_pause_s=0.25)
    story.at(1.0).sees(call(1)).expects("1 to a")
    for round_number in range(5):
        story.sees(failed(1, FailureKind.BUSY)).expects()
        story.at(1.25 + 0.25 * round_number).expects("1 to a")
    story.sees(answered(1)).expects().ends()


def test_where_everybody_is_rate_limited_the_ticket_waits_as_long_as_they_say() -> None:
    story = Story("abc", pause_s=0.2, pause_limit_s=60.0, attempts_limit=3)
    story.at(1.0).sees(call(1)).expects("1 to a")
    story.sees(failed(1, FailureKind.RATE_LIMITED, retry_after_s=9.0)).expects("1 to b")
    story.sees(failed(1, FailureKind.RATE_LIMITED, retry_after_s=0.5)).expects("1 to c")
    story.sees(failed(1, FailureKind.RATE_LIMITED)).expects()
    story.sees(call(2)).expects()
    story.at(1.3).expects("1 to c").sees(failed(1, FailureKind.RATE_LIMITED)).expects()
    story.at(1.51).expects("1 to b").sees(failed(1, FailureKind.RATE_LIMITED, retry_after_s=9.0))
    story.at(1.75).expects("1 to c").sees(first_byte(1), answered(1)).expects("2 to c")
    story.sees(answered(2)).ends()


def test_a_light_request_asks_each_rate_limited_node_once() -> None:
    story = Story("ab").at(1.0).sees(call(1, light=True)).expects("1 to a")
    story.sees(failed(1, FailureKind.RATE_LIMITED)).expects("1 to b, try 2")
    story.sees(failed(1, FailureKind.RATE_LIMITED)).expects("1 refused: attempts_spent")
    story.sees(refused(1)).ends()


def test_a_refused_call_does_not_hide_the_foreign_one_that_was_in_its_way() -> None:
    story = Story("a")
    story.at(1.0).sees(call(1)).expects("1 to a")
    story.house.words[NodeId("a")] = report("a", replica(running=1))
    story.sees(failed(1, FailureKind.BUSY)).at(5.5).expects()
    story.house.words[NodeId("a")] = report("a", replica(running=0))
    story.at(6.5).expects("1 to a").sees(answered(1)).ends()


def test_a_500_gets_one_second_opinion() -> None:
    story = Story("abc")
    story.at(1.0).sees(call(1)).expects("1 to a")
    story.sees(failed(1, FailureKind.ENGINE_ERROR)).expects("1 to b, try 2")
    story.sees(failed(1, FailureKind.ENGINE_ERROR, "model crashed."))
    story.expects("1 refused: attempts_spent")
    assert story.detail(1) == "2 attempts failed, the last one so: model crashed."
    story.sees(ends_failed(1), call(2)).expects("2 to c").sees(answered(2)).ends()


def test_a_500_without_another_node_is_the_answer() -> None:
    story = Story("a")
    story.at(1.0).sees(call(1)).expects("1 to a")
    story.sees(failed(1, FailureKind.ENGINE_ERROR)).expects("1 refused: attempts_spent")
    story.sees(ends_failed(1)).ends()


def test_attempts_have_a_limit() -> None:
    story = Story("abcd", attempts_limit=3)
    story.at(1.0).sees(call(1)).expects("1 to a")
    story.sees(failed(1, FailureKind.BAD_GATEWAY)).expects("1 to b, try 2")
    story.sees(failed(1, FailureKind.UNREACHABLE)).expects("1 to c, try 3").finds(
        "b", Phase.SUSPECT
    )
    story.sees(failed(1, FailureKind.GARBLED)).expects("1 refused: attempts_spent")
    story.sees(ends_failed(1)).ends()


def test_a_cut_after_the_commit_point_is_the_shell_s_to_tell() -> None:
    story = Story("ab")
    story.at(1.0).sees(call(1)).expects("1 to a")
    story.sees(first_byte(1), failed(1, FailureKind.CUT)).expects()
    story.sees(ends_failed(1)).expects().ends()


def test_a_node_that_said_no_is_asked_again_when_nothing_else_is_left() -> None:
    story = Story("ab")
    story.at(1.0).sees(*calls(1, 2)).expects("1 to a", "2 to b")
    story.sees(failed(1, FailureKind.RESET)).at(2.5).expects()
    # b is the only other one, and it goes; a's pause is over by then.
    del story.house.words[NodeId("b")]
    story.sees(failed(2, FailureKind.UNREACHABLE)).expects("2 to a, try 2")
    story.sees(answered(2)).at(20.0).expects("1 to a, try 2")
    story.sees(answered(1)).ends()


def test_who_waits_for_the_other_node_goes_back_in_the_instant_that_it_is_gone() -> None:
    story = Story("ab")
    story.at(1.0).sees(*calls(1, 2)).expects("1 to a", "2 to b")
    story.sees(failed(1, FailureKind.ENGINE_ERROR)).expects()
    story.sees(says("b", report("b", replica("other")))).expects("1 to a, try 2")
    story.sees(answered(1), answered(2)).ends()


def test_a_loading_node_is_no_reason_to_avoid_the_one_that_failed() -> None:
    story = Story("a")
    story.sees(comes("b", says=report("b", replica(state=ReplicaState.LOADING))))
    story.at(1.0).sees(call(1)).expects("1 to a")
    story.sees(failed(1, FailureKind.RESET)).at(2.1).expects("1 to a, try 2")
    story.sees(answered(1)).ends()


def test_an_unknown_model_waits_for_the_start_grace_only() -> None:
    story = Story("", start_grace_s=3.0)
    story.sees(call(1, "late"), call(2, "never")).expects()
    story.at(1.0).sees(comes("a", says=report("a", replica("late")))).at(1.5).expects("1 to a")
    story.at(2.9).expects().at(3.0).expects("2 refused: unknown_model")
    assert story.detail(2) == (
        "No node holds the model 'never'; the models in this house are: late."
    )
    story.sees(call(3, "never")).expects("3 refused: unknown_model")
    story.sees(answered(1), refused(2), refused(3)).ends()


def test_nobody_is_there_after_the_start_grace() -> None:
    story = Story("", start_grace_s=3.0)
    story.sees(call(1)).at(3.0).expects("1 refused: no_node")
    assert story.detail(1) == "No node has been found."
    story.sees(refused(1)).ends()


def test_a_node_that_is_just_being_asked_is_worth_the_wait() -> None:
    story = Story("", start_grace_s=3.0)
    story.at(2.9).sees(call(1)).expects()
    story.house.answer_probes = False
    story.sees(comes("a")).at(3.5).expects()
    story.sees(says("a", report("a"))).expects("1 to a").sees(answered(1)).ends()


def test_the_last_node_is_lost_and_returns_in_time() -> None:
    story = Story("a", hopeless_grace_s=15.0)
    word = story.house.words.pop(NodeId("a"))
    story.at(10.0).finds("a", Phase.LOST).sees(call(1)).at(20.0).expects()
    story.house.words[NodeId("a")] = word
    story.at(26.0).expects("1 to a").sees(answered(1)).ends()


def test_the_last_node_is_lost_and_does_not_return() -> None:
    story = Story("a", hopeless_grace_s=15.0)
    del story.house.words[NodeId("a")]
    story.at(10.0).sees(call(1)).at(24.9).expects().at(25.0).expects("1 refused: no_node")
    assert "a is lost (missed" in story.detail(1)
    story.sees(refused(1)).ends()


def test_a_grace_begins_anew_for_those_who_come_after_everyone_left() -> None:
    story = Story("a", hopeless_grace_s=15.0)
    del story.house.words[NodeId("a")]
    story.at(10.0).sees(call(1), hangs_up(1))
    story.at(24.0).sees(call(2)).at(38.9).expects().at(39.0).expects("2 refused: no_node")
    story.sees(refused(2)).ends()


def test_a_grace_begins_anew_whenever_there_was_hope_in_between() -> None:
    story = Story("a", hopeless_grace_s=15.0)
    down = report("a", replica(state=ReplicaState.DOWN))
    story.at(1.0).sees(says("a", down), call(1)).expects()
    story.at(10.0).sees(says("a", report("a", replica(state=ReplicaState.LOADING))))
    story.at(12.0).sees(says("a", down)).at(26.9).expects().at(27.0).expects("1 refused: no_node")
    story.sees(refused(1)).ends()


def test_a_model_that_nobody_has_any_more_is_refused_at_once() -> None:
    story = Story("a")
    story.at(5.0).sees(*calls(1, 2)).expects("1 to a")
    story.sees(says("a", report("a", replica("other")))).expects("2 refused: unknown_model")
    story.sees(answered(1), refused(2)).ends()


def test_an_engine_that_restarts_is_waited_for() -> None:
    story = Story("a", hopeless_grace_s=15.0)
    story.at(5.0).sees(says("a", report("a", replica(state=ReplicaState.DOWN))), call(1)).expects()
    story.at(12.0).sees(says("a", report("a", replica(state=ReplicaState.LOADING)))).expects()
    story.finds("a", Phase.LOADING).at(60.0).expects()
    story.sees(says("a", report("a"))).expects("1 to a").sees(answered(1)).ends()


def test_pinned_tickets_wait_for_their_node_while_others_are_free() -> None:
    story = Story("ab")
    story.at(1.0).sees(call(1, pin="a"), call(2, pin="a"), call(3)).expects("1 to a", "3 to b")
    story.sees(answered(3)).expects().sees(answered(1)).expects("2 to a")
    story.sees(answered(2)).ends()


def test_a_pin_to_what_is_not_there_is_refused_with_the_reason() -> None:
    story = Story("ab", start_grace_s=3.0)
    story.at(3.0).sees(call(1, pin="c")).expects("1 refused: unknown_node")
    assert story.detail(1) == "There is no node 'c'; the nodes are: a, b."
    story.sees(call(2, "other", pin="a")).expects("2 refused: unknown_node")
    assert story.detail(2) == "Node a cannot serve the model 'other' now; it holds: m."
    story.sees(refused(1), refused(2)).ends()


def test_a_pin_to_a_node_that_is_not_known_yet_waits_for_the_start_grace_only() -> None:
    story = Story("a", start_grace_s=3.0)
    story.sees(call(1, pin="b"), call(2, pin="box"), call(3, pin="nobody"), call(4)).expects(
        "4 to a"
    )
    story.sees(call(5, pin="b", light=True)).expects("5 refused: unknown_node")
    story.at(1.0).sees(comes("b")).at(1.5).expects("1 to b")
    story.sees(comes("c", says=report("c", name="box"))).at(2.0).expects("2 to c")
    story.at(2.9).expects().at(3.0).expects("3 refused: unknown_node")
    assert story.detail(3) == "There is no node 'nobody'; the nodes are: a, b, box."
    story.sees(refused(3), refused(5), *map(answered, (1, 2, 4))).ends()


def test_a_pin_to_a_node_that_is_just_being_asked_is_worth_the_wait() -> None:
    story = Story("a", start_grace_s=0.0, probe_limit_s=2.0)
    story.house.answer_probes = False
    story.at(1.0).sees(comes("b")).sees(call(1, pin="b"), call(2, pin="box")).expects()
    story.sees(NodeReported(NodeId("b"), report("b"))).expects("2 refused: unknown_node", "1 to b")
    story.sees(refused(2), answered(1)).ends()


def test_a_pin_to_a_node_that_holds_other_models_is_refused_at_once() -> None:
    story = Story("a", start_grace_s=3.0).at(0.5).sees(call(1, "other", pin="a"))
    story.expects("1 refused: unknown_node").sees(refused(1)).ends()


def test_a_pin_dies_with_its_node() -> None:
    story = Story("ab")
    story.at(1.0).sees(call(1, pin="a"), call(2, pin="a")).expects("1 to a")
    del story.house.words[NodeId("a")]
    story.at(30.0).expects("1 taken from a", "1 refused: unknown_node", "2 refused: unknown_node")
    assert story.detail(2) == "Node a is lost (missed 8 probes: no answer)."
    story.sees(refused(1), refused(2)).ends()


def test_the_wait_limit_counts_all_waiting() -> None:
    story = Story("a", wait_limit_s=10.0)
    story.at(1.0).sees(*calls(1, 2)).expects("1 to a")
    story.at(5.0).sees(answered(1)).expects("2 to a")
    story.sees(call(3), failed(2, FailureKind.RESET))
    story.at(6.0).expects("2 to a, try 2")
    story.sees(failed(2, FailureKind.RESET)).expects()
    story.at(8.0).expects("2 to a, try 3").at(14.9).expects()
    story.at(15.0).expects("3 refused: waited_too_long")
    story.sees(refused(3), answered(2)).ends()


def test_the_wait_limit_holds_after_a_failed_attempt() -> None:
    story = Story("a", wait_limit_s=3.0, pause_s=60.0)
    story.at(1.0).sees(call(1)).expects("1 to a").at(2.0).sees(failed(1, FailureKind.RESET))
    story.at(4.9).expects().at(5.0).expects("1 refused: waited_too_long")
    story.sees(refused(1)).ends()


def test_the_waiting_room_has_a_limit_and_lets_back_in_who_was_there() -> None:
    story = Story("a", waiting_limit=1)
    story.at(1.0).sees(*calls(1, 2, 3)).expects("1 to a", "3 refused: queue_full")
    assert "1 requests wait already" in story.detail(3)
    story.sees(failed(1, FailureKind.RESET), refused(3)).expects()
    story.sees(call(4)).expects("4 refused: queue_full")
    story.at(3.0).expects("1 to a, try 2").sees(answered(1)).expects("2 to a")
    story.sees(answered(2), refused(4)).ends()


def test_a_room_overfull_of_those_who_came_back_refuses_once() -> None:
    story = Story("a", waiting_limit=1)
    story.at(5.0).sees(*calls(1, 2)).expects("1 to a").sees(failed(1, FailureKind.RESET))
    story.sees(call(3, "never")).expects("3 refused: unknown_model")
    story.sees(hangs_up(1), hangs_up(2), refused(3)).ends()


def test_a_full_room_still_tells_who_asks_for_the_impossible() -> None:
    story = Story("a", waiting_limit=0)
    story.at(5.0).sees(call(1), call(2, "never")).expects("1 to a", "2 refused: unknown_model")
    story.sees(answered(1), refused(2)).ends()


def test_a_drain_finishes_what_is_there_and_takes_nothing_new() -> None:
    story = Story("a")
    story.at(1.0).sees(*calls(1, 2)).expects("1 to a").sees(drains(), call(3))
    story.expects("3 refused: shutting_down").sees(answered(1)).expects("2 to a")
    story.sees(answered(2), refused(3)).ends()


def test_a_draining_node_finishes_what_it_has() -> None:
    story = Story("ab")
    story.at(1.0).sees(*calls(1, 2, 3), drains("a")).expects("1 to a", "2 to b")
    story.sees(answered(1)).at(5.0).expects().finds("a", Phase.DRAINING)
    story.sees(answered(2)).expects("3 to b").sees(answered(3)).ends()


def test_a_client_that_leaves_in_the_very_instant_of_its_dispatch_holds_nothing() -> None:
    story = Story().sees(comes("a", says=report("a", replica(running=0)))).at(1.5)
    story.sees(*calls(1, 2)).expects("1 to a").sees(hangs_up(1), hangs_up(2)).expects()
    story.sees(call(3)).at(1.6).expects("3 to a").sees(hangs_up(3)).ends()


def test_aliases_of_one_model_are_one_queue_in_order_of_arrival() -> None:
    story = Story()
    story.sees(comes("a", says=report("a", replica("m:7b", aliases=("m",)))))
    story.at(1.0).sees(call(1, "m"), call(2, "m:7b"), call(3, "m"), call(4, "m:7b"))
    story.expects("1 to a")
    for done, following in ((1, 2), (2, 3), (3, 4)):
        story.sees(answered(done)).expects(f"{following} to a")
    story.sees(answered(4)).ends()


def test_a_url_that_turns_out_to_be_a_known_node_is_one_node() -> None:
    story = Story("a")
    url = "http://a:7248"
    story.house.answer_probes = False
    story.sees(comes(url, fixed=True), NodeIdentified(NodeId(url), NodeId("a")))
    nodes = story.house.scheduler.membership.nodes
    assert list(nodes) == ["a"]
    assert nodes[NodeId("a")].fixed


def test_what_a_bare_engine_held_under_its_url_moves_when_it_becomes_a_node() -> None:
    url = "http://a:7248"
    story = Story([url])
    story.at(1.0).sees(*calls(1, 2)).expects(f"1 to {url}")
    story.sees(comes("a"), NodeIdentified(NodeId(url), NodeId("a")))
    story.expects(f"1 taken from {url}").at(1.1).expects("1 to a, try 2")
    story.sees(answered(1)).expects("2 to a").sees(answered(2)).ends()


def test_time_never_runs_back() -> None:
    story = Story("a").at(5.0).sees(Ticked())
    with pytest.raises(BookkeepingError, match=r"time ran back from 5\.0 to 4\.0"):
        story.house.scheduler.handle(Ticked(), 4.0)


def test_a_tick_that_comes_early_only_renews_the_promise() -> None:
    story = Story("a")
    asked = len(story.house.probes)
    story.at(0.3).sees(Ticked()).at(0.9).expects()
    assert len(story.house.probes) == asked
    story.at(1.1)
    assert len(story.house.probes) == asked + 1
