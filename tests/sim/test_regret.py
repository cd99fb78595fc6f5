from __future__ import annotations

from pair.core.names import NodeId, Outcome
from pair.sim.machines import Machine
from pair.sim.place import CallRecord
from pair.sim.regret import Regret, regret_of
from pair.sim.workload import PlannedCall

FAST, SLOW = NodeId("fast"), NodeId("slow")
MACHINES = [Machine(FAST, 1, 1000.0, 50.0), Machine(SLOW, 1, 100.0, 5.0)]
CALL = PlannedCall(0.0, 100, 45)  # 1 s on the fast one, 10 s on the slow one


def record(
    node: NodeId | None,
    opened_s: float,
    granted_s: float | None,
    closed_s: float,
    outcome: Outcome = Outcome.ANSWERED,
) -> CallRecord:
    return CallRecord(
        CALL,
        opened_s=opened_s,
        node=node,
        attempts=1,
        granted_s=granted_s,
        closed_s=closed_s,
        outcome=outcome,
    )


def test_waiting_for_the_fast_one_is_regretted_from_where_the_slow_one_would_have_been_done() -> (
    None
):
    one_after_the_other = [record(FAST, 0.0, float(n), float(n + 1)) for n in range(12)]
    # The second to the tenth are as good as the slow one, which was free for all but the first.
    assert regret_of(one_after_the_other, MACHINES) == Regret(2, 1.5, 2.0)


def test_a_call_that_went_to_the_slow_one_while_the_fast_one_was_free() -> None:
    assert regret_of([record(SLOW, 5.0, 5.0, 15.0)], MACHINES) == Regret(1, 9.0, 9.0)


def test_a_slot_that_was_taken_a_moment_before_is_no_reason_for_regret() -> None:
    both = [record(FAST, 0.0, 0.0, 1.0), record(SLOW, 0.0, 0.0, 10.0)]
    assert regret_of(both, MACHINES) == Regret(0, 0.0, 0.0)
    other_way_round = [record(SLOW, 0.0, 0.0, 10.0), record(FAST, 0.0, 0.0, 1.0)]
    assert regret_of(other_way_round, MACHINES).calls == 1
    all_taken = [*both, record(FAST, 0.5, 30.0, 31.0)]
    assert regret_of(all_taken, MACHINES).calls == 0, "nothing was free: there was no choice"


def test_a_slot_is_free_in_the_instant_in_which_its_call_ends() -> None:
    follows = [record(FAST, 0.0, 0.0, 1.0), record(SLOW, 1.0, 1.0, 11.0)]
    assert regret_of(follows, MACHINES) == Regret(1, 9.0, 9.0)


def test_what_had_no_answer_or_did_not_fit_elsewhere_is_not_judged() -> None:
    failed = record(SLOW, 0.0, 0.0, 10.0, Outcome.FAILED)
    refused = record(None, 0.0, None, 50.0, Outcome.REFUSED)
    assert regret_of([failed, refused], MACHINES).calls == 0
    narrow = [Machine(FAST, 1, 1000.0, 50.0, context_tokens=100), MACHINES[1]]
    assert regret_of([record(SLOW, 0.0, 0.0, 10.0)], narrow).calls == 0


def test_with_several_slots_a_machine_is_free_until_the_last_is_taken() -> None:
    machines = [Machine(FAST, 2, 1000.0, 50.0), MACHINES[1]]
    two = [record(FAST, 0.0, 0.0, 1.0), record(FAST, 0.0, 0.0, 1.0)]
    assert regret_of([*two, record(SLOW, 0.0, 0.0, 10.0)], machines).calls == 0
    assert regret_of([*two[:1], record(SLOW, 0.0, 0.0, 10.0)], machines).calls == 1
