"""The mDNS sockets, and the interfaces they are on."""

from __future__ import annotations

import asyncio
import gc
from ipaddress import ip_interface
from pathlib import Path

import pytest
import uvloop

from pair.discovery.interfaces import Interface, read_surroundings
from pair.discovery.multicast import Multicast
from pair.errors import NoMulticast
from pair.wire.advert import SERVICE_TYPE
from tests.discovery.loopback import new_id, record

GONE = Interface("gone0", 4_000, (ip_interface("203.0.113.9/24"), ip_interface("fe80::9/64")), "")


async def test_an_interface_is_new_once() -> None:
    multicast = Multicast()
    loopback = read_surroundings().on_this_machine
    assert await multicast.use(loopback)
    assert not await multicast.use(loopback)
    assert not await multicast.use(())
    assert await multicast.use(loopback)
    await multicast.close()


async def test_an_interface_made_anew_under_its_old_address_is_new() -> None:
    multicast = Multicast()
    (loopback,) = read_surroundings().on_this_machine
    await multicast.use([loopback])
    other = Interface("lo", loopback.index + 1, loopback.addresses, "lo")
    assert await multicast.use([other])
    await multicast.close()


async def test_an_interface_that_has_gone_by_now_is_left_out() -> None:
    multicast = Multicast()
    loopback = read_surroundings().on_this_machine
    await multicast.use([*loopback, GONE])
    await multicast.announce(record(new_id(), {}))
    await multicast.close()


async def test_nothing_works_before_it_is_open_and_closing_twice_is_harmless() -> None:
    multicast = Multicast()
    said = record(new_id(), {})
    for attempt in (
        multicast.ask(SERVICE_TYPE, lambda **_: None),
        multicast.announce(said),
        multicast.correct(said),
    ):
        with pytest.raises(NoMulticast, match="not open"):
            await attempt
    await multicast.close()
    await multicast.close()


@pytest.mark.parametrize("turns", range(1, 12))
async def test_opening_that_is_cancelled_leaves_no_socket_behind(turns: int) -> None:
    multicast = Multicast()
    async with asyncio.TaskGroup() as tasks:
        opening = tasks.create_task(multicast.use(read_surroundings().on_this_machine))
        for _ in range(turns):
            await asyncio.sleep(0)
        opening.cancel()
    await multicast.close()
    # What nobody closed or read warns when it is collected, and a warning is a failure here.
    gc.collect()
    assert opening.done()


@pytest.mark.parametrize("turns", range(1, 12))
def test_nor_does_it_under_uvloop(turns: int) -> None:
    def open_files() -> int:
        return len(list(Path("/dev/fd").iterdir()))

    async def opened_and_cancelled() -> tuple[int, int]:
        before = open_files()
        await test_opening_that_is_cancelled_leaves_no_socket_behind(turns)
        await asyncio.sleep(0)  # its sockets close in the next turn
        return before, open_files()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.sleep(0))
        before, after = runner.run(opened_and_cancelled())
    assert before == after


async def test_what_zeroconf_refuses_is_our_error() -> None:
    multicast = Multicast()
    await multicast.use(read_surroundings().on_this_machine)
    said = record(new_id(), {})
    await multicast.announce(said)
    with pytest.raises(NoMulticast, match="mDNS does not work here: ServiceNameAlreadyRegistered"):
        await multicast.announce(said)
    await multicast.close()
