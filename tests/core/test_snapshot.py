from __future__ import annotations

from pair.core.events import FailureKind
from pair.core.names import Outcome, Phase
from pair.core.snapshot import TWINS, TWINS_S, take_snapshot
from tests.core.house import replica, report
from tests.core.story import Story, answered, call, calls, comes, failed, hangs_up, refused, says


def test_the_state_at_one_moment() -> None:
    story = Story()
    story.sees(comes("a", says=report("a", replica(slots=2, aliases=("m:7b",), running=2))))
    story.sees(comes("b", says=report("b", replica("other"))))
    story.at(0.5).sees(*calls(1, 2), call(3, "m:7b"), call(4, "other"))
    story.sees(failed(4, FailureKind.RESET, "cable pulled"), call(5, "nobody"), hangs_up(5))
    scheduler = story.house.scheduler
    # The first report's two requests are foreign until the next one.
    shown = take_snapshot(scheduler, 0.8)
    assert (shown.waiting, shown.in_flight, shown.opened) == (4, 0, 5)
    story.house.words["a"] = report("a", replica(slots=2, aliases=("m:7b",)))  # type: ignore[index]
    story.at(1.2)
    shown = take_snapshot(scheduler, 1.2)
    assert (shown.strategy, shown.uptime_s, shown.draining) == ("queue-depth", 1.2, False)
    assert (shown.waiting, shown.waiting_limit, shown.in_flight) == (2, 1000, 2)
    assert shown.closed == {
        Outcome.ANSWERED: 0,
        Outcome.REFUSED: 0,
        Outcome.CLIENT_LEFT: 1,
        Outcome.FAILED: 0,
    }
    a, b = shown.nodes
    assert (a.id, a.phase, a.addresses, a.fixed, a.version) == (
        "a",
        Phase.READY,
        ("http://a:7248",),
        False,
        "1",
    )
    (on_a,), (on_b,) = a.replicas, b.replicas
    assert (on_a.model, on_a.aliases, on_a.slots, on_a.in_flight, on_a.queue_depth) == (
        "m",
        ("m:7b",),
        2,
        2,
        0,
    )
    assert (on_b.failed, on_b.set_aside_reason) == (1, "cable pulled")
    assert 0.2 < on_b.set_aside_s < 0.4
    by_model = {view.model: view for view in shown.models}
    assert list(by_model) == ["m", "other"], "an alias is no model of its own"
    assert (by_model["m"].nodes, by_model["m"].slots, by_model["m"].in_flight) == (1, 2, 2)  # type: ignore[index]
    assert by_model["m"].waiting == 1, "under an alias"  # type: ignore[index]
    assert round(by_model["m"].oldest_wait_s, 3) == 0.7  # type: ignore[index]


def test_what_nobody_holds_is_shown_while_somebody_waits_for_it() -> None:
    story = Story("").sees(call(1, "late"))
    (view,) = take_snapshot(story.house.scheduler, 0.5).models
    assert (view.model, view.nodes, view.slots, view.waiting) == ("late", 0, 0, 1)
    story.at(4.0).expects("1 refused: no_node")
    assert take_snapshot(story.house.scheduler, 4.0).models == ()
    story.sees(refused(1)).ends()


def test_a_replica_that_is_no_longer_listed_is_gone_until_its_lease_ends() -> None:
    story = Story("a").at(0.5).sees(call(1))
    story.house.words["a"] = report("a", replica("other"))  # type: ignore[index]
    story.at(1.2)
    (node,) = take_snapshot(story.house.scheduler, 1.2).nodes
    assert [(one.model, one.state) for one in node.replicas] == [("m", "gone"), ("other", "ready")]
    story.sees(answered(1)).at(2.2)
    (node,) = take_snapshot(story.house.scheduler, 2.2).nodes
    assert [one.model for one in node.replicas] == ["other"]


def test_two_machines_with_one_id_are_told_once_they_have_taken_turns() -> None:
    story = Story("a")

    def warned(*processes: str) -> bool:
        for process in processes:
            story.sees(says("a", report("a", process=process)))
        (node,) = take_snapshot(story.house.scheduler, story.house.now).nodes
        return TWINS in node.warnings

    assert not warned("one", "one", "", "one"), "an older pair says nothing"
    assert not warned("two", "three", "four", "five"), "a node may start again and again"
    assert warned("four")
    story.at(TWINS_S - 1.0)
    assert warned("four")
    story.at(TWINS_S + 1.0)
    assert not warned("four")
    assert warned("five")
