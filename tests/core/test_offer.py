from __future__ import annotations

from pair.core.offer import Offer
from tests.core.test_ledger import a_replica


def test_a_call_ends_when_its_slot_is_free_and_all_its_parts_are_done() -> None:
    offer = Offer(a_replica("a"), 10.0, 1.0, 2.0, 4.0, 2.0, 50.0, 100.0)
    assert (offer.service_s, offer.finish_at) == (7.0, 17.0)
