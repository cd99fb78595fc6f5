from __future__ import annotations

import pytest

from pair.core.eligibility import allowed, has_fresh, pin_holds, ready_for_light, surest
from pair.core.events import Opened
from pair.core.fleet import Fleet
from pair.core.names import ModelName, NodeId, Phase, TicketId
from pair.core.replica import Replica
from pair.core.reports import ReplicaState
from pair.core.ticket import Ticket
from tests.core.house import replica
from tests.core.test_fleet import Houses, M
from tests.core.test_waiting_room import ticket

A, B = NodeId("a"), NodeId("b")


@pytest.fixture
def house() -> Houses:
    houses = Houses()
    for node in "abc":
        houses.add(node, replica())
    return houses


def names(replicas: object) -> list[str]:
    assert isinstance(replicas, list | tuple)
    return [one.id.node for one in replicas if isinstance(one, Replica)]


def test_a_free_ticket_may_go_anywhere(house: Houses) -> None:
    assert allowed(ticket(1), house.replicas, house.fleet) is house.replicas


def test_a_pinned_one_may_go_to_its_node_only(house: Houses) -> None:
    pinned = ticket(1, pin="b")
    assert names(allowed(pinned, house.replicas, house.fleet)) == ["b"]
    pinned.avoided.add(B)
    assert names(allowed(pinned, house.replicas, house.fleet)) == ["b"], "nothing else may serve it"


def test_a_node_that_has_failed_it_is_avoided_while_another_is_at_hand(house: Houses) -> None:
    failed = ticket(1)
    failed.avoided.update((A, B))
    assert names(allowed(failed, house.replicas, house.fleet)) == ["c"]
    # c is busy, but it is there: wait for it.
    assert names(allowed(failed, house.replicas[:2], house.fleet)) == []
    house.nodes[NodeId("c")].enter(Phase.LOST, "gone", 0.0)
    assert not has_fresh(failed, house.fleet)
    assert names(allowed(failed, house.replicas[:2], house.fleet)) == ["a", "b"]


@pytest.mark.parametrize(
    ("phase", "state", "fresh"),
    [
        (Phase.READY, ReplicaState.READY, True),
        (Phase.SUSPECT, ReplicaState.READY, True),
        (Phase.LOADING, ReplicaState.LOADING, False),
        (Phase.READY, ReplicaState.LOADING, False),
        (Phase.READY, ReplicaState.DOWN, False),
        (Phase.DRAINING, ReplicaState.READY, False),
        (Phase.LOST, ReplicaState.READY, False),
    ],
)
def test_who_is_at_hand(phase: Phase, state: ReplicaState, fresh: bool) -> None:
    houses = Houses()
    houses.add("a", replica(state=state))
    houses.nodes[A].enter(phase, "", 0.0)
    assert has_fresh(ticket(1), houses.fleet) == fresh


def test_who_missed_the_latest_probe_is_the_last_choice(house: Houses) -> None:
    assert names(surest(house.replicas, house.fleet)) == ["a", "b", "c"]
    house.nodes[A].misses = house.nodes[B].misses = 1
    assert names(surest(house.replicas, house.fleet)) == ["c"]
    assert names(surest(house.replicas[:2], house.fleet)) == ["a", "b"], "better than none"


def test_a_light_ticket_asks_no_node_twice(house: Houses) -> None:
    light = ticket(1)
    assert names(ready_for_light(light, house.fleet)) == ["a", "b", "c"]
    light.avoided.add(A)
    house.nodes[B].enter(Phase.SUSPECT, "", 0.0)
    assert names(ready_for_light(light, house.fleet)) == ["c"]
    assert names(ready_for_light(ticket(1, ModelName("other")), house.fleet)) == []


def test_a_pin_holds_while_its_node_may_serve_the_model() -> None:
    houses = Houses()
    node = houses.add("a", replica(state=ReplicaState.LOADING))
    fleet: Fleet = houses.fleet
    assert pin_holds(node, ModelName("m"), fleet)
    assert not pin_holds(node, ModelName("other"), fleet)
    assert pin_holds(node, None, fleet)
    node.enter(Phase.SUSPECT, "", 0.0)
    assert pin_holds(node, ModelName("m"), fleet)
    assert not pin_holds(node, None, fleet)
    node.enter(Phase.LOST, "", 0.0)
    assert not pin_holds(node, ModelName("m"), fleet)


def test_a_light_ticket_for_no_model_may_go_to_an_engine_that_has_none() -> None:
    houses = Houses()
    houses.add("tools").prompt = False
    any_model, this_model = light(), light(M)
    assert names(ready_for_light(any_model, houses.fleet)) == ["tools"]
    assert ready_for_light(this_model, houses.fleet) == []
    any_model.avoided.add(NodeId("tools"))
    assert ready_for_light(any_model, houses.fleet) == []
    houses.add("a", replica())
    assert names(ready_for_light(light(), houses.fleet)) == ["a"]


def light(model: ModelName | None = None) -> Ticket:
    return Ticket(Opened(TicketId(1), model, light=True), 1, 0.0)
