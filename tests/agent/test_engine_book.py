"""Choosing and reporting from memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pair.agent.admission import Admission
from pair.agent.engine_book import EngineBook
from pair.core.names import EngineName, ModelName
from pair.core.reports import ReplicaState
from tests.agent.face import local

ECHO = ModelName("echo")
ONE = EngineName("llamacpp:1")
TWO = EngineName("ollama:2")


class Shelf:
    """A book with two engines that both hold `echo`, two slots each."""

    def __init__(self) -> None:
        self.admission = Admission()
        self.book = EngineBook(self.admission)
        self.one = local(ONE, "http://127.0.0.1:1", "echo", slots=2)
        self.two = local(TWO, "http://127.0.0.1:2", "echo", "other", kind="ollama", slots=2)
        assert self.book.add(self.one)
        assert self.book.add(self.two)

    def best(self) -> EngineName:
        choice = self.book.with_model(ECHO)
        assert choice is not None
        return choice.engine.name

    def counts(self) -> list[tuple[int | None, int | None]]:
        return [(replica.running, replica.waiting) for replica in self.book.replicas()]


async def test_the_same_engine_is_not_taken_twice() -> None:
    shelf = Shelf()
    assert not shelf.book.add(local(ONE, "http://localhost:1", "echo"))
    assert list(shelf.book.engines) == [shelf.one, shelf.two]
    shelf.book.remove(shelf.one)
    assert list(shelf.book.engines) == [shelf.two]


async def test_a_proxys_choice_is_found_by_name_or_alias() -> None:
    shelf = Shelf()
    shelf.one.replicas = (
        replace(shelf.one.replicas[0], aliases=frozenset({ModelName("gpt-4o"), ModelName("b")})),
        replace(shelf.one.replicas[0], model=ModelName("b")),
    )
    for asked, model in (("echo", "echo"), ("gpt-4o", "echo"), ("b", "b")):
        choice = shelf.book.named(ONE, ModelName(asked))
        assert choice is not None
        assert choice.replica is not None
        assert (choice.engine, choice.replica.model) == (shelf.one, model)
    assert shelf.book.named(ONE, ModelName("none")) is None
    assert shelf.book.named(EngineName("none"), ECHO) is None
    bare = shelf.book.named(ONE, None)
    assert bare is not None
    assert bare.replica is None
    assert shelf.book.models() == ["b", "echo", "gpt-4o", "other"]


async def test_the_least_busy_replica_is_taken() -> None:
    shelf = Shelf()
    assert shelf.best() == ONE
    assert shelf.admission.admit((ONE, ECHO), 2) is not None
    assert shelf.best() == TWO
    shelf.two.foreign = {ECHO: 2}
    assert shelf.best() == ONE
    assert shelf.book.with_model(ModelName("none")) is None


async def test_one_that_can_take_a_request_comes_before_one_that_cannot() -> None:
    shelf = Shelf()
    shelf.one.replicas = (replace(shelf.one.replicas[0], state=ReplicaState.DOWN),)
    shelf.two.foreign = {ECHO: 9}
    assert shelf.best() == TWO
    shelf.book.remove(shelf.two)
    assert shelf.best() == ONE


async def test_a_request_without_a_model_means_the_only_one() -> None:
    shelf = Shelf()
    assert shelf.book.only_replica() is None
    shelf.book.remove(shelf.two)
    only = shelf.book.only_replica()
    assert only is not None
    assert only.engine is shelf.one


@pytest.mark.parametrize(
    ("path", "name"), [("/api/version", TWO), ("/v1/files", ONE), ("/props", ONE)]
)
async def test_a_request_about_no_model_goes_to_an_engine_that_knows_its_path(
    path: str, name: EngineName
) -> None:
    shelf = Shelf()
    choice = shelf.book.for_path(path)
    assert choice is not None
    assert (choice.engine.name, choice.replica) == (name, None)
    shelf.book.remove(choice.engine)
    other = shelf.book.for_path(path)
    assert other is not None
    shelf.book.remove(other.engine)
    assert shelf.book.for_path(path) is None


async def test_an_engine_that_does_not_answer_is_asked_last() -> None:
    shelf = Shelf()
    shelf.one.fault = "It does not answer."
    choice = shelf.book.for_path("/v1/files")
    assert choice is not None
    assert choice.engine is shelf.two


async def test_the_report_counts_ours_as_of_now_and_foreign_work_as_last_seen() -> None:
    shelf = Shelf()
    shelf.book.remove(shelf.two)
    assert shelf.counts() == [(0, None)]
    admitted = shelf.admission.admit((ONE, ECHO), 2)
    assert admitted is not None
    shelf.one.foreign = {ECHO: 1}
    assert shelf.counts() == [(2, None)]
    shelf.admission.settle(admitted)
    assert shelf.counts() == [(1, None)]


async def test_what_is_beyond_the_slots_waits_where_the_engine_tells_that_apart() -> None:
    shelf = Shelf()
    shelf.book.remove(shelf.two)
    shelf.one.replicas = (replace(shelf.one.replicas[0], waiting=0),)
    shelf.one.foreign = {ECHO: 5}
    assert shelf.counts() == [(2, 3)]


async def test_warnings_are_faults_and_what_engines_say_of_themselves() -> None:
    shelf = Shelf()
    assert shelf.book.warnings() == ()
    shelf.one.fault = "It does not answer."
    shelf.two.warnings = ("It is slow.",)
    assert shelf.book.warnings() == ("It does not answer.", "It is slow.")


async def test_an_engine_may_live_below_a_path() -> None:
    assert local("generic:1", "http://127.0.0.1:1/openai/", "a").path == b"/openai"
    assert local("generic:1", "http://127.0.0.1", "a").pool.authority == b"127.0.0.1:80"
