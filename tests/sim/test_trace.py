from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pair.errors import SettingsError
from pair.sim.text import Run, shared_tokens, tokens_of
from pair.sim.trace import TraceForm, Window, read_trace
from pair.sim.workload import PlannedCall

ALL = Window()


def mooncake(at_ms: float, prompt: int, output: int, blocks: list[int]) -> str:
    row = {"timestamp": at_ms, "input_length": prompt, "output_length": output, "hash_ids": blocks}
    return json.dumps(row) + "\n"


AZURE = ["TIMESTAMP,ContextTokens,GeneratedTokens\n"]
AGENTS = [
    "trace,agent,subagent_type,idx,t_s,in_tokens,out_tokens,api_time_s,think_time_s,model,stop\n"
]


def agents(*rows: str) -> list[str]:
    return AGENTS + [f"{row},some-model,tool_use\n" for row in rows]


def calls(lines: list[str], window: Window = ALL) -> list[PlannedCall]:
    return read_trace(lines, "t", window).calls


# --- Mooncake -------------------------------------------------------------------------------------


def test_equal_ids_of_blocks_are_equal_beginnings() -> None:
    trace = read_trace(
        [
            mooncake(500, 1500, 20, [7, 8, 9]),
            "\n",
            mooncake(1500, 1100, 30, [7, 8, 10]),
            mooncake(2500, 600, 0, [11, 12]),
        ],
        "t",
        ALL,
    )
    assert (trace.form, trace.cut) == (TraceForm.MOONCAKE, False)
    first, second, third = trace.calls
    assert [call.at_s for call in trace.calls] == [0.0, 1.0, 2.0]
    assert (first.prompt_tokens, first.output_tokens) == (1500, 20)
    assert first.text == (Run(7, 512), Run(8, 512), Run(9, 476))
    assert shared_tokens(first.text, second.text) == 1024
    assert shared_tokens(first.text, third.text) == 0
    assert third.output_tokens == 0


def test_what_no_id_stands_for_is_nobody_elses() -> None:
    one, other, none = calls(
        [
            mooncake(0, 1500, 1, [0]),
            mooncake(0, 1500, 1, [0]),
            '{"timestamp": 0, "input_length": 9, "output_length": 1}\n',
        ]
    )
    assert shared_tokens(one.text, other.text) == 512
    assert tokens_of(one.text) == 1500
    assert tokens_of(none.text) == 9


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.integers(0, 5000), st.integers(1, 5000), st.integers(0, 9)), min_size=1)
)
def test_calls_come_in_order_whatever_the_order_of_lines(
    rows: list[tuple[int, int, int]],
) -> None:
    found = calls([mooncake(at, prompt, output, []) for at, prompt, output in rows])
    assert len(found) == len(rows)
    times = [call.at_s for call in found]
    assert times == sorted(times)
    assert times[0] == 0.0


# --- Azure ----------------------------------------------------------------------------------------


def test_a_table_of_times_and_lengths() -> None:
    trace = read_trace(
        [
            *AZURE,
            "2023-11-16 18:17:03.9799600,4808,10\n",
            "2023-11-16 18:17:04.4799600,3180,8",  # the last line of a file may have no end
        ],
        "t",
        ALL,
    )
    assert trace.form is TraceForm.AZURE
    first, second = trace.calls
    assert [first.at_s, second.at_s] == pytest.approx([0.0, 0.5])
    assert (first.prompt_tokens, first.output_tokens, first.text) == (4808, 10, ())


def test_times_with_a_zone_and_columns_in_another_order() -> None:
    found = calls(
        [
            "GeneratedTokens,TIMESTAMP,ContextTokens\n",
            "8,2024-05-10 00:00:00+00:00,100\n",
            "9,2024-05-10 02:00:01+02:00,200\n",
        ]
    )
    assert [(call.at_s, call.prompt_tokens, call.output_tokens) for call in found] == [
        (0.0, 100, 8),
        (1.0, 200, 9),
    ]


# --- agents ---------------------------------------------------------------------------------------

TEAM = agents(
    "s1,parent,,0,0.0,16000,244,7.0,0.0",
    "s1,agent_1,Explore,0,17.0,10000,300,3.0,0.0",
    "s1,agent_1,Explore,1,25.0,12000,300,3.0,5.0",
    "s1,agent_2,Explore,0,17.5,9000,300,3.0,0.0",
    "s1,parent,,2,60.0,17000,100,4.0,53.0",
    "s1,parent,,3,70.0,5000,100,4.0,6.0",
    "s2,parent,,0,0.0,16000,10,1.0,0.0",
)


def test_turns_follow_each_other_and_sub_agents_their_parent() -> None:
    found = calls(TEAM)
    by_session = {str(call.session): place for place, call in enumerate(found)}
    assert {call.at_s for call in found} == {0.0}, "each may come from its session's beginning on"
    told = {
        (str(found[place].session), call.after_s)
        for call in found
        if (place := call.follows) is not None
        for call in [call]
    }
    assert told == {
        ("s1/parent", 10.0),  # agent_1: 10 s after its parent's answer
        ("s1/parent", 10.5),
        ("s1/agent_1", 5.0),
        ("s1/parent", 53.0),
        ("s1/parent", 6.0),
    }
    assert all(call.follows is None or call.follows < place for place, call in enumerate(found))
    assert found[by_session["s2/parent"]].follows is None
    assert {(call.job, call.flow) for call in found} == {("s1", "s1"), ("s2", "s2")}


