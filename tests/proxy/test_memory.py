from __future__ import annotations

import asyncio
import logging
import os
import stat
import threading
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from pair.bench.echo_engine.engine import EchoEngine
from pair.bench.echo_engine.settings import EchoSettings
from pair.core.estimates import Estimates, Finished
from pair.core.events import Usage
from pair.core.names import EngineName, ModelName, NodeId, ReplicaId
from pair.errors import UnusableAddress
from pair.proxy.memory import FILE_NAME, Memory
from pair.proxy.service import Proxy
from pair.settings import FixedNode, Settings
from pair.wire.estimates_json import decode_learned
from tests.relay.wires import eventually

MODEL = ModelName("m")
REPLICA = ReplicaId(NodeId("n"), EngineName("e"), MODEL)
LONG_S = 3600.0
LIMIT_S = 20.0


def learn(estimates: Estimates, prefill_s: float = 1.0) -> None:
    usage = Usage(1000, 0, 100, prefill_s, 2.0)
    estimates.learn(Finished(REPLICA, MODEL, 4000, usage, None, prefill_s + 2.0, 1), 0.0)


def taught(prefill_s: float = 1.0) -> Estimates:
    estimates = Estimates(8)
    learn(estimates, prefill_s)
    return estimates


def memory(folder: Path, save_every_s: float = LONG_S) -> Memory:
    return Memory(folder / FILE_NAME, save_every_s=save_every_s)


async def remembered(folder: Path) -> Estimates:
    """What the next start of this proxy knows."""
    estimates = Estimates(8)
    await memory(folder).load(estimates)
    return estimates


