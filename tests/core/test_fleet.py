from __future__ import annotations

import pytest

from pair.core.fleet import Fleet
from pair.core.membership import Node
from pair.core.names import NO_NAME, ModelName, NodeId, Phase, ReplicaId
from pair.core.replica import Replica
from pair.core.reports import ReplicaReport, ReplicaState
from tests.core.house import replica

M, ALIAS = ModelName("m"), ModelName("m:7b")


class Houses:
    """Nodes and the fleet's index over them, without a scheduler."""

    def __init__(self) -> None:
        self.nodes: dict[NodeId, Node] = {}
        self.fleet = Fleet(self.nodes)
        self.replicas: list[Replica] = []

    def add(self, name: str, *said: ReplicaReport) -> Node:
        node = Node(NodeId(name), name, Phase.READY, 0.0, "", 0.0)
        self.nodes[node.id] = node
        for word in said:
            one = Replica(ReplicaId(node.id, word.engine, word.model), name, word)
            node.replicas[word.engine, word.model] = one
            self.replicas.append(one)
            self.fleet.index(one)
            self.fleet.refresh(one, 0.0)
        return node


def test_replicas_are_found_by_every_name() -> None:
    houses = Houses()
    houses.add("a", replica(aliases=("m:7b",)))
    houses.add("b", replica())
    fleet, (a, b) = houses.fleet, houses.replicas
    assert list(fleet.holders(M)) == [a, b]
    assert list(fleet.holders(ALIAS)) == [a]
    assert list(fleet.holders(None)) == [a, b]
    assert list(fleet.holders(ModelName("x"))) == []
    assert set(fleet.names()) == {M, ALIAS}
    assert fleet.names_of(a) == (M, ALIAS)


def test_names_that_change_are_followed() -> None:
    houses = Houses()
    houses.add("a", replica(aliases=("m:7b",)))
    (a,) = houses.replicas
    version = houses.fleet.version
    a.report = replica(aliases=("other",))
    houses.fleet.index(a)
    houses.fleet.refresh(a, 0.0)
    assert houses.fleet.names() == (M, ModelName("other"))
    assert list(houses.fleet.free(ALIAS)) == []
    assert list(houses.fleet.free(ModelName("other"))) == [a]
    assert houses.fleet.version > version


@pytest.mark.parametrize("gone", ["unlisted", "forgotten"])
def test_who_is_gone_is_found_no_more(gone: str) -> None:
    houses = Houses()
    houses.add("a", replica())
    (a,) = houses.replicas
    if gone == "unlisted":
        a.listed = False
    else:
        del houses.nodes[NodeId("a")]
    houses.fleet.index(a)
    version = houses.fleet.version
    assert not houses.fleet.refresh(a, 0.0)
    assert houses.fleet.version == version, "it was forgotten with the index"
    assert not houses.fleet.ready(a)
    assert not houses.fleet.hopeful(a)
    assert not houses.fleet.at_hand(a)
    assert houses.fleet.names() == ()
    assert not houses.fleet.any_hope(M)


def test_only_those_with_a_free_slot_are_free() -> None:
    houses = Houses()
    node = houses.add("a", replica())
    fleet, (a,) = houses.fleet, houses.replicas
    assert list(fleet.free(M)) == [a]
    for count, taken, free in (
        ("in_flight", 1, 0),
        ("foreign", 1, 0),
        ("set_aside_until", 5.1, 5.0),
    ):
        setattr(a, count, taken)
        assert not fleet.refresh(a, 5.0), count
        assert list(fleet.free(M)) == []
        setattr(a, count, free)
        assert fleet.refresh(a, 5.0), count
    node.enter(Phase.SUSPECT, "", 5.0)
    assert not fleet.refresh(a, 5.0)


def test_the_version_moves_when_somebody_becomes_ready_or_ceases_to_be() -> None:
    houses = Houses()
    node = houses.add("a", replica())
    fleet, (a,) = houses.fleet, houses.replicas
    for phase, moves in (
        (Phase.READY, False),
        (Phase.LOADING, True),
        (Phase.LOST, False),
        (Phase.READY, True),
    ):
        version = fleet.version
        node.enter(phase, "", 0.0)
        fleet.refresh(a, 0.0)
        fleet.refresh(a, 0.0)
        assert (fleet.version != version) == moves, phase
    version, a.in_flight = fleet.version, 1
    fleet.refresh(a, 0.0)
    assert fleet.version == version, "busy is still ready"


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("state", ReplicaState)
def test_hope(phase: Phase, state: ReplicaState) -> None:
    houses = Houses()
    houses.add("a", replica(state=state)).enter(phase, "", 0.0)
    (a,) = houses.replicas
    on_its_way = state is not ReplicaState.DOWN
    there = phase in (Phase.READY, Phase.LOADING, Phase.SUSPECT)
    assert houses.fleet.hopeful(a) == houses.fleet.any_hope(M) == (on_its_way and there)
    up = state in (ReplicaState.READY, ReplicaState.NEEDS_KEY)
    assert houses.fleet.ready(a) == (up and phase is Phase.READY)


def test_any_name_means_the_only_model_where_every_engine_takes_any() -> None:
    houses = Houses()
    x, meant = ModelName("x"), houses.fleet.meant
    assert (meant(x), meant(NO_NAME)) == (x, NO_NAME)
    houses.add("a", replica(any_name=True, aliases=("m:7b",)))
    houses.add("b", replica(any_name=True))
    assert (meant(x), meant(NO_NAME), meant(M), meant(ALIAS)) == (M, M, M, ALIAS)
    houses.add("c", replica())
    assert (meant(x), meant(NO_NAME), meant(M)) == (x, NO_NAME, M)


def test_any_name_means_nothing_where_there_are_two_models() -> None:
    houses = Houses()
    houses.add("a", replica(any_name=True))
    houses.add("b", replica("other", any_name=True))
    assert houses.fleet.meant(ModelName("x")) == "x"


def test_an_engine_that_says_it_has_no_models_may_still_be_asked_something() -> None:
    houses = Houses()
    bare = houses.add("tools")
    bare.prompt = False
    houses.add("a `pair` node without an engine")
    complaining = houses.add("loading")
    complaining.prompt, complaining.warnings = False, ("it is loading its model",)
    assert [one.id.node for one in houses.fleet.without_models()] == ["tools"]
    bare.phase = Phase.SUSPECT
    assert houses.fleet.without_models() == []


def test_who_wants_a_key_counts_only_where_nobody_else_holds_the_model() -> None:
    houses = Houses()
    houses.add("a", replica(state=ReplicaState.NEEDS_KEY, aliases=("m:7b",)))
    houses.add("b", replica())
    fleet, (a, b) = houses.fleet, houses.replicas
    assert (list(fleet.holders(M)), list(fleet.free(M))) == ([b], [b])
    assert (list(fleet.holders(ALIAS)), list(fleet.free(ALIAS))) == ([a], [a])
    assert (list(fleet.holders(None)), list(fleet.concerned(M))) == ([b], [b, a])
    assert (fleet.locked(M), fleet.locked(ALIAS), fleet.locked(ModelName("x"))) == (0, 1, 0)
    b.report = replica(state=ReplicaState.NEEDS_KEY)
    fleet.refresh(b, 0.0)
    assert fleet.locked(M)
    assert list(fleet.holders(M)) == list(fleet.free(M)) == list(fleet.holders(None)) == [a, b]
    a.report = replica(state=ReplicaState.DOWN)
    fleet.refresh(a, 0.0)
    assert (list(fleet.holders(M)), list(fleet.free(M)), fleet.locked(M)) == ([a], [], False)
