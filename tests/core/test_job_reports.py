from __future__ import annotations

import pytest

from pair.core.events import Usage
from pair.core.job_reports import JobReport, job_report
from pair.core.jobs import Call, Job
from pair.core.names import JobId, ModelName, NodeId, Outcome, TicketId
from pair.core.speeds import Speed

Ran = tuple[str, float, float]
"""Node, lease granted (s), closed (s)."""


def a_job(
    ran: list[Ran],
    fleet: dict[str, int],
    *,
    name: str = "team",
    width: int | None = None,
    unanswered: int = 0,
) -> Job:
    """A finished job whose calls all came at 0."""
    job = Job(JobId(name), True, 0.0)
    job.fleet = {NodeId(node): (node, slots) for node, slots in fleet.items()}
    for number, (node, granted_at, closed_at) in enumerate(ran):
        call = Call(TicketId(number), ModelName("m"), "", False, 0.0, node=NodeId(node))
        call.granted_at, call.closed_at, call.outcome = granted_at, closed_at, Outcome.ANSWERED
        job.calls[call.ticket] = call
    for number in range(len(ran), len(ran) + unanswered):
        call = Call(TicketId(number), ModelName("m"), "", False, 0.0)
        call.closed_at, call.outcome = 0.5, Outcome.FAILED
        job.calls[call.ticket] = call
    job.calls_total = len(job.calls)
    job.width = job.calls_total if width is None else width
    job.last_closed_at = max((closed_at for _, _, closed_at in ran), default=0.5)
    return job


CLASSIC: list[Ran] = [("a", 0, 2), ("b", 0, 2), ("c", 0, 2), ("a", 2, 4), ("b", 2, 4)]
ALONE: list[Ran] = [("a", float(2 * n), 2.0 * n + 2.0) for n in range(5)]


def figures(report: JobReport) -> tuple[object, ...]:
    return (report.waves, report.limit, report.achieved, report.efficiency, report.baseline)


def test_5_calls_on_3_equal_nodes() -> None:
    report = job_report(a_job(CLASSIC, {"a": 1, "b": 1, "c": 1}), None, 9.0)
    assert figures(report) == (2, 2.5, 2.5, 1.0, "predicted")
    assert (report.makespan_s, report.baseline_s, report.fastest_alone_s) == (4.0, 10.0, 10.0)
    assert (report.fastest_alone, report.fastest_alone_node) == ("predicted", "a")
    assert [(n.name, n.slots, n.calls, n.service_s) for n in report.nodes] == [
        ("a", 1, 2, 2.0),
        ("b", 1, 2, 2.0),
        ("c", 1, 1, 2.0),
    ]
    assert report.note == ""


def test_a_measured_baseline_goes_before_a_predicted_one() -> None:
    alone = a_job([(node, 1.1 * a, 1.1 * z) for node, a, z in ALONE], {"a": 1}, name="team/alone")
    report = job_report(a_job(CLASSIC, {"a": 1, "b": 1, "c": 1}), alone, 9.0)
    assert report.baseline == "measured"
    assert report.baseline_node == "a"
    assert report.baseline_s == pytest.approx(11.0)
    assert report.achieved == pytest.approx(2.75)
    assert report.efficiency == pytest.approx(1.1)
    assert report.fastest_alone_s == pytest.approx(10.0), "shown beside it, from the job itself"
    assert report.fastest_alone == "predicted"


def test_the_fastest_node_alone_is_no_slower_than_it_was_measured() -> None:
    # Service times of calls that had company are longer than those of a node alone; and the
    # measured node may have left since.
    alone = a_job([("gone", 0.8 * a, 0.8 * z) for _, a, z in ALONE], {"a": 1}, name="team/alone")
    report = job_report(a_job(CLASSIC, {"a": 1, "b": 1, "c": 1}), alone, 9.0)
    assert report.fastest_alone_s == report.baseline_s == pytest.approx(8.0)
    assert (report.fastest_alone, report.fastest_alone_node) == ("measured", "gone")


@pytest.mark.parametrize(
    ("alone", "flaw"),
    [
        (a_job(ALONE[:4], {"a": 1}, name="team/alone"), "has 4 calls"),
        (a_job(ALONE[:4], {"a": 1}, name="team/alone", unanswered=1), "has calls without"),
        (a_job(CLASSIC, {"a": 1}, name="team/alone"), "ran on 3 nodes"),
    ],
)
def test_a_baseline_that_cannot_be_compared_is_not_used(alone: Job, flaw: str) -> None:
    report = job_report(a_job(CLASSIC, {"a": 1, "b": 1, "c": 1}), alone, 9.0)
    assert report.baseline == "predicted"
    assert f"the baseline job team/alone {flaw}" in report.note


