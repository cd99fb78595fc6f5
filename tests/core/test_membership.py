from __future__ import annotations

import pytest

from pair.core.events import NodeSighted, ProbeMissed
from pair.core.membership import Membership, Node
from pair.core.names import NodeId, Phase
from pair.core.reports import ReplicaState
from tests.core.house import replica, report
from tests.core.limits import limits

A = NodeId("a")
LIMITS = limits(misses_until_lost=3, misses_until_lost_in_use=5, nodes_limit=3, forget_s=100.0)


def sighted(
    node: str = "a", *urls: str, fixed: bool = False, name: str | None = None
) -> NodeSighted:
    return NodeSighted(NodeId(node), name or node, urls or (f"http://{node}",), fixed)


def missed(*, connected: bool = False, last_byte_at: float | None = None) -> ProbeMissed:
    return ProbeMissed(A, connected, last_byte_at, "no route")


@pytest.fixture
def table() -> Membership:
    return Membership(LIMITS)


@pytest.fixture
def node(table: Membership) -> Node:
    """One that is sighted and has reported."""
    node = table.sight(sighted(), 0.0)
    table.report(node, report("a"), 0.0)
    return node


def test_a_sighting_is_not_membership(table: Membership) -> None:
    node = table.sight(sighted(), 1.0)
    assert (node.phase, node.phase_since, node.answered_at) == (Phase.SIGHTED, 1.0, None)
    changed = table.report(node, report("a", name="Anna's PC"), 2.0)
    assert (node.phase, node.phase_since, node.answered_at) == (Phase.READY, 2.0, 2.0)
    assert node.name == "Anna's PC"
    assert [one.node_name for one in changed] == ["Anna's PC"]
    table.sight(sighted(name="a record's name"), 3.0)
    assert node.name == "Anna's PC", "its own word counts"


@pytest.mark.parametrize(
    ("states", "draining", "phase"),
    [
        ([ReplicaState.READY], False, Phase.READY),
        ([ReplicaState.LOADING], False, Phase.LOADING),
        ([ReplicaState.LOADING, ReplicaState.READY], False, Phase.READY),
        ([ReplicaState.DOWN], False, Phase.READY),
        ([ReplicaState.READY], True, Phase.DRAINING),
        ([ReplicaState.LOADING], True, Phase.DRAINING),
    ],
)
def test_the_phase_by_the_report(
    table: Membership, states: list[ReplicaState], draining: bool, phase: Phase
) -> None:
    node = table.sight(sighted(), 0.0)
    replicas = [replica(f"m{index}", state=state) for index, state in enumerate(states)]
    table.report(node, report("a", *replicas, draining=draining), 1.0)
    assert node.phase is phase


def test_what_the_user_wants_drained_stays_so(table: Membership, node: Node) -> None:
    node.drain_asked = True
    table.report(node, report("a"), 1.0)
    assert node.phase is Phase.DRAINING


def test_a_report_says_what_changed(table: Membership, node: Node) -> None:
    assert table.report(node, report("a"), 1.0) == []
    assert table.report(node, report("a", replica(running=1)), 1.0) == [], "a count is no change"
    (renamed,) = table.report(node, report("a", replica(aliases=("x",))), 2.0)
    (resized,) = table.report(node, report("a", replica(aliases=("x",), slots=2)), 3.0)
    assert renamed is resized
    two = table.report(node, report("a", replica("other")), 4.0)
    assert [(one.id.model, one.listed) for one in two] == [("other", True), ("m", False)]
    assert [one.id.model for one in node.replicas.values()] == ["other"]


def test_a_replica_with_leases_outlives_its_listing(table: Membership, node: Node) -> None:
    (one,) = node.replicas.values()
    one.in_flight = 1
    table.report(node, report("a", replica("other")), 1.0)
    assert one in node.replicas.values()
    assert table.report(node, report("a", replica("other")), 2.0) == [], "said once"
    assert table.report(node, report("a", replica(), replica("other")), 3.0) == [one]
    one.in_flight = 0
    table.report(node, report("a", replica("other")), 4.0)
    assert one not in node.replicas.values()