def names_in(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir()]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was told, and was meant to be."""
    told = [entry.getMessage() for entry in caplog.records if entry.levelno >= logging.WARNING]
    caplog.clear()
    return told


async def test_what_was_learned_is_known_after_a_restart(tmp_path: Path) -> None:
    estimates = taught()
    await memory(tmp_path / "made" / "for it").save(estimates)
    known = await remembered(tmp_path / "made" / "for it")
    assert known.speed(REPLICA) == estimates.speed(REPLICA)
    assert known.output_tokens(MODEL, None) == 100


async def test_a_missing_file_is_nothing(tmp_path: Path) -> None:
    assert (await remembered(tmp_path)).speed(REPLICA) is None
    assert names_in(tmp_path) == []


async def test_the_file_is_its_owners_alone_and_nothing_lies_beside_it(tmp_path: Path) -> None:
    kept = memory(tmp_path)
    for prefill_s in (1.0, 2.0):
        await kept.save(taught(prefill_s))
    assert names_in(tmp_path) == [FILE_NAME]
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600


@pytest.mark.parametrize("text", [b"", b"half of", b'{"v":7}', b"\x00" * 5000])
async def test_a_garbled_file_is_set_aside_and_a_new_one_begun(
    tmp_path: Path, text: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE_NAME).write_bytes(text)
    estimates, kept = Estimates(8), memory(tmp_path)
    await kept.load(estimates)
    (told,) = warnings(caplog)
    assert "garbled" in told
    assert FILE_NAME in told
    assert estimates.speed(REPLICA) is None
    assert (tmp_path / f"{FILE_NAME}.broken").read_bytes() == text
    await kept.save(taught())
    assert (await remembered(tmp_path)).speed(REPLICA) is not None


async def test_a_file_that_cannot_be_read_is_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE_NAME).mkdir()  # permissions do not keep root out, this does
    assert (await remembered(tmp_path)).speed(REPLICA) is None
    assert len(warnings(caplog)) == 1
    assert (tmp_path / FILE_NAME).is_dir()


async def test_a_disk_that_takes_nothing_is_told_once_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    in_the_way = tmp_path / "state"
    in_the_way.write_text("a file where the folder should be")
    kept, estimates = memory(in_the_way), taught()
    await kept.save(estimates)
    await kept.save(estimates)
    assert len(warnings(caplog)) == 1
    in_the_way.unlink()
    await kept.save(estimates)
    assert (await remembered(in_the_way)).speed(REPLICA) is not None


async def test_a_write_that_fails_leaves_the_old_file_whole(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = memory(tmp_path)
    await kept.save(taught())
    before = (tmp_path / FILE_NAME).read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    await kept.save(taught(5.0))
    assert "No space left" in warnings(caplog)[0]
    assert names_in(tmp_path) == [FILE_NAME]
    assert (tmp_path / FILE_NAME).read_bytes() == before


async def test_where_nothing_was_learned_nothing_is_written(tmp_path: Path) -> None:
    estimates, kept = taught(), memory(tmp_path)
    await kept.save(estimates)
    (tmp_path / FILE_NAME).unlink()
    await kept.save(estimates)
    assert names_in(tmp_path) == []
    learn(estimates)
    await kept.save(estimates)
    assert (tmp_path / FILE_NAME).exists()


async def test_it_saves_now_and_then(tmp_path: Path) -> None:
    kept, estimates = memory(tmp_path, save_every_s=0.001), Estimates(8)
    async with kept.kept(estimates):
        learn(estimates)
        await eventually(lambda: FILE_NAME in names_in(tmp_path))
        assert (await remembered(tmp_path)).speed(REPLICA) is not None


async def test_it_loads_at_the_beginning_and_saves_at_the_end(tmp_path: Path) -> None:
    first = Estimates(8)
    async with memory(tmp_path).kept(first):
        learn(first)
    second = Estimates(8)
    async with memory(tmp_path).kept(second):
        assert second.speed(REPLICA) == first.speed(REPLICA)


async def test_whoever_fails_inside_fails_as_himself_and_it_is_saved(tmp_path: Path) -> None:
    """A group of tasks would put an ExceptionGroup around an address that is in use."""

    async def proxy() -> None:
        estimates = Estimates(8)
        async with memory(tmp_path).kept(estimates):
            learn(estimates)
            raise UnusableAddress("in use")

    with pytest.raises(UnusableAddress):
        await proxy()
    assert (await remembered(tmp_path)).speed(REPLICA) is not None


async def test_a_cancelled_proxy_keeps_what_it_learned(tmp_path: Path) -> None:
    estimates, entered = Estimates(8), asyncio.Event()

    async def proxy() -> None:
        async with memory(tmp_path).kept(estimates):
            learn(estimates)
            entered.set()
            await asyncio.Event().wait()

    async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as tasks:
        running = tasks.create_task(proxy())
        await entered.wait()
        running.cancel()
    assert (await remembered(tmp_path)).speed(REPLICA) is not None


async def test_of_two_writes_under_way_the_newer_one_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first is given up while its thread waits for the disk; the next must not overtake it."""
    fsync, slow, go_on = os.fsync, threading.Event(), threading.Event()

    def fsync_slow_at_first(handle: int) -> None:
        if not slow.is_set():
            slow.set()
            assert go_on.wait(LIMIT_S)
        fsync(handle)

    monkeypatch.setattr("os.fsync", fsync_slow_at_first)
    kept, newer = memory(tmp_path), taught(3.0)
    async with asyncio.TaskGroup() as tasks:
        given_up = tasks.create_task(kept.save(taught()))
        await eventually(slow.is_set)
        given_up.cancel()
        second = tasks.create_task(kept.save(newer))
        await asyncio.wait([second], timeout=0.05)  # it would be through by then, if it could
        go_on.set()
    await asyncio.get_running_loop().shutdown_default_executor()
    estimates = Estimates(8)
    estimates.restore(decode_learned((tmp_path / FILE_NAME).read_bytes()))
    assert estimates.speed(REPLICA) == newer.speed(REPLICA)


async def test_a_proxy_that_starts_again_knows_its_engines(tmp_path: Path) -> None:
    engine_rate = 2000.0
    async with EchoEngine(
        EchoSettings(prefill_rate_tokens_per_s=engine_rate, decode_rate_tokens_per_s=500.0)
    ) as engine:
        settings = Settings(nodes=(FixedNode(engine.url),))
        settings = replace(settings, proxy=replace(settings.proxy, listen=("127.0.0.1:0",)))
        async with Proxy(settings, proxy_id="first", memory=memory(tmp_path)) as proxy:
            await ask(proxy.addresses[0])
        async with Proxy(settings, proxy_id="second", memory=memory(tmp_path)) as proxy:
            (known,) = proxy.scheduler.matching.outlook.estimates.learned().replicas
    assert known.prefill_tokens_per_s is not None
    assert known.prefill_tokens_per_s.value == pytest.approx(engine_rate, rel=0.05)


async def ask(address: str) -> None:
    """One call of a few hundred tokens, from a client that waits for the house to be ready."""
    words = " ".join(f"word{number}" for number in range(300))
    body = {"model": "echo", "max_tokens": 8, "messages": [{"role": "user", "content": words}]}
    async with (
        aiohttp.ClientSession() as client,
        client.post(f"http://{address}/v1/chat/completions", json=body) as answer,
    ):
        assert answer.status == 200
        await answer.read()