def test_unequal_nodes_are_measured_against_the_fastest_alone() -> None:
    # a needs 1 s a call, b 2 s: in T seconds they hold T + floor(T / 2) calls, so 6 calls need 4 s.
    ran: list[Ran] = [("a", 0, 1), ("b", 0, 2), ("a", 1, 2), ("a", 2, 3), ("b", 2, 4), ("a", 3, 4)]
    report = job_report(a_job(ran, {"a": 1, "b": 1}), None, 9.0)
    assert (report.fastest_alone_node, report.fastest_alone_s) == ("a", 6.0)
    assert report.limit == pytest.approx(6 / 4)
    assert report.achieved == pytest.approx(6 / 4)
    assert report.efficiency == pytest.approx(1.0)


def test_a_chain_of_calls_can_use_one_slot_only() -> None:
    ran: list[Ran] = [("a", 0, 2), ("b", 2, 4), ("a", 4, 6)]
    report = job_report(a_job(ran, {"a": 1, "b": 1}, width=1), None, 9.0)
    assert figures(report) == (3, 1.0, 1.0, 1.0, "predicted")
    assert "at most 1 call was open at once, so only 1 of 2 slots" in report.note


def test_time_with_no_call_open_is_not_the_nodes_fault() -> None:
    job = a_job([("a", 0, 2), ("b", 0, 2), ("a", 7, 9), ("b", 7, 9)], {"a": 1, "b": 1}, width=2)
    job.idle_s = 5.0
    report = job_report(job, None, 99.0)
    assert report.makespan_s == 4.0
    assert figures(report) == (2, 2.0, 2.0, 1.0, "predicted")


def test_unequal_calls_are_measured_by_their_total_work() -> None:
    ran: list[Ran] = [("a", 0, 4), ("b", 0, 1), ("b", 1, 2), ("b", 2, 4)]
    report = job_report(a_job(ran, {"a": 1, "b": 1}), None, 9.0)
    assert "calls differ in length" in report.note
    assert report.limit is not None
    assert report.achieved is not None
    # b's typical call is four times as fast as a's, which is all that can be known of its speed.
    assert report.achieved <= report.limit + 1e-9
    equal_nodes = job_report(
        a_job([("a", 0, 1), ("a", 1, 4), ("b", 0, 1), ("b", 1, 4)], {"a": 1, "b": 1}), None, 9.0
    )
    assert equal_nodes.limit == pytest.approx(2.0)
    assert equal_nodes.achieved == pytest.approx(2.0)


def test_unequal_calls_on_unequal_nodes_count_a_slow_slot_for_less() -> None:
    # Typical calls: 1 s on a, 2 s on b. On a all work would take 5 + 10 / 2 = 10 s, and b is worth
    # half of a, so together at least 10 / 1.5 s.
    ran: list[Ran] = [("a", 0, 1), ("a", 1, 2), ("a", 2, 5), ("b", 0, 2), ("b", 2, 4), ("b", 4, 10)]
    report = job_report(a_job(ran, {"a": 1, "b": 1}), None, 99.0)
    assert report.fastest_alone_s == pytest.approx(10.0)
    assert report.limit == pytest.approx(1.5)
    assert report.achieved == pytest.approx(1.0)


def test_a_node_that_answered_nothing_counts_for_the_limit() -> None:
    ran: list[Ran] = [("a", 0, 2), ("a", 2, 4)]
    report = job_report(a_job(ran, {"a": 1, "idle": 1}), None, 9.0)
    assert figures(report) == (1, 2.0, 1.0, 0.5, "predicted")
    assert [(n.name, n.calls, n.service_s) for n in report.nodes][1] == ("idle", 0, None)


def test_failed_calls_are_said_and_left_out() -> None:
    report = job_report(a_job(CLASSIC, {"a": 1, "b": 1, "c": 1}, unanswered=2), None, 9.0)
    assert report.note.startswith("figures are from the 5 of 7 calls that were answered")
    assert report.waves == 2


def test_nobody_answered() -> None:
    report = job_report(a_job([], {"a": 1}, unanswered=2), None, 9.0)
    assert figures(report) == (None, None, None, None, None)
    assert report.note == "no call was answered"


