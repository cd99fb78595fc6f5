"""The embedded engine as it is: a process, a real model, real sockets."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from pair.core.reports import ReplicaState
from pair.engines import embedded, embedded_process
from pair.engines.embedded import EmbeddedEngine, EmbeddedOptions
from pair.engines.finder import recognise
from pair.engines.model_file import small_model_path
from pair.errors import PairError, SettingsError, UnreachableNode
from pair.wire.engine_errors import classify_answer
from tests.engines.scripted_engine import session

pytestmark = pytest.mark.engine

START_LIMIT_S = 60.0
"""Of a test machine that does ten other things; it takes half a second alone."""


def options(file: Path | None = None, **changes: Any) -> EmbeddedOptions:
    """One slot on one thread, so that tests beside it have a core left."""
    given: dict[str, Any] = {"name": "small", "slots": 1, "context_tokens": 1024, "threads": 1}
    return EmbeddedOptions(file=file or small_model_path(), **(given | changes))


@pytest.fixture
async def asking() -> AsyncIterator[aiohttp.ClientSession]:
    async with session(30.0) as opened:
        yield opened


@pytest.fixture
def warned(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set when the engine has logged a warning."""
    event = asyncio.Event()
    monkeypatch.setattr(embedded.logger, "handlers", [_Setter(event)])
    return event


class _Setter(logging.Handler):
    def __init__(self, event: asyncio.Event) -> None:
        super().__init__(logging.WARNING)
        self._event = event

    def emit(self, record: logging.LogRecord) -> None:
        self._event.set()


async def ready(engine: EmbeddedEngine) -> None:
    async with asyncio.timeout(START_LIMIT_S):
        await engine.ready()


async def chat(
    asking: aiohttp.ClientSession, engine: EmbeddedEngine, prompt: str, **more: Any
) -> Any:
    body = {"messages": [{"role": "user", "content": prompt}], "max_tokens": 8, **more}
    async with asking.post(f"{engine.url}/v1/chat/completions", json=body) as answer:
        assert answer.status == 200
        return await answer.json()


async def test_it_loads_answers_and_stops(asking: aiohttp.ClientSession) -> None:
    async with EmbeddedEngine(options(slots=2)) as engine:
        loading = await engine.report(asking)
        await ready(engine)
        report = await engine.report(asking)
        answer = await chat(asking, engine, "Say hello.")
        same = await recognise(asking, engine.url)
        loop = asyncio.get_running_loop()
        before = loop.time()
    assert loop.time() - before < embedded.STOP_LIMIT_S
    assert [(r.model, r.state, r.slots, r.context_tokens) for r in loading.replicas] == [
        ("small", ReplicaState.LOADING, 2, 1024)
    ]
    (replica,) = report.replicas
    assert (replica.engine, replica.engine_kind, replica.model) == ("embedded", "llamacpp", "small")
    assert (replica.state, replica.slots, replica.context_tokens) == (ReplicaState.READY, 2, 1024)
    assert (replica.running, replica.waiting, replica.resident) == (0, 0, True)
    assert replica.cache_tokens == embedded_process.PROMPT_CACHE_MIB * 1024**2 // 23_040
    assert same.kind == "llamacpp"
    assert answer["usage"]["completion_tokens"] > 0
    assert answer["timings"]["cache_n"] >= 0
    with pytest.raises(UnreachableNode):
        await recognise(asking, engine.url)


async def test_its_words_are_those_that_pair_knows(asking: aiohttp.ClientSession) -> None:
    """A real llama.cpp, for a prompt that does not fit and for a path that is not there."""
    async with EmbeddedEngine(options(slots=1)) as engine:
        await ready(engine)
        long = {"messages": [{"role": "user", "content": "one two three " * 2000}]}
        said = []
        for path in ("/v1/chat/completions", "/v1/nothing"):
            async with asking.post(engine.url + path, json=long) as answer:
                said.append((answer.status, await answer.read()))
    (too_long, words), (missing, page) = said
    assert (too_long, missing) == (400, 404)
    assert b"exceed" in words
    for status in (400, 500):
        assert classify_answer(status, lambda _: None, words) is None
    assert classify_answer(404, lambda _: None, page) is None


async def test_the_same_beginning_of_a_prompt_is_read_once(asking: aiohttp.ClientSession) -> None:
    async with EmbeddedEngine(options()) as engine:
        await ready(engine)
        start = "one two three four five six seven eight nine ten " * 5
        first = await chat(asking, engine, start + "a")
        second = await chat(asking, engine, start + "b")
    assert first["timings"]["cache_n"] < 20
    assert second["timings"]["cache_n"] > 50


@pytest.mark.parametrize("streamed", [True, False])
async def test_it_stops_working_for_a_client_that_left(
    asking: aiohttp.ClientSession, streamed: bool
) -> None:
    """A streamed answer at the next token, another one at llama.cpp's next look, once a second."""
    async with EmbeddedEngine(options()) as engine:
        await ready(engine)
        body = json.dumps(
            {
                "messages": [{"role": "user", "content": "Tell a long story."}],
                "max_tokens": 1000,
                "ignore_eos": True,
                "stream": streamed,
            }
        ).encode()
        port = int(engine.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        )
        if streamed:
            await reader.readuntil(b"data:")
        writer.transport.abort()
        # It has one slot: the next answer comes when that is free, long before 1000 tokens.
        answer = await chat(asking, engine, "Say hello.", max_tokens=1)
        assert answer["usage"]["completion_tokens"] == 1
        metrics = await asking.get(f"{engine.url}/metrics")
        generated = [
            float(line.split()[1])
            for line in (await metrics.text()).splitlines()
            if line.startswith("llamacpp:tokens_predicted_total ")
        ]
    assert generated[0] < 500


