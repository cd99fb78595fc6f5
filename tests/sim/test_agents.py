from __future__ import annotations

from random import Random
from statistics import mean

import pytest

from pair.sim.agents import conversations, in_other_words, meeting_jobs, wave, with_system_prompt
from pair.sim.machine_cache import ideal_cached_tokens
from pair.sim.text import shared_tokens, tokens_of
from pair.sim.workload import Lengths, burst

EQUAL = Lengths(200, 90)
DRAWN = Lengths(200, 90, spread=0.5)


def test_a_wave_shares_its_system_prompt_and_nothing_else() -> None:
    calls = wave(12, 1500, EQUAL, Random(1))
    assert {call.prompt_tokens for call in calls} == {1700}
    assert {shared_tokens(one.text, calls[0].text) for one in calls[1:]} == {1500}
    assert (len({call.session for call in calls}), len({call.flow for call in calls})) == (12, 1)
    assert ideal_cached_tokens(calls) == [0] + [1500] * 11


def test_a_conversation_goes_on_from_its_own_answers() -> None:
    calls = conversations(
        10, 4, system_tokens=100, turn=DRAWN, every_s=3.0, think_s=5.0, random=Random(2)
    )
    assert [call.at_s for call in calls] == [0.0] * 4 + [3.0] * 4 + [6.0] * 2
    assert [call.follows for call in calls] == [None, 0, 1, 2, None, 4, 5, 6, None, 8]
    for call in calls:
        if call.follows is None:
            assert call.after_s == 0.0
            continue
        before = calls[call.follows]
        assert (call.session, call.flow) == (before.session, before.flow)
        shared = shared_tokens(call.text, before.text)
        assert shared == before.prompt_tokens
        assert call.prompt_tokens > shared + before.output_tokens, "its answer, and more"
    assert [tokens > 0 for tokens in ideal_cached_tokens(calls)] == [False] + [True] * 9


def test_agents_think_as_long_as_they_were_told_on_average() -> None:
    calls = conversations(
        4000, 400, system_tokens=0, turn=EQUAL, every_s=0.0, think_s=5.0, random=Random(3)
    )
    thoughts = [call.after_s for call in calls if call.follows is not None]
    assert mean(thoughts) == pytest.approx(5.0, rel=0.1)
    hasty = conversations(
        4, 4, system_tokens=0, turn=EQUAL, every_s=0.0, think_s=0.0, random=Random(3)
    )
    assert {call.after_s for call in hasty} == {0.0}


def test_jobs_that_meet_are_flows_of_their_own() -> None:
    calls = meeting_jobs((200, 1), EQUAL, 0.5, Random(1))
    assert [(call.at_s, call.flow, call.job) for call in calls] == [
        (0.0, "job-1", "job-1")
    ] * 200 + [(0.5, "job-2", "job-2")]


def test_other_words_of_the_same_length_share_nothing_with_the_first() -> None:
    calls = conversations(
        6, 3, system_tokens=100, turn=DRAWN, every_s=0.0, think_s=1.0, random=Random(4)
    )
    others = in_other_words(calls)
    lengths = [(call.prompt_tokens, call.output_tokens, call.follows) for call in calls]
    assert [(o.prompt_tokens, o.output_tokens, o.follows) for o in others] == lengths
    # Among themselves they share as much as those did.
    assert ideal_cached_tokens(others) == ideal_cached_tokens(calls)
    assert ideal_cached_tokens([*calls, *others])[6:] == ideal_cached_tokens(others)


def test_a_system_prompt_comes_before_whatever_is_said() -> None:
    before = burst(5, DRAWN, Random(1))
    calls = with_system_prompt(before, 1000)
    assert [call.prompt_tokens - 1000 for call in calls] == [one.prompt_tokens for one in before]
    assert [tokens_of(call.text) for call in calls] == [call.prompt_tokens for call in calls]
