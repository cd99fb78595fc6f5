"""What users write for a node, and what becomes of it."""

from __future__ import annotations

import pytest

from pair.core.events import NodeSighted, NodeWithdrawn
from pair.core.names import NodeId
from pair.discovery.fixed_list import FixedList, base_url
from pair.errors import SettingsError


@pytest.mark.parametrize(
    ("written", "url"),
    [
        ("http://192.168.1.20:11434", "http://192.168.1.20:11434"),
        ("http://192.168.1.20:11434/", "http://192.168.1.20:11434"),
        ("http://192.168.1.20:11434/v1/", "http://192.168.1.20:11434"),
        ("HTTP://Gaming-PC.local:7248", "http://gaming-pc.local:7248"),
        ("gaming-pc", "http://gaming-pc:7248"),
        ("gaming-pc.local.:1234", "http://gaming-pc.local:1234"),
        ("192.168.1.20", "http://192.168.1.20:7248"),
        ("  192.168.1.20:8080 ", "http://192.168.1.20:8080"),
        ("http://llm.example", "http://llm.example:80"),
        ("http://[2001:DB8::0001]:8000", "http://[2001:db8::1]:8000"),
        ("[::1]", "http://[::1]:7248"),
        ("http://[fe80::1%25eth0]:7248", "http://[fe80::1%eth0]:7248"),
        ("[fe80::1%eth0]:7248", "http://[fe80::1%eth0]:7248"),
    ],
)
def test_a_url_has_one_form(written: str, url: str) -> None:
    assert base_url(written) == url
    assert base_url(url) == url


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ("", "names no machine"),
        ("http://", "names no machine"),
        ("two words", "names no machine"),
        ("-x", "names no machine"),
        ("x" * 300, "names no machine"),
        ("[fe80::1%!]:1", "names no machine|cannot be read"),
        ("[1::2::3]:1", "cannot be read|no IPv6 address"),
        ("fe80::1", "cannot be read"),
        ("http://x:99999", "cannot be read"),
        ("http://x:port", "cannot be read"),
        ("http://x:0", "port 0"),
        ("https://x", "asks for https, and pair speaks http"),
        ("ftp://x", "asks for ftp"),
        ("http://x/models", "more than scheme, machine and port"),
        ("http://x?a=b", "more than scheme, machine and port"),
    ],
)
def test_what_cannot_mean_a_node_is_refused_in_words(written: str, complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        base_url(written)


@pytest.mark.parametrize("written", ["http://me:s3cret@x", "me:s3cret@x:99999"])
def test_a_password_is_refused_and_not_repeated(written: str) -> None:
    with pytest.raises(SettingsError, match="must not carry") as caught:
        base_url(written)
    assert "s3cret" not in str(caught.value)


async def test_the_named_nodes_are_told_when_the_list_is_entered() -> None:
    told: list[NodeSighted | NodeWithdrawn] = []
    nodes = [("192.168.1.20:11434", "attic"), ("http://gaming-pc", "")]
    async with FixedList(told.append, nodes):
        assert told == [
            NodeSighted(
                NodeId("http://192.168.1.20:11434"),
                "attic",
                ("http://192.168.1.20:11434",),
                fixed=True,
            ),
            NodeSighted(
                NodeId("http://gaming-pc:80"), "gaming-pc:80", ("http://gaming-pc:80",), fixed=True
            ),
        ]
    assert len(told) == 2


def test_a_node_named_twice_is_a_mistake() -> None:
    with pytest.raises(SettingsError, match=r"http://x:7248 is named twice"):
        FixedList(lambda _: None, [("x", "one"), ("http://X:7248/v1", "two")])
