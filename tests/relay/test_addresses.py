"""The notation for where a socket is."""

from __future__ import annotations

import pytest

from pair.errors import UnusableAddress
from pair.relay.addresses import (
    TcpAddress,
    UnixAddress,
    is_base_url,
    parse_address,
    parse_base_url,
)


@pytest.mark.parametrize(
    ("text", "address", "authority"),
    [
        ("127.0.0.1:7247", TcpAddress("127.0.0.1", 7247), b"127.0.0.1:7247"),
        ("gaming-pc.local:0", TcpAddress("gaming-pc.local", 0), b"gaming-pc.local:0"),
        ("[::1]:80", TcpAddress("::1", 80), b"[::1]:80"),
        ("[fe80::1%eth0]:80", TcpAddress("fe80::1%eth0", 80), b"[fe80::1]:80"),
        ("küche.local:80", TcpAddress("küche.local", 80), b"xn--kche-0ra.local:80"),
        ("/run/pair.sock", UnixAddress("/run/pair.sock"), b"localhost"),
        ("./pair.sock", UnixAddress("./pair.sock"), b"localhost"),
    ],
)
def test_an_address_is_read_and_written_alike(
    text: str, address: TcpAddress | UnixAddress, authority: bytes
) -> None:
    assert parse_address(text) == address
    assert str(address) == text
    assert address.authority == authority


@pytest.mark.parametrize(
    "text",
    [
        "", "7247", "127.0.0.1", ":7247", "127.0.0.1:", "a:b", "a:-1", "a:65536", "a:७",
        "::1", "::1:80", "[]:80", "[::1]", "x" * 70 + ".ä:1",
    ],
)  # fmt: skip
def test_what_is_no_address_is_named(text: str) -> None:
    with pytest.raises(UnusableAddress, match="is not an address") as caught:
        parse_address(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    ("url", "address", "path"),
    [
        ("http://127.0.0.1:8080", "127.0.0.1:8080", b""),
        ("http://attic.local", "attic.local:80", b""),
        ("http://[fe80::1%eth0]:7248/", "[fe80::1%eth0]:7248", b""),
        ("http://[::1]/llm/", "[::1]:80", b"/llm"),
    ],
)
def test_a_base_url_is_taken_apart(url: str, address: str, path: bytes) -> None:
    assert is_base_url(url)
    assert parse_base_url(url) == (address, path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "attic",
        "127.0.0.1:80",
        "https://a",
        "http://",
        "http://a:0",
        "http://a:99999",
        "http://a b",
        "http://[::1",
    ],
)
def test_what_is_no_base_url(text: str) -> None:
    assert not is_base_url(text)


def test_another_scheme_may_be_asked_for() -> None:
    assert is_base_url("https://attic", ("http", "https"))