async def test_an_engine_that_was_killed_is_started_again(
    asking: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch, warned: asyncio.Event
) -> None:
    monkeypatch.setattr(embedded, "FIRST_PAUSE_S", 0.5)
    async with EmbeddedEngine(options()) as engine:
        await ready(engine)
        first = engine.process_id
        assert first is not None
        os.kill(first, signal.SIGKILL)
        async with asyncio.timeout(START_LIMIT_S):
            await warned.wait()
        with pytest.raises(UnreachableNode, match="was killed by signal 9"):
            await engine.report(asking)
        await ready(engine)
        report = await engine.report(asking)
        await chat(asking, engine, "Say hello.")
        assert engine.process_id not in (first, None)
    assert [replica.state for replica in report.replicas] == [ReplicaState.READY]


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
async def test_a_signal_to_all_does_not_end_it_before_the_node(
    asking: aiohttp.ClientSession, name: str
) -> None:
    async with EmbeddedEngine(options()) as engine:
        await ready(engine)
        process = engine.process_id
        assert process is not None
        os.kill(process, signal.Signals[name])
        await chat(asking, engine, "Say hello.")
        assert engine.process_id == process


NODE = """
import asyncio
from pathlib import Path
from pair.engines.embedded import EmbeddedEngine, EmbeddedOptions

async def main():
    async with EmbeddedEngine(EmbeddedOptions(Path({file!r}), "small", 1, 1024, 1)) as engine:
        await engine.ready()
        print(engine.url, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_it_does_not_outlive_a_node_that_was_killed(asking: aiohttp.ClientSession) -> None:
    code = NODE.format(file=str(small_model_path()))
    root = Path(embedded.__file__).parents[2]
    node = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=subprocess.PIPE, cwd=root
    )
    assert node.stdout is not None
    async with asyncio.timeout(START_LIMIT_S):
        url = (await node.stdout.readline()).decode().strip()
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        node.kill()
        await node.wait()
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
    with pytest.raises(UnreachableNode):
        await recognise(asking, url)


async def test_it_can_be_left_while_it_loads() -> None:
    async with asyncio.timeout(START_LIMIT_S):
        async with EmbeddedEngine(options()) as engine:
            pass
    assert engine.process_id is None


async def test_what_goes_wrong_around_it_goes_on_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError):
        async with EmbeddedEngine(options()):
            raise ZeroDivisionError


async def _failure(engine: EmbeddedEngine, asking: aiohttp.ClientSession) -> PairError:
    async with engine:
        with pytest.raises(PairError) as raised:
            await ready(engine)
        with pytest.raises(UnreachableNode) as again:
            await engine.report(asking)
    assert str(again.value) == str(raised.value)
    assert "\n" not in str(raised.value)
    return raised.value


async def test_a_damaged_file(
    asking: aiohttp.ClientSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "damaged.gguf"
    file.write_bytes(b"GGUF" + b"\0" * 100)
    fault = await _failure(EmbeddedEngine(options(file)), asking)
    assert isinstance(fault, SettingsError)
    assert str(file) in str(fault)
    assert "bad GGUF version" in str(fault)
    assert capfd.readouterr() == ("", "")


async def test_a_process_that_ends_before_it_has_begun(
    asking: aiohttp.ClientSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "broken.py"
    script.write_text("raise SystemExit('nothing works here')", encoding="ascii")
    monkeypatch.setattr(embedded_process, "__file__", str(script))
    fault = await _failure(EmbeddedEngine(options()), asking)
    assert str(fault) == "the embedded engine ended with code 1: nothing works here"


async def test_a_model_larger_than_the_memory(
    asking: aiohttp.ClientSession, tmp_path: Path
) -> None:
    file = tmp_path / "huge.gguf"
    with file.open("wb") as sparse:
        sparse.write(b"GGUF")
        sparse.truncate(2**43)
    fault = await _failure(EmbeddedEngine(options(file)), asking)
    assert isinstance(fault, SettingsError)
    assert "takes 8796.1 GB of memory and less is free" in str(fault)


async def test_a_port_that_is_taken(asking: aiohttp.ClientSession) -> None:
    engine = EmbeddedEngine(options())
    port = int(engine.url.rpartition(":")[2])
    async with await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", port):
        fault = await _failure(engine, asking)
    assert "couldn't bind" in str(fault)
    assert str(port) in str(fault)


def test_files_that_it_cannot_run_are_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="there is no model file"):
        EmbeddedEngine(options(tmp_path / "missing.gguf"))


def test_without_xllamacpp_the_user_learns_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SettingsError, match=r"pip install 'pair\[engine\]'"):
        EmbeddedEngine(options(Path("any.gguf")))


async def test_the_model_is_called_by_its_file_unless_it_has_a_name(
    asking: aiohttp.ClientSession,
) -> None:
    async with EmbeddedEngine(options(name="")) as engine:
        await ready(engine)
        report = await engine.report(asking)
    assert [replica.model for replica in report.replicas] == ["SmolLM2-135M-Instruct.Q4_1"]
