"""Calls of a workload are equal by construction and differ in their question."""

from __future__ import annotations

from pair.bench.workload import SYSTEM_PROMPT, Workload

TEN = Workload("m", calls=10, output_tokens=64)


def test_every_call_asks_something_of_its_own() -> None:
    questions = {TEN.messages(number)[1]["content"] for number in range(10)}
    assert len(questions) == 10


def test_all_calls_share_their_system_prompt() -> None:
    systems = {TEN.messages(number)[0]["content"] for number in range(10)}
    assert systems == {SYSTEM_PROMPT}
    roles = [[message["role"] for message in TEN.messages(number)] for number in range(10)]
    assert roles == [["system", "user"]] * 10


def test_all_questions_have_as_many_words_and_nearly_as_many_letters() -> None:
    questions = [TEN.messages(number)[1]["content"] for number in range(25)]
    assert len({len(question.split()) for question in questions}) == 1
    lengths = [len(question) for question in questions]
    assert max(lengths) - min(lengths) <= 1


def test_repeats_make_the_shared_part_longer_and_nothing_else() -> None:
    long = Workload("m", calls=1, output_tokens=64, system_repeats=3)
    system, question = long.messages(0)
    assert system["content"].count(SYSTEM_PROMPT) == 3
    assert question == TEN.messages(0)[1]


def test_what_the_client_is_called_with() -> None:
    asked = Workload("qwen", calls=2, output_tokens=7).parameters(1)
    assert asked == {
        "model": "qwen",
        "messages": TEN.messages(1),
        "max_tokens": 7,
        "temperature": 0.0,
        "extra_body": {"ignore_eos": True},
    }