def test_an_idle_node_is_suspect_at_once_and_lost_after_three(
    table: Membership, node: Node
) -> None:
    phases = []
    for now in (1.0, 2.0, 3.0):
        table.miss(node, missed(connected=True), now, in_use=False)
        phases.append(node.phase)
    assert phases == [Phase.SUSPECT, Phase.SUSPECT, Phase.LOST]
    assert node.reason == "missed 3 probes: no route"
    table.report(node, report("a"), 4.0)
    assert (node.phase, node.misses, node.unreachable) == (Phase.READY, 0, 0)


def test_slow_probes_alone_never_lose_an_engine_that_works_for_us(
    table: Membership, node: Node
) -> None:
    table.report(node, report("a", version=""), 0.0)
    phases = []
    for now in range(55):
        table.ask(node, now - 0.9, in_use=True)
        assert node.probe_limit_s == LIMITS.probe_limit_s
        table.miss(node, missed(connected=now < 50), float(now), in_use=True)
        phases.append(node.phase)
    assert phases == [Phase.READY] * 50 + [Phase.SUSPECT] * 4 + [Phase.LOST]


def test_a_node_with_pair_that_works_for_us_is_lost_by_the_time_of_its_silence(
    table: Membership, node: Node
) -> None:
    waited_s = 0.0
    for patience in range(1, 9):
        sent_at = 100.0 * patience
        table.ask(node, sent_at, in_use=True)
        assert node.probe_limit_s == patience * LIMITS.probe_limit_s
        table.miss(node, missed(connected=True), sent_at + node.probe_limit_s, in_use=True)
        waited_s += node.probe_limit_s
        if node.phase is Phase.LOST:
            break
    assert waited_s >= LIMITS.silence_limit_s > waited_s - node.probe_limit_s
    assert node.misses < LIMITS.misses_until_lost_in_use


def test_quick_misses_are_no_silence(table: Membership, node: Node) -> None:
    for now in range(100):
        table.ask(node, float(now), in_use=True)
        table.miss(node, missed(connected=True), now + 0.01, in_use=True)
    assert node.phase is Phase.SUSPECT


def test_a_bare_engine_that_computes_may_be_silent(table: Membership, node: Node) -> None:
    table.report(node, report("a", version=""), 1.0)
    phases = []
    for connected in (True, False):
        table.miss(node, missed(connected=connected), 2.0, in_use=True)
        phases.append(node.phase)
    assert phases == [Phase.READY, Phase.SUSPECT]


def test_live_bytes_count_as_an_answer(table: Membership, node: Node) -> None:
    node.probe_sent_at = 10.0
    table.miss(node, missed(last_byte_at=10.5), 11.5, in_use=True)
    assert (node.phase, node.misses) == (Phase.READY, 0)
    node.probe_sent_at = 20.0
    table.miss(node, missed(last_byte_at=10.5), 21.5, in_use=True)
    assert (node.phase, node.misses) == (Phase.SUSPECT, 1)


def test_silence_makes_foreign_work_unknown(table: Membership, node: Node) -> None:
    table.report(node, report("a", replica(running=1)), 1.0)
    (one,) = node.replicas.values()
    assert one.foreign == 1
    table.miss(node, missed(), 2.0, in_use=False)
    assert one.foreign == 0


def test_after_a_goodbye_the_first_missed_probe_decides(table: Membership, node: Node) -> None:
    node.withdrawn = True
    table.miss(node, missed(connected=True), 1.0, in_use=False)
    assert (node.phase, node.reason) == (Phase.LOST, "missed a probe: no route")
    assert table.forgettable(node, 1.0)


def test_a_goodbye_that_an_answer_followed_is_forgiven(table: Membership, node: Node) -> None:
    node.withdrawn = True
    table.report(node, report("a"), 1.0)
    table.miss(node, missed(), 2.0, in_use=False)
    assert node.phase is Phase.SUSPECT


def test_probes_hurry_where_there_is_doubt(table: Membership, node: Node) -> None:
    assert table.probe_interval_s(node, 0.0) == LIMITS.probe_interval_s
    table.miss(node, missed(), 1.0, in_use=False)
    assert table.probe_interval_s(node, 0.0) == LIMITS.suspect_interval_s
    node.enter(Phase.LOST, "gone", 2.0)
    assert table.probe_interval_s(node, 0.0) == LIMITS.lost_interval_s


