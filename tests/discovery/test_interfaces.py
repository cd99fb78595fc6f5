"""What machines look like, and which addresses can lead from one to the other."""

from __future__ import annotations

from ipaddress import ip_address, ip_interface

import pytest

from pair.discovery.interfaces import (
    ADDRESSES_LIMIT,
    Interface,
    Surroundings,
    ipv4_addresses,
    ipv6_indexes,
    read_surroundings,
)


def interface(name: str, index: int, *addresses: str) -> Interface:
    return Interface(name, index, tuple(ip_interface(address) for address in addresses), name)


LOOPBACK = interface("lo", 1, "127.0.0.1/8", "::1/128")
CABLE = interface("eth0", 2, "192.168.1.5/24", "fd00:1::5/64", "fe80::5/64")
WIFI = interface("wlan0", 3, "10.7.0.5/16", "fe80::6/64")
DOCKER = interface("docker0", 4, "172.17.0.1/16")
HOME = Surroundings((LOOPBACK, CABLE, WIFI, DOCKER))
OFFLINE = Surroundings((LOOPBACK, DOCKER))


@pytest.mark.parametrize(
    "name",
    [
        "docker0", "docker_gwbridge", "br-0123456789ab", "veth12ab34c", "cni0", "cni-podman0",
        "podman0", "cali1234", "flannel.1", "virbr0", "vnet3", "lxdbr0", "lxcbr0", "awdl0", "llw0",
        "vEthernet (WSL (Hyper-V firewall))", "vEthernet (Default Switch)",
    ],
)  # fmt: skip
def test_what_only_containers_and_virtual_machines_are_behind(name: str) -> None:
    assert interface(name, 9, "172.18.0.1/16").internal


@pytest.mark.parametrize(
    "name",
    ["eth0", "enp3s0", "wlp2s0", "en0", "br0", "br-lan", "vmbr0", "bridge0", "bond0", "eth0.20",
     "tailscale0", "wg0", "utun3", "vEthernet (External)", "Ethernet 2"],
)  # fmt: skip
def test_what_other_machines_may_be_behind(name: str) -> None:
    assert not interface(name, 9, "192.168.7.1/24").internal


def test_the_lan_is_neither_loopback_nor_containers() -> None:
    assert HOME.on_the_lan == (CABLE, WIFI)
    assert HOME.on_this_machine == (LOOPBACK,)


def test_a_node_that_listens_everywhere_tells_its_lan_addresses_there() -> None:
    assert HOME.own_addresses(ip_address("0.0.0.0")) == ("192.168.1.5", "10.7.0.5")
    assert HOME.own_addresses(ip_address("::")) == ("fd00:1::5", "fe80::5", "fe80::6")
    assert HOME.around(ip_address("0.0.0.0")) == (CABLE, WIFI)


def test_a_node_on_loopback_is_told_on_loopback_only() -> None:
    assert HOME.own_addresses(ip_address("127.0.0.1")) == ("127.0.0.1",)
    assert HOME.around(ip_address("127.0.0.1")) == (LOOPBACK,)


def test_a_node_on_one_address_is_told_behind_that_one() -> None:
    assert HOME.own_addresses(ip_address("10.7.0.5")) == ("10.7.0.5",)
    assert HOME.around(ip_address("10.7.0.5")) == (WIFI,)
    assert HOME.own_addresses(ip_address("10.9.9.9")) == ()
    assert HOME.around(ip_address("10.9.9.9")) == ()


def test_without_a_lan_a_node_that_listens_everywhere_is_found_on_its_own_machine() -> None:
    assert OFFLINE.own_addresses(ip_address("0.0.0.0")) == ("127.0.0.1",)
    assert OFFLINE.around(ip_address("0.0.0.0")) == (LOOPBACK,)
    assert Surroundings(()).own_addresses(ip_address("0.0.0.0")) == ()


def test_an_address_that_loopback_carries_besides_is_not_loopbacks() -> None:
    anycast = Surroundings((interface("lo", 1, "10.1.1.1/32", "127.0.0.1/8"),))
    assert anycast.own_addresses(ip_address("0.0.0.0")) == ("127.0.0.1",)
    assert ipv4_addresses(anycast.on_this_machine) == ["127.0.0.1"]


def reachable(*addresses: str) -> tuple[str, ...]:
    return HOME.reachable(addresses, loopback_only=False)


def test_the_nearest_address_comes_first() -> None:
    assert reachable("2001:db8::1", "100.64.1.1", "fe80::9%2", "fd00:1::9", "192.168.1.9") == (
        "192.168.1.9",
        "[fd00:1::9]",
        "[fe80::9%eth0]",
        "100.64.1.1",
        "[2001:db8::1]",
    )


@pytest.mark.parametrize(
    "address",
    [
        "172.17.0.1",  # our own docker0, and that of every other machine with Docker
        "172.17.0.9",  # would lead into one of our own containers
        "fe80::9",  # which interface?
        "fe80::9%4",  # heard from one of our own containers
        "fe80::9%77",
        "0.0.0.0",
        "::",
        "224.0.0.251",
        "ff02::fb",
        "nonsense",
    ],
)
def test_an_address_that_leads_nowhere_from_here_is_left_out(address: str) -> None:
    assert reachable(address) == ()
    assert reachable(address, "192.168.1.9") == ("192.168.1.9",)


def test_a_lan_that_docker_shares_its_numbers_with_is_still_a_lan() -> None:
    both = Surroundings((DOCKER, interface("eth0", 2, "172.17.5.2/24")))
    assert both.reachable(["172.17.5.9"], loopback_only=False) == ("172.17.5.9",)


def test_loopback_counts_only_alone() -> None:
    assert reachable("127.0.0.1") == ("127.0.0.1",)
    assert reachable("127.0.0.1", "192.168.1.9") == ("192.168.1.9",)


def test_looking_on_this_machine_only_believes_loopback_only() -> None:
    assert HOME.reachable(["192.168.1.9", "127.0.0.1"], loopback_only=True) == ("127.0.0.1",)
    assert HOME.reachable(["192.168.1.9"], loopback_only=True) == ()


def test_a_record_of_a_hundred_addresses_costs_no_more_than_a_few() -> None:
    assert len(reachable(*(f"192.168.1.{number}" for number in range(1, 101)))) == ADDRESSES_LIMIT


def test_zeroconf_gets_ipv4_by_address_and_ipv6_by_number_but_for_loopback() -> None:
    assert ipv4_addresses((LOOPBACK, CABLE)) == ["127.0.0.1", "192.168.1.5"]
    assert ipv6_indexes((LOOPBACK, CABLE, DOCKER)) == [2]
    assert ipv6_indexes((interface("alias:1", 0, "fe80::7/64"),)) == []


def test_this_machine_has_loopback() -> None:
    surroundings = read_surroundings()
    assert "127.0.0.1" in ipv4_addresses(surroundings.on_this_machine)
    assert all(interface.scope == interface.name for interface in surroundings.interfaces)
