from __future__ import annotations

import pytest

from pair.core.events import Opened
from pair.core.names import NodeId, TicketId
from pair.core.ticket import Ticket
from pair.errors import BookkeepingError
from tests.core.test_waiting_room import ticket


def test_a_pin_or_a_node_to_avoid_binds_a_ticket() -> None:
    assert ticket(1).anywhere
    assert not ticket(1, pin="a").anywhere
    avoiding = ticket(1)
    avoiding.avoided.add(NodeId("a"))
    assert not avoiding.anywhere


def test_only_a_light_ticket_needs_no_model() -> None:
    nameless = Ticket(Opened(TicketId(7), None, light=True), 1, 0.0)
    assert nameless.id == 7
    with pytest.raises(BookkeepingError, match="ticket 7 names no model and is not light"):
        _ = nameless.name