def test_lost_nodes_are_forgotten_after_a_while_unless_the_user_named_them(
    table: Membership, node: Node
) -> None:
    assert not table.forgettable(node, 1e9)
    node.enter(Phase.LOST, "gone", 10.0)
    assert not table.forgettable(node, 109.0)
    assert table.forgettable(node, 110.0)
    node.probe_sent_at = 109.0
    assert not table.forgettable(node, 110.0), "it is just being asked"
    node.probe_sent_at = None
    table.sight(sighted(fixed=True), 110.0)
    assert not table.forgettable(node, 1e9)


def test_a_full_table_gives_up_strangers_first(table: Membership, node: Node) -> None:
    assert table.least_entitled() is None
    for number in (1, 2):
        table.sight(sighted(f"stranger-{number}"), float(number))
    assert table.full
    oldest = table.least_entitled()
    assert oldest is not None
    assert oldest.id == "stranger-1"
    oldest.probe_sent_at = 3.0
    other = table.least_entitled()
    assert other is not None
    assert other.id == "stranger-2"
    table.sight(sighted("stranger-2", fixed=True), 4.0)
    assert table.least_entitled() is None


def test_addresses_follow_the_record_and_the_user_s_own_stay(table: Membership) -> None:
    node = table.sight(sighted("a", "http://10.0.0.1"), 0.0)
    for number in range(2, 50):
        table.sight(sighted("a", f"http://10.0.0.{number}"), 1.0)
    assert list(node.addresses) == ["http://10.0.0.49"]
    table.sight(sighted("a", "http://box.lan", fixed=True), 2.0)
    table.sight(sighted("a", "http://10.0.0.50"), 3.0)
    assert list(node.addresses) == ["http://10.0.0.50", "http://box.lan"]
    assert node.fixed


def test_a_node_is_meant_by_id_or_by_a_name_that_only_one_has(
    table: Membership, node: Node
) -> None:
    table.sight(sighted("b", name="box"), 0.0)
    assert table.named("a") is node
    found = table.named("box")
    assert found is not None
    assert found.id == "b"
    table.sight(sighted("c", name="box"), 0.0)
    assert table.named("box") is None
    assert table.named("nobody") is None


def test_a_report_that_a_newer_one_has_overtaken_says_no_more_than_that_it_lives(
    table: Membership, node: Node
) -> None:
    table.report(node, report("a", process="p", number=7), 1.0)
    (one,) = node.replicas.values()
    table.ask(node, 2.0, in_use=False)
    assert table.push(node, report("a", replica(running=1), process="p", number=9), 2.1) == []
    assert one.foreign == 1
    table.miss(node, missed(), 3.5, in_use=False)
    table.ask(node, 4.0, in_use=False)
    assert table.report(node, report("a", draining=True, process="p", number=8), 4.1) == []
    assert (node.phase, node.misses, node.answered_at) == (Phase.READY, 0, 4.1)
    assert one.report.running == 1
    assert table.push(node, report("a", process="p", number=8), 4.2) is None
    table.report(node, report("a", process="q", number=1), 5.0)
    assert one.foreign == 0, "a process that has started anew counts from the beginning"
    assert table.push(node, report("a", replica(running=1), process="p", number=10), 5.1) is None


def test_a_push_brings_no_node_back(table: Membership) -> None:
    node = table.sight(sighted(), 0.0)
    assert table.push(node, report("a"), 0.1) is None, "of an address that has not answered yet"
    table.report(node, report("a"), 0.2)
    table.miss(node, missed(), 1.0, in_use=False)
    assert node.phase is Phase.SUSPECT
    assert table.push(node, report("a"), 1.1) is None
    assert (node.phase, node.misses) == (Phase.SUSPECT, 1)


def test_a_push_leaves_the_books_of_probes_alone(table: Membership, node: Node) -> None:
    table.ask(node, 2.0, in_use=False)
    assert table.push(node, report("a", replica("new"), name="other"), 2.1) is not None
    assert (node.probe_sent_at, node.answered_at, node.name) == (2.0, 0.0, "other")