def test_a_call_that_took_no_time_by_the_clock_counts_like_any() -> None:
    report = job_report(a_job([*CLASSIC, ("c", 2, 2)], {"a": 1, "b": 1, "c": 1}), None, 9.0)
    assert (report.waves, report.makespan_s) == (2, 4.0)
    assert report.achieved is not None
    assert "no call" not in report.note
    at_once = job_report(a_job([("a", 0, 0), ("b", 0, 0)], {"a": 1, "b": 1}), None, 9.0)
    assert figures(at_once) == (1, 2.0, 2.0, 1.0, "predicted")


def test_a_job_that_runs_has_a_limit_but_nothing_achieved_yet() -> None:
    job = a_job(CLASSIC[:3], {"a": 1, "b": 1, "c": 1})
    job.open_calls, job.calls_total, job.width = 2, 5, 5
    report = job_report(job, None, 3.5)
    assert report.makespan_s == 3.5
    assert report.achieved is None
    assert report.efficiency is None
    assert report.limit == 3.0
    first = a_job([], {"a": 1})
    first.open_calls = 1
    assert job_report(first, None, 1.0).note == "no call has been answered yet"


def test_noise_between_equal_nodes_does_not_make_waves_of_one() -> None:
    ran = [(node, start, end if node == "a" else end * 1.03) for node, start, end in CLASSIC]
    report = job_report(a_job(ran, {"a": 1, "b": 1, "c": 1}), None, 9.0)
    assert report.limit == pytest.approx(2.5)


NOISY: list[Ran] = [("a", 0, 1.4), ("b", 0, 0.8), ("b", 0.8, 2.2), ("a", 1.4, 2.4), ("b", 2.2, 3.1)]
"""Five equal calls on two equal nodes of a busy machine, as once measured."""


def test_equal_outputs_make_equal_calls_however_the_machine_stretched_them() -> None:
    job = a_job(NOISY, {"a": 1, "b": 1})
    assert "differ in length" in job_report(job, None, 9.0).note
    report = job_report(with_tokens(job), None, 9.0)
    assert report.note == ""
    assert report.waves == 3
    assert report.limit == pytest.approx(5 / 3)


def with_tokens(job: Job, tokens: int = 36) -> Job:
    """The same job with as many output tokens a call: equal calls, whatever their times."""
    for call in job.calls.values():
        call.usage = Usage(output_tokens=tokens)
    return job


def test_nodes_whose_typical_times_differ_by_more_than_their_calls_scatter_are_unequal() -> None:
    ran: list[Ran] = [("a", 0, 1), ("a", 1, 2.1), ("b", 0, 1.6), ("b", 1.6, 3.2)]
    report = job_report(a_job(ran, {"a": 1, "b": 1}), None, 9.0)
    # 4 calls of 1.05 s on a alone; together at least 3 of them, while b ends one or two.
    assert report.limit == pytest.approx(4 * 1.05 / (3 * 1.05))


def test_one_call_that_was_held_up_does_not_make_a_fast_node_a_slow_one() -> None:
    ran: list[Ran] = [("a", n, n + 1) for n in range(4)] + [("a", 4, 6.1)]
    ran += [("b", 2 * n, 2 * n + 2) for n in range(3)]
    report = job_report(with_tokens(a_job(ran, {"a": 1, "b": 1})), None, 9.0)
    assert (report.fastest_alone_node, report.fastest_alone_s) == ("a", 8.0)
    # In 6 s a holds 6 calls and b 3; in less only 7.
    assert report.limit == pytest.approx(8 / 6)
    assert report.achieved == pytest.approx(8 / 6.1)


@pytest.mark.parametrize(("b_s", "limit"), [(2.6, 2.0), (2.8, 8 / (2 * 2.8))])
def test_nodes_within_about_thirty_percent_are_equal_however_well_each_ones_calls_agree(
    b_s: float, limit: float
) -> None:
    ran: list[Ran] = [
        (node, s * n, s * n + s) for n in range(2) for node, s in [("a", 2.0), ("b", b_s)]
    ]
    report = job_report(a_job(ran, {"a": 1, "b": 1}), None, 9.0)
    assert report.limit == pytest.approx(limit)


def test_an_idle_node_counts_by_its_learned_speed() -> None:
    """A slow node that was rightly left idle makes the limit smaller than a typical one would."""
    job = a_job([("a", float(n), n + 1.0) for n in range(4)], {"a": 1, "idle": 1})
    for one in job.calls.values():
        one.usage = Usage(100, 0, 50)
    slow = {NodeId("idle"): Speed(100.0, 0.18, 0.0)}  # 10 s a call
    assert job_report(job, None, 9.0).limit == pytest.approx(2.0)
    report = job_report(job, None, 9.0, slow)
    assert report.limit == pytest.approx(1.0)
    assert report.fastest_alone_node == "a"
