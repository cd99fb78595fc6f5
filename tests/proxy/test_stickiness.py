"""The memory from ids to nodes."""

from __future__ import annotations

from pair.core.names import NodeId
from pair.proxy.stickiness import Learner, Stickiness

A, B = NodeId("a"), NodeId("b")


def test_it_remembers_the_last_word_and_forgets_what_is_least_used() -> None:
    memory = Stickiness(2)
    memory.learn("x", A)
    memory.learn("y", A)
    memory.learn("x", B)
    memory.learn("y", B)
    assert memory.node_of(("x",)) == ("x", B)
    memory.learn("z", A)
    assert len(memory) == 2
    assert memory.node_of(("y",)) is None
    assert memory.node_of(("y", "z", "x")) == ("z", A)


def test_a_success_teaches_what_was_named_and_what_was_made() -> None:
    memory = Stickiness(9)
    learner = Learner(memory, A, ("conv",), makes=True)
    assert learner.answered(200)
    assert learner.feed(b'{"id"')
    assert not learner.feed(b':"resp"}')
    assert memory.node_of(("conv",)) == ("conv", A)
    assert memory.node_of(("resp",)) == ("resp", A)


def test_a_refusal_teaches_nothing() -> None:
    memory = Stickiness(9)
    assert not Learner(memory, A, ("conv",), makes=True).answered(404)
    assert len(memory) == 0


def test_where_nothing_is_made_the_body_is_not_looked_at() -> None:
    learner = Learner(Stickiness(9), A, ("conv",), makes=False)
    assert not learner.answered(200)
    assert not learner.feed(b'{"id":"x"}')
