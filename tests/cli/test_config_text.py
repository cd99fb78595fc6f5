from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pair.cli.config_text import with_value
from pair.cli.knobs import checked, knob_named
from pair.errors import SettingsError
from pair.settings import FixedNode, ModelStrategy, NamedEngine

COMMENTED = """\
# the house
[proxy]  # the front door
strategy = "queue-depth"   # "works" # well
listen = [
    "127.0.0.1:7247",  # here
    "[::1]:7247",
]

[queue]
limit = 10

[[nodes]]  # the attic
url = "http://a:1"
slots = 2  # two cards

[[nodes]]
url = "http://b:1"
"""


def test_a_value_changes_and_everything_else_stays() -> None:
    changed = with_value(COMMENTED, "proxy.strategy", "round-robin")
    assert changed == COMMENTED.replace('"queue-depth"   #', '"round-robin"   #')


def test_a_list_over_several_lines_is_replaced_whole() -> None:
    changed = with_value(COMMENTED, "proxy.listen", ("0.0.0.0:1",))
    assert 'listen = ["0.0.0.0:1"]\n\n[queue]' in changed
    assert "# here" not in changed
    assert "# the front door" in changed


def test_a_new_key_goes_to_its_section_and_a_new_section_before_nothing() -> None:
    changed = with_value(COMMENTED, "queue.wait_limit_s", 2.5)
    assert "limit = 10\nwait_limit_s = 2.5\n\n[[nodes]]" in changed
    changed = with_value(COMMENTED, "node.name", 'the "attic" \\ ü')
    assert tomllib.loads(changed)["node"] == {"name": 'the "attic" \\ ü'}
    assert with_value("", "node.find_engines", False) == "[node]\nfind_engines = false\n"


def test_taking_a_key_out_leaves_the_rest() -> None:
    assert with_value(COMMENTED, "queue.limit", None) == COMMENTED.replace("limit = 10\n", "")
    assert with_value(COMMENTED, "queue.wait_limit_s", None) == COMMENTED
    assert with_value(COMMENTED, "node.name", None) == COMMENTED


def test_nodes_that_stay_keep_their_comments() -> None:
    changed = with_value(COMMENTED, "nodes", (FixedNode("http://c:1"), FixedNode("http://a:1", 2)))
    assert tomllib.loads(changed)["nodes"] == [
        {"url": "http://c:1"},
        {"url": "http://a:1", "slots": 2},
    ]
    assert "# two cards" in changed
    assert "http://b:1" not in changed
    assert "nodes" not in tomllib.loads(with_value(COMMENTED, "nodes", None))


def test_engines_are_written_as_on_the_command_line() -> None:
    engines = (NamedEngine("http://a:1"), NamedEngine("http://b:1", key_file="~/k"))
    text = with_value("", "node.engines", engines)
    written = tomllib.loads(text)["node"]["engines"]
    assert written == ["http://a:1", "http://b:1,key_file=~/k"]
    assert checked(knob_named("node.engines"), written) == engines


def test_strategies_of_models_are_replaced_and_keep_their_comments() -> None:
    strategies = (ModelStrategy("qwen3:30b", "round-robin"), ModelStrategy("a b", "queue-depth"))
    text = with_value("[queue]\nlimit = 5\n", "strategies", strategies)
    assert text == (
        '[queue]\nlimit = 5\n\n[strategies]\n"qwen3:30b" = "round-robin"\n"a b" = "queue-depth"\n'
    )
    text = text.replace('"queue-depth"', '"queue-depth"  # small')
    text = with_value(text, "strategies", (ModelStrategy("a b", "queue-depth"),))
    assert text == '[queue]\nlimit = 5\n\n[strategies]\n"a b" = "queue-depth"  # small\n'
    text = with_value(text, "strategies", (ModelStrategy("a b", "round-robin"),))
    assert tomllib.loads(text)["strategies"] == {"a b": "round-robin"}
    assert tomllib.loads(with_value(text, "strategies", None))["strategies"] == {}


@pytest.mark.parametrize("key", ["a", "'a'", '"a"'])
def test_a_models_name_may_be_written_in_any_of_tomls_ways(key: str) -> None:
    text = f"[strategies]\n{key} = 'queue-depth'\n"
    changed = with_value(text, "strategies", (ModelStrategy("a", "round-robin"),))
    assert changed == f'[strategies]\n{key} = "round-robin"\n'


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("proxy.strategy = 'x'\n", "proxy.strategy"),
        ("proxy = {strategy = 'x'}\n", "proxy.strategy"),
        ("[proxy]\n'strategy' = 'x'\n", "proxy.strategy"),
        ("nodes = [{url = 'http://a'}]\n", "nodes"),
        ("proxy = 3\n", "proxy.strategy"),
        ("[proxy\n", "proxy.strategy"),
        ("strategies = {a = 'queue-depth'}\n", "strategies"),
        ("strategies = 3\n", "strategies"),
    ],
)
def test_what_cannot_be_edited_safely_is_refused(text: str, key: str) -> None:
    with pytest.raises(SettingsError):
        with_value(text, key, None if key in ("nodes", "strategies") else "round-robin")


@given(name=st.text(st.characters(exclude_categories=["Cs"])), slots=st.integers(0, 2**53))
def test_whatever_is_written_is_read_back(name: str, slots: int) -> None:
    text = with_value(COMMENTED, "node.name", name)
    text = with_value(text, "node.slots", slots)
    text = with_value(text, "nodes", (FixedNode("http://a", slots, name),))
    document = tomllib.loads(text)
    assert document["node"] == {"name": name, "slots": slots}
    assert document["nodes"][0].get("name", "") == name
    for key in ("node.name", "node.slots", "nodes"):
        text = with_value(text, key, None)
    assert tomllib.loads(text).get("node", {}) == {}
