from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from pair.core.names import NodeId
from pair.core.prefix_index import PAGED_KINDS
from pair.core.reports import ReplicaState
from pair.sim.machines import MODEL, CacheKind, Machine, Mishap, fleet, random_incidents
from pair.sim.workload import PlannedCall

CALL = PlannedCall(0.0, prompt_tokens=200, output_tokens=90)


def test_times_follow_from_rates() -> None:
    machine = Machine(NodeId("a"), 2, 1000.0, 50.0)
    assert machine.prefill_s(CALL) == pytest.approx(0.2)
    assert machine.decode_s(CALL) == pytest.approx(1.8)
    assert machine.service_s(CALL) == pytest.approx(2.0)


def test_what_is_cached_need_not_be_read() -> None:
    machine = Machine(NodeId("a"), 2, 1000.0, 50.0)
    assert machine.prefill_s(CALL, 150) == pytest.approx(0.05)
    assert machine.service_s(CALL, 150) == pytest.approx(1.85)


def test_a_call_fits_with_its_answer_or_not_at_all() -> None:
    assert Machine(NodeId("a"), 1, 1000.0, 50.0).fits(CALL)
    assert Machine(NodeId("a"), 1, 1000.0, 50.0, context_tokens=290).fits(CALL)
    assert not Machine(NodeId("a"), 1, 1000.0, 50.0, context_tokens=289).fits(CALL)


def test_speeds_multiply_both_rates() -> None:
    fast, slow = fleet(
        [1.0, 0.5], slots=3, prefill_rate_tokens_per_s=1000.0, decode_rate_tokens_per_s=50.0
    )
    assert (fast.id, slow.id, slow.slots) == ("node-1", "node-2", 3)
    assert slow.service_s(CALL) == pytest.approx(2 * fast.service_s(CALL))


def test_a_machine_reports_as_a_node_with_pair_does() -> None:
    report = Machine(NodeId("a"), 2, 1000.0, 50.0).report(1)
    (replica,) = report.replicas
    assert (report.node, replica.model, replica.slots, replica.running) == ("a", MODEL, 2, 1)
    assert replica.state is ReplicaState.READY
    assert report.version, "a node without a version would be taken for a bare engine"
    assert report.process


def test_a_machine_says_what_it_keeps() -> None:
    slots = Machine(NodeId("a"), 2, 1.0, 1.0, cache_tokens=5000, context_tokens=4096)
    (replica,) = slots.report(0, resident=False).replicas
    assert (replica.cache_tokens, replica.context_tokens, replica.resident) == (5000, 4096, False)
    (paged,) = replace(slots, cache_kind=CacheKind.PAGED).report(0).replicas
    assert replica.engine_kind not in PAGED_KINDS
    assert paged.engine_kind in PAGED_KINDS


def test_a_bare_engine_counts_no_reports() -> None:
    report = Machine(NodeId("a"), 2, 1000.0, 50.0, version="").report(1, 1, number=7)
    assert (report.version, report.process, report.number) == ("", "", 0)
    assert report.replicas[0].yours is None


def test_what_is_more_than_its_slots_waits() -> None:
    (replica,) = Machine(NodeId("a"), 2, 1000.0, 50.0).report(5, 1).replicas
    assert (replica.running, replica.waiting, replica.yours) == (2, 3, 1)


def test_mishaps_are_in_order_and_end() -> None:
    machines = fleet(
        [1.0] * 3, slots=1, prefill_rate_tokens_per_s=1.0, decode_rate_tokens_per_s=1.0
    )
    incidents = random_incidents(machines, 60, 100.0, Random(1))
    times = [incident.at_s for incident in incidents]
    assert times == sorted(times)
    by_kind = {
        mishap: sum(incident.mishap is mishap for incident in incidents) for mishap in Mishap
    }
    assert by_kind[Mishap.DIES] == by_kind[Mishap.RETURNS] > 0
    assert by_kind[Mishap.SLOWS] == by_kind[Mishap.RECOVERS] > 0
    assert by_kind[Mishap.DIES] + by_kind[Mishap.SLOWS] + by_kind[Mishap.RESETS] == 60
    assert {incident.machine for incident in incidents} <= {machine.id for machine in machines}
