"""Where a prompt is warm, over many replicas and under one bound."""

from __future__ import annotations

import time

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pair.core.prefix_index import PrefixIndex
from pair.core.prompt import NO_PROMPT, Prompt
from tests.core.prompts import BLOCK, a_replica, prompt, talk


def test_a_prompt_is_warm_where_its_beginning_was_read() -> None:
    index, here, there = PrefixIndex(1000), a_replica("here"), a_replica("there")
    assert index.cached_chars(here, talk("a", 2)) == 0
    index.prefilled(here, talk("a", 1), 1.0)
    assert index.cached_chars(here, talk("a", 2)) == talk("a", 1).chars
    assert index.cached_chars(there, talk("a", 2)) == 0


def test_kinds_of_engines_differ() -> None:
    """Two calls at once: a slot is of use to one, a block to all."""
    for kind, cached in (("llamacpp", 0), ("generic", 0), ("vllm", 2), ("sglang", 2)):
        index, replica = PrefixIndex(1000), a_replica(kind=kind, slots=4, ours=1)
        index.prefilled(replica, prompt(1, 2, "a"), 1.0)
        assert index.cached_chars(replica, prompt(1, 2, "b")) == cached * BLOCK
        index.released(replica, prompt(1, 2, "a"), 2.0)
        replica.in_flight = 0
        assert index.cached_chars(replica, prompt(1, 2, "b")) == 2 * BLOCK


def test_what_cannot_be_read_is_held_by_nobody_and_takes_a_slot_all_the_same() -> None:
    index, replica = PrefixIndex(1000), a_replica()
    index.prefilled(replica, talk("a", 1), 1.0)
    for unknown in (NO_PROMPT, Prompt(5000)):
        index.corrected(replica, unknown, 77, 1.0)
        assert index.cached_chars(replica, unknown) == 0
    index.prefilled(replica, Prompt(5000), 2.0)
    assert index.cached_chars(replica, talk("a", 1)) == 0


def test_a_correction_is_about_one_replica() -> None:
    index, here, there = PrefixIndex(1000), a_replica("here", ours=1), a_replica("there", ours=1)
    for replica in (here, there):
        index.prefilled(replica, talk("a", 2), 1.0)
        index.released(replica, talk("a", 2), 1.0)
    for name in "ab":  # the second is what `here` had read just before it was started anew
        index.prefilled(here, talk(name, 3), 2.0)
        index.corrected(here, talk(name, 3), 0, 2.0)
        index.released(here, talk(name, 3), 2.0)
    assert index.cached_chars(there, talk("a", 3)) == talk("a", 2).chars


def test_what_was_used_longest_ago_goes_first_whoever_holds_it() -> None:
    """I7: and no more than is needed."""
    index = PrefixIndex(100)
    replicas = [a_replica("a", slots=4), a_replica("b", kind="vllm"), a_replica("c", slots=4)]
    for at in range(12):
        index.prefilled(replicas[at % 3], talk(at, 1), float(at))
    assert 80 < len(index) <= 100
    warm = [at for at in range(12) if index.cached_chars(replicas[at % 3], talk(at, 1))]
    assert warm == list(range(12))[-len(warm) :]
    assert len(warm) >= 9


class Anything(RuleBasedStateMachine):
    """Any calls in any order, in a house whose engines differ."""

    def __init__(self) -> None:
        super().__init__()
        self.index = PrefixIndex(60)
        self.replicas = [
            a_replica("a"),
            a_replica("b", slots=3, cache_chars=20 * BLOCK),
            a_replica("c", kind="vllm", slots=8, cache_chars=30 * BLOCK),
            a_replica("d", kind="sglang"),
        ]
        self.now = 0.0

    places = st.integers(0, 3)
    prompts = st.lists(st.integers(0, 2), max_size=12).map(lambda path: prompt(*path, more=9))

    @rule(place=places, asked=prompts, calls=st.integers(0, 4))
    def read(self, place: int, asked: Prompt, calls: int) -> None:
        self.now += 1.0
        replica = self.replicas[place]
        replica.in_flight = min(calls, replica.report.slots)
        self.index.prefilled(replica, asked, self.now)

    @rule(place=places, asked=prompts)
    def ends(self, place: int, asked: Prompt) -> None:
        self.index.released(self.replicas[place], asked, self.now)

    @rule(place=places, asked=prompts, said=st.integers(0, 5000))
    def corrects(self, place: int, asked: Prompt, said: int) -> None:
        self.index.corrected(self.replicas[place], asked, said, self.now)

    @rule(place=places, asked=prompts)
    def asks(self, place: int, asked: Prompt) -> None:
        replica = self.replicas[place]
        cached = self.index.cached_chars(replica, asked)
        assert 0 <= cached <= asked.chars
        evicted = self.index.evicted(replica, asked, self.now)
        assert evicted is None or (evicted.chars > 0 and evicted.idle_s >= 0)

    @invariant()
    def is_bounded(self) -> None:
        assert 0 <= len(self.index) <= 60, "I7"


TestAnything = Anything.TestCase
TestAnything.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30)), max_size=30))
def test_the_same_calls_leave_the_same_answers(calls: list[tuple[int, int]]) -> None:
    """I8."""
    answers = []
    for _ in range(2):
        index = PrefixIndex(80)
        replicas = [a_replica(f"n{at}", slots=2) for at in range(4)]
        for now, (place, name) in enumerate(calls):
            index.prefilled(replicas[place], prompt("system", name % 5, name), float(now))
        asked = [prompt("system", name % 5, name) for name in range(30)]
        answers.append([[index.cached_chars(one, each) for one in replicas] for each in asked])
    assert answers[0] == answers[1]


def test_a_question_does_not_walk_over_the_house() -> None:
    """Times of one replica and of a thousand, which all hold the system prompt."""
    took = []
    for replicas in (10, 1000):
        index = PrefixIndex(10**6)
        house = [a_replica(f"n{at}") for at in range(replicas)]
        system = [("system", at) for at in range(24)]
        for at, replica in enumerate(house):
            index.prefilled(replica, prompt(*system, *((at, turn) for turn in range(60))), 1.0)
        asked = prompt(*system, *((3, turn) for turn in range(80)))
        best = float("inf")
        for _ in range(20):
            began = time.perf_counter()
            for _ in range(20):
                index.cached_chars(house[3], asked)
            best = min(best, time.perf_counter() - began)
        took.append(best)
    assert took[1] < 20 * took[0]
