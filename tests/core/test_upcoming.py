from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pair.core.ledger import Lease
from pair.core.names import LeaseId, ModelName, TicketId
from pair.core.upcoming import OVERDUE_SHARE, Upcoming
from tests.core.test_ledger import a_replica

M, ALIAS = ModelName("m"), ModelName("alias")


def lease(number: int, granted_at: float = 0.0) -> Lease:
    return Lease(LeaseId(number), TicketId(number), a_replica("a"), granted_at, light=False)


def soonest(upcoming: Upcoming, name: ModelName, now: float = 0.0) -> list[tuple[float, int]]:
    return [(at, one.id) for at, one in upcoming.soonest(name, now)]


@given(st.lists(st.tuples(st.floats(0, 100), st.booleans()), max_size=20))
def test_what_is_expected_comes_in_order_until_it_is_settled(
    calls: list[tuple[float, bool]],
) -> None:
    upcoming = Upcoming()
    leases = [lease(number) for number in range(len(calls))]
    for one, (ends_at, _) in zip(leases, calls, strict=True):
        upcoming.expect(one, ends_at, (M, ALIAS))
    for one, (_, settled) in zip(leases, calls, strict=True):
        if settled:
            upcoming.settled(one)
    left = sorted((at, number) for number, (at, settled) in enumerate(calls) if not settled)
    assert soonest(upcoming, M) == soonest(upcoming, ALIAS) == left
    assert upcoming.count(M) == len(upcoming) == len(left)


def test_a_call_that_is_overdue_is_expected_later_the_longer_it_has_run() -> None:
    upcoming = Upcoming()
    upcoming.expect(lease(1, granted_at=10.0), 12.0, (M,))
    assert soonest(upcoming, M, now=11.0) == [(12.0, 1)]
    assert soonest(upcoming, M, now=20.0) == [(20.0 + OVERDUE_SHARE * 10.0, 1)]


def test_a_call_that_was_never_expected_may_be_settled() -> None:
    upcoming = Upcoming()
    upcoming.settled(lease(1))
    assert len(upcoming) == 0
