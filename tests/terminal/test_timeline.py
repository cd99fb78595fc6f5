from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pair.terminal.timeline import ASCII_SIGNS, Timeline, node_rows, row_line, tick_step_s
from tests.terminal.samples import call, job, text_of


def test_two_nodes_two_waves_as_a_picture() -> None:
    calls = [
        call("a", 0, 0, 0.5, 2),
        call("b", 0, 0, 0.5, 2),
        call("a", 0, 2, 2.5, 4),
        call("b", 0, 2, 2.5, 4),
    ]
    picture = text_of(Timeline(job(*calls)), width=49)
    assert [line.rstrip() for line in picture.splitlines()] == [
        "waiting  22222222222222222222",
        "a        1▒▒▒▒███████████████3▒▒▒▒███████████████",
        "b        2▒▒▒▒███████████████4▒▒▒▒███████████████",
        "         ┬         ┬         ┬         ┬",
        "         0 s       1         2         3",
        "         digits: calls waiting   ▒ until the",
        "first content byte   █ answer",
    ]


def test_a_node_of_two_slots_has_two_rows_and_an_idle_one_has_an_empty_row() -> None:
    calls = [call("a", 0, 0, 1, 2), call("a", 0, 0.5, 1, 2), call("a", 0, 2, 3, 4)]
    rows = node_rows(job(*calls))
    assert [[bar.label for bar in row.bars] for row in rows["id-a"]] == [["1", "3"], ["2"]]
    assert [row.bars for row in rows["id-b"]] == [[]]


def test_calls_that_are_not_over_or_never_ran_are_drawn_as_far_as_is_known() -> None:
    calls = [
        call("a", 0, 0, 0.5, 4),
        call("b", 0, 1, None, None),
        call(None, 0, None, None, 4, outcome="refused"),
        call(None, 3, None, None, None),
    ]
    waiting, first, second, *_ = text_of(Timeline(job(*calls)), width=49).splitlines()
    assert waiting.split() == ["waiting", "2" * 10 + "1" * 20 + "2" * 10]
    assert first.startswith("a        1▒▒▒▒█")
    assert second.rstrip() == "b" + " " * 18 + "2" + "▒" * 29


def test_a_stream_without_the_signs_gets_plain_ones() -> None:
    calls = [call("a", 0, 0, 2, 4)]
    text = text_of(Timeline(job(*calls)), width=49, encoding="ascii")
    assert text.isascii()
    assert "1-------------------####################" in text


def test_a_job_without_calls_has_no_picture() -> None:
    assert text_of(Timeline(job())) == ""


@pytest.mark.parametrize(
    ("least", "step"), [(0.03, 0.05), (0.1, 0.1), (0.11, 0.2), (2, 2), (3, 5), (70, 100)]
)
def test_ticks_stand_at_round_seconds(least: float, step: float) -> None:
    assert tick_step_s(least) == step


times = st.floats(0, 100)


@given(
    spans=st.lists(st.tuples(st.sampled_from("ab"), times, times, times), min_size=1, max_size=40),
    width=st.integers(20, 200),
)
def test_whatever_the_times_bars_never_overlap_and_lines_keep_the_width(
    spans: list[tuple[str, float, float, float]], width: int
) -> None:
    calls = [call(node, 0, *sorted((start, middle, end))) for node, start, middle, end in spans]
    shown = job(*calls)
    for rows in node_rows(shown).values():
        for row in rows:
            for before, after in zip(row.bars, row.bars[1:], strict=False):
                assert before.end_s <= after.start_s
            assert len(row_line(row, width / 100, width, ASCII_SIGNS)) <= width
    drawn = sum(len(row.bars) for rows in node_rows(shown).values() for row in rows)
    assert drawn == len(calls)
    assert all(len(line) <= width for line in text_of(Timeline(shown), width=width).splitlines())