def test_contexts_grow_siblings_begin_alike_and_a_rewritten_one_is_new() -> None:
    texts = {(str(call.session), call.prompt_tokens): call.text for call in calls(TEAM)}
    agent, grown = texts["s1/agent_1", 10000], texts["s1/agent_1", 12000]
    assert shared_tokens(agent, grown) == 10000
    assert shared_tokens(agent, texts["s1/agent_2", 9000]) == 9000 * 98 // 100
    parent = texts["s1/parent", 17000]
    assert shared_tokens(texts["s1/parent", 16000], parent) == 16000
    assert shared_tokens(parent, texts["s2/parent", 16000]) == 0, "another session"
    assert shared_tokens(parent, agent) == 0
    shrunk = calls(
        agents("s,parent,,0,0,1000,1,1,0", "s,parent,,1,9,4000,1,1,1", "s,parent,,2,9,3000,1,1,1")
    )
    assert shared_tokens(shrunk[1].text, shrunk[2].text) == 980, "only what it began with is left"


# --- the window -----------------------------------------------------------------------------------


def test_a_window_of_times_and_a_limit() -> None:
    rows = [mooncake(1000 * second, 100 + second, 1, []) for second in range(10)]
    found = read_trace(rows, "t", Window(limit=3, from_s=2.0, until_s=8.0, speed_up=2.0))
    assert [call.prompt_tokens for call in found.calls] == [102, 103, 104]
    assert [call.at_s for call in found.calls] == [0.0, 0.5, 1.0]
    assert found.cut
    whole = read_trace(rows, "t", Window(limit=6, from_s=2.0, until_s=8.0))
    assert [call.prompt_tokens for call in whole.calls] == [102, 103, 104, 105, 106, 107]
    assert not whole.cut, "what lies outside the window was not left out by the limit"


def test_a_turn_whose_predecessor_is_outside_comes_when_it_came() -> None:
    found = calls(TEAM, Window(from_s=25.0, speed_up=10.0))
    assert [(call.prompt_tokens, call.at_s, call.follows) for call in found] == [
        (12000, 0.0, None),
        (17000, pytest.approx(3.5), None),
        (5000, pytest.approx(3.5), 1),
    ]
    assert found[2].after_s == pytest.approx(0.6), "thinking is sped up, too"


def test_a_trace_is_read_no_further_than_its_limit() -> None:
    def lines() -> Iterator[str]:
        yield from (mooncake(0, 1, 1, []) for _ in range(3))
        pytest.fail("read on")

    assert len(read_trace(lines(), "t", Window(limit=2)).calls) == 2


# --- what is wrong --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ([], "t: the trace is empty"),
        (["\n", " \n"], "t: the trace is empty"),
        (["hello\n"], "t:1: this is no trace that pair knows; those are JSON lines with timestamp"),
        (["\n", "a,b\n"], "t:2: this is no trace"),
        (["\0" * 200_000], "t:1: this is no trace that pair knows: field larger"),
        (['{"x":' + "[" * 100_000], "t:1: maximum recursion depth"),
        ([*AZURE, f"2023-11-16,{'1' * 5000},1\n"], "ContextTokens is '1{40}', not a whole"),
        (["TIMESTAMP,ContextTokens\n"], "t:1: the column GeneratedTokens is missing"),
        (["trace,agent\n"], "t:1: the column subagent_type is missing"),
        (AZURE, "t: no call of the trace lies between the times asked for"),
        ([*AZURE, "2023-11-16,1,1\n", "\n", "soon,1,1\n"], "t:4: TIMESTAMP is 'soon', not a time"),
        ([*AZURE, "2023-11-16,1\n"], "t:2: 2 cells, but the table has 3 columns"),
        ([*AZURE, "2023-11-16,many,1\n"], "t:2: ContextTokens is 'many', not a whole number"),
        ([*AZURE, "2023-11-16,0,1\n"], "t:2: ContextTokens is 0; right is a number of tokens"),
        ([*AZURE, "2023-11-16,1,-1\n"], "t:2: GeneratedTokens is -1; right is"),
        ([*AZURE, "2023-11-16,1,99999999\n"], "from 0 to 10,000,000"),
        ([*AZURE, '"2023\n'], "t:2: unexpected end of"),
        ([mooncake(0, 1, 1, []), "{\n"], "t:2: Input data was truncated"),
        (['{"timestamp": 1}\n'], "t:1: Object missing required field `input_length`"),
        ([mooncake(-1, 1, 1, [])], "t:1: timestamp is -0.001; right is a time from 0 on"),
        ([mooncake(0, 1, 1, [-1])], r"t:1: Expected `int` >= 0 - at `\$.hash_ids"),
        ([mooncake(0, 512, 1, [1, 2])], "t:1: 2 hash_ids, but 512 tokens are 1 blocks of 512"),
        (agents("s,parent,,0,nan,1,1,1,1"), "t:2: t_s is nan; right is a time from 0 on"),
        (agents("s,parent,,0,x,1,1,1,1"), "t:2: t_s is 'x', not a number"),
        (
            agents("s,a,,0,5,1,1,1,1", "s,a,,1,4,1,1,1,1"),
            "t:3: t_s is before that of the turn of a before it",
        ),
    ],
)
def test_errors_say_which_line_and_what_would_be_right(lines: list[str], complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        calls(lines)


def test_a_window_without_calls_is_an_error() -> None:
    with pytest.raises(SettingsError, match="no call of the trace lies between"):
        calls([mooncake(0, 1, 1, [])], Window(from_s=1.0))
