from __future__ import annotations

import re
from typing import Any

import pytest

from pair.cli.knobs import checked, knob_named
from pair.errors import SettingsError
from pair.settings import FixedNode, ModelStrategy, NamedEngine


@pytest.mark.parametrize(
    ("key", "written", "value"),
    [
        ("queue.limit", "20", 20),
        ("queue.limit", 21, 21),
        ("queue.wait_limit_s", 3, 3.0),
        ("queue.wait_limit_s", "2.5", 2.5),
        ("proxy.discovery", "off", False),
        ("proxy.discovery", "YES", True),
        ("proxy.discovery", True, True),
        ("proxy.strategy", "round-robin", "round-robin"),
        ("proxy.listen", "127.0.0.1:1 [::1]:2", ("127.0.0.1:1", "[::1]:2")),
        ("proxy.listen", ["attic.local:7247"], ("attic.local:7247",)),
        ("node.listen", "[fe80::1%eth0]:7248", "[fe80::1%eth0]:7248"),
        ("node.engines", ["http://127.0.0.1:9000/"], (NamedEngine("http://127.0.0.1:9000"),)),
        ("node.engines", "http://a:1/v1,key_env=A_KEY", (NamedEngine("http://a:1/v1", "A_KEY"),)),
        ("node.engines", [{"url": "http://a:1", "key_file": "~/k"}], (
            NamedEngine("http://a:1", key_file="~/k"),
        )),
        ("node.name", "the attic", "the attic"),
        ("nodes", "http://a:1/v1,slots=2,name=x b", (
            FixedNode("http://a:1", 2, "x"), FixedNode("http://b:7248"),
        )),
        ("nodes", "http://a:1,key_env=A_KEY", (FixedNode("http://a:1", key_env="A_KEY"),)),
        ("nodes", [{"url": "http://a:1", "key_file": "~/k"}], (
            FixedNode("http://a:1", key_file="~/k"),
        )),
        ("proxy.cors_origins", "apps https://a.example", ("apps", "https://a.example")),
        ("nodes", [{"url": "http://a:1", "slots": 3}], (FixedNode("http://a:1", 3),)),
        ("nodes", [FixedNode("http://a:1")], (FixedNode("http://a:1"),)),
        ("strategies", {"qwen3:30b": "round-robin"}, (ModelStrategy("qwen3:30b", "round-robin"),)),
        ("strategies", "a=b=round-robin c=queue-depth", (
            ModelStrategy("a=b", "round-robin"), ModelStrategy("c", "queue-depth"),
        )),
        ("strategies", [ModelStrategy("a", "round-robin")], (ModelStrategy("a", "round-robin"),)),
        ("prefix.length_chars", 1024, 1024),
        ("prefix.length_chars", "65536", 65536),
    ],
)  # fmt: skip
def test_what_people_write_becomes_the_knobs_type(key: str, written: Any, value: Any) -> None:
    result = checked(knob_named(key), written)
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    ("key", "written", "words"),
    [
        ("queue.limit", "many", "queue.limit is 'many'; right is a whole number of tickets"),
        ("queue.limit", -1, "at least 0"),
        ("queue.limit", 1.5, "whole number"),
        ("queue.limit", True, "whole number"),
        ("queue.wait_limit_s", float("nan"), "a number of s, at least 0"),
        ("queue.wait_limit_s", "inf", "a number of s"),
        ("retry.attempts_limit", 0, "at least 1"),
        ("proxy.discovery", "perhaps", "right is true or false"),
        ("proxy.discovery", 1, "right is true or false"),
        ("proxy.strategy", "queue-depht", "the nearest one is queue-depth; there are"),
        ("proxy.strategy", 3, "right is text"),
        ("proxy.listen", 7247, "right is a list"),
        ("proxy.listen", "7247", "'7247' is not an address: it takes NAME:PORT"),
        ("proxy.listen", ["127.0.0.1:70000"], "'127.0.0.1:70000' is not an address"),
        ("proxy.listen", ["::1:7247"], "such as 127.0.0.1:7247 or [::1]:7247"),
        ("node.engines", ["127.0.0.1:11434"], "right is a URL such as http://"),
        ("node.engines", ["https://a:1"], "right is a URL such as http://"),
        ("node.engines", ["http://"], "right is a URL"),
        ("node.engines", ["http://[::1"], "right is a URL"),
        ("node.engines", ["http://a:1,k"], "right is URL,key_env=VARIABLE,key_file=PATH"),
        ("node.engines", ["http://a:1,slots=2"], "slots is not a setting"),
        ("node.engines", ["http://a:1", "http://a:1,key_env=A"], "http://a:1 twice"),
        ("nodes", "http://a:1,2", "right is URL,slots=N,name=NAME"),
        ("nodes", "http://a:1,slot=2", "in which slot is not a setting; the nearest one is slots"),
        ("nodes", "http://a:1,slots=few", "has slots 'few'; right is a whole number"),
        ("nodes", [{"slots": 1}], "an entry without a url"),
        ("nodes", [{"url": "http://a", "name": 7}], "has an entry whose name is no text"),
        ("nodes", [{"url": "http://a", "slots": True}], "right is a whole number"),
        ("nodes", "https://a:1", "nodes is wrong: the node 'https://a:1' asks for https"),
        ("nodes", "http://a:1,key=sk-1", "has an entry with key; a key is never written here"),
        ("nodes", "http://a:1,key_env=A,key_file=b", "has both key_env and key_file"),
        ("nodes", [{"url": "http://a", "key_env": 7}], "whose key_env is no text"),
        ("proxy.cors_origins", "https://a.example/", "right is loopback, apps, * or an origin"),
        (
            "prefix.length_chars",
            1023,
            "a whole number of characters, at least 1024 and at most 65536",
        ),
        ("prefix.length_chars", 65537, "at least 1024 and at most 65536"),
        ("prefix.concurrency_threshold", 1025, "at least 1 and at most 1024"),
        (
            "strategies",
            {"a": "queue-depht"},
            "strategies is wrong: 'queue-depht' is not a strategy",
        ),
        ("strategies", {"a": {"b": 1}}, 'right is MODEL=NAME, in the file a line "MODEL" = "NAME"'),
        ("strategies", "round-robin", "has 'round-robin'; right is MODEL=NAME"),
        ("strategies", "=round-robin", "right is MODEL=NAME"),
        ("strategies", "a=round-robin a=queue-depth", "has a twice; name each once"),
        ("strategies", 3, "right is a list"),
        ("nodes", [3], "right is a table with url, slots, name, key_env, key_file"),
    ],
)
def test_what_does_not_fit_is_named_with_what_would_be_right(
    key: str, written: Any, words: str
) -> None:
    with pytest.raises(SettingsError, match=re.escape(words)):
        checked(knob_named(key), written)


def test_a_key_that_does_not_exist_is_told_with_the_nearest() -> None:
    with pytest.raises(SettingsError, match=r"the nearest one is proxy\.strategy"):
        knob_named("proxy.stratgy")


def test_a_variable_is_the_key_in_capitals() -> None:
    assert knob_named("node.context_tokens").variable == "PAIR_NODE_CONTEXT_TOKENS"
    assert knob_named("nodes").variable == "PAIR_NODES"


@pytest.mark.parametrize(
    "written", ["http://a:1,key=sk-1", "http://a:1,sk-1", "http://a,token=sk-1"]
)
@pytest.mark.parametrize("key", ["nodes", "node.engines"])
def test_no_error_quotes_what_may_be_a_key(key: str, written: str) -> None:
    with pytest.raises(SettingsError) as told:
        checked(knob_named(key), written)
    assert "sk-1" not in str(told.value)
