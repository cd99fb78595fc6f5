from __future__ import annotations

import pytest

from pair.cli.addresses import is_loopback, resolved, tcp_address, within_machine
from pair.errors import UnusableAddress


@pytest.mark.parametrize(
    ("text", "loopback", "within"),
    [
        ("127.0.0.1:1", True, "127.0.0.1:1"),
        ("[::1]:1", True, "[::1]:1"),
        ("localhost:1", True, "localhost:1"),
        ("0.0.0.0:1", False, "127.0.0.1:1"),
        ("[::]:1", False, "[::1]:1"),
        ("[fe80::1%eth0]:1", False, "[fe80::1%eth0]:1"),
        ("attic.local:1", False, "attic.local:1"),
    ],
)
def test_who_can_reach_an_address_and_how_this_machine_does(
    text: str, loopback: bool, within: str
) -> None:
    assert is_loopback(tcp_address(text)) is loopback
    assert str(within_machine(tcp_address(text))) == within


def test_a_path_is_no_address_for_a_node() -> None:
    with pytest.raises(UnusableAddress, match="is a path"):
        tcp_address("/run/pair.sock")


async def test_a_name_to_listen_on_becomes_a_literal() -> None:
    assert await resolved(tcp_address("localhost:1")) in ("127.0.0.1", "::1")
    assert await resolved(tcp_address("[::1]:1")) == "::1"
    with pytest.raises(UnusableAddress, match=r"no-such-name\.invalid is no address"):
        await resolved(tcp_address("no-such-name.invalid:1"))
