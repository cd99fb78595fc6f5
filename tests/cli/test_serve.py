from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from pair.bench.echo_engine import EchoEngine, EchoModel, EchoSettings
from pair.cli.serve import Parts, node_lines, proxy_lines
from pair.engines.model_file import small_model_path
from pair.settings import FixedNode, NodeSettings, ProxySettings, Settings
from tests.cli.conftest import Pair
from tests.cli.processes import PairProcess, pair_process

FREE = "127.0.0.1:0"
ALONE = Parts(proxy=True, node=False, node_listen_flag="")
SLOW = EchoSettings(models=(EchoModel("tiny"),), decode_rate_tokens_per_s=20.0, answer_tokens=10)


async def proxy_url(process: PairProcess) -> str:
    return f"http://{(await process.line_with('proxy at')).split()[2]}"


def chat(tokens: int = 10) -> dict[str, object]:
    message = {"role": "user", "content": "say something"}
    return {"model": "tiny", "messages": [message], "max_tokens": tokens, "stream": True}


def named(*nodes: FixedNode, discovery: bool = True, listen: str = FREE) -> Settings:
    proxy = ProxySettings(listen=(listen,), discovery=discovery)
    return Settings(proxy=proxy, nodes=nodes)


async def test_up_is_proxy_and_node_and_finds_its_own_engine(home: Path) -> None:
    async with EchoEngine(SLOW) as engine:
        flags = ("--listen", FREE, "--no-discovery", "--node-listen", FREE, "--name", "attic")
        engines = ("--no-find-engines", "--engine", engine.url)
        async with pair_process(home, "up", *flags, *engines) as process:
            url = await proxy_url(process)
            assert f"OPENAI_BASE_URL={url}/v1" in await process.line_with("for your tools")
            await process.line_with("node attic at 127.0.0.1:")
            assert "--node-listen 0.0.0.0:" in await process.line_with("only this machine")
            await process.line_with("node attic: ready, tiny (1 slot)")
            async with pair_process(home, "nodes", "--proxy", url, "--json") as asking:
                out, err = await asking.rest()
            (node,) = json.loads(out)
            assert (node["name"], node["phase"], err) == ("attic", "ready", "")
            assert [replica["model"] for replica in node["replicas"]] == ["tiny"]
            async with (
                aiohttp.ClientSession(url) as session,
                session.post("/v1/chat/completions", json=chat()) as answer,
            ):
                assert answer.status == 200
                assert answer.headers["x-pair-node"] == "attic"
                await answer.read()
            process.signal(signal.SIGTERM)
            assert await process.end() == 0
            out, err = await process.rest()
            assert out.splitlines()[-1] == "stopped"
            assert err == ""


async def test_strategies_are_for_all_models_and_for_single_ones(home: Path) -> None:
    strategies = ("--strategy", "m=queue-depth", "--strategy", "round-robin")
    async with pair_process(home, "serve", "--listen", FREE, "--no-discovery", *strategies) as one:
        url = await proxy_url(one)
        async with pair_process(home, "strategy", "--proxy", url, "--json") as asking:
            out, err = await asking.rest()
        shown = json.loads(out)
        assert (shown["strategy"], shown["models"], err) == (
            "round-robin",
            {"m": "queue-depth"},
            "",
        )
        one.signal(signal.SIGTERM)
        assert await one.end() == 0


async def test_a_stopped_proxy_takes_nothing_new_and_lets_answers_end(home: Path) -> None:
    async with EchoEngine(SLOW) as engine:
        flags = ("--listen", FREE, "--no-discovery", "--node", f"{engine.url},name=cellar")
        async with pair_process(home, "serve", *flags) as process:
            url = await proxy_url(process)
            await process.line_with("node cellar: ready")
            async with aiohttp.ClientSession(url) as session:
                async with session.post("/v1/chat/completions", json=chat()) as answer:
                    await answer.content.readany()
                    process.signal(signal.SIGTERM)
                    await process.line_with("may end within 30 s; Ctrl-C ends it at once")
                    rest = await answer.content.read()
                    assert b"data: [DONE]" in rest
                with pytest.raises(aiohttp.ClientConnectionError):
                    await session.get("/healthz")
            assert await process.end() == 0


async def test_a_proxy_lives_on_when_nobody_reads_what_it_says(home: Path) -> None:
    reading, writing = os.pipe()
    async with EchoEngine(SLOW) as engine:
        flags = ("--listen", FREE, "--no-discovery", "--node", engine.url)
        async with pair_process(home, "serve", *flags, stdout=writing) as process:
            os.close(writing)
            first = await asyncio.to_thread(os.read, reading, 1024)
            os.close(reading)
            url = first.decode().split()[2]
            # Every later line fails, "node ...: ready" being one of them.
            async with (
                aiohttp.ClientSession(f"http://{url}") as session,
                session.post("/v1/chat/completions", json=chat()) as answer,
            ):
                assert answer.status == 200
                await answer.read()
            process.signal(signal.SIGTERM)
            assert await process.end() == 0
            assert (await process.rest())[1] == ""


async def test_the_second_signal_cuts(home: Path) -> None:
    async with EchoEngine(SLOW) as engine:
        flags = ("--listen", FREE, "--no-discovery", "--node", engine.url)
        async with pair_process(home, "serve", *flags) as process:
            url = await proxy_url(process)
            await process.line_with("ready, tiny")
            async with (
                aiohttp.ClientSession(url) as session,
                session.post("/v1/chat/completions", json=chat(2000)) as answer,
            ):
                await answer.content.readany()
                process.signal(signal.SIGINT)
                await process.line_with("stopping")
                process.signal(signal.SIGTERM)
                assert await process.end() == 143
                with pytest.raises(aiohttp.ClientError):
                    await answer.content.read()
            assert "Traceback" not in (await process.rest())[1]


async def test_a_node_alone_serves_its_report_and_ends_in_order(home: Path) -> None:
    async with EchoEngine(SLOW) as engine:
        flags = ("--listen", FREE, "--no-find-engines", "--engine", engine.url, "--slots", "3")
        async with pair_process(home, "node", *flags, "--name", "attic") as process:
            address = (await process.line_with("node attic at")).split()[3]
            await process.line_with(": tiny (3 slots)")
            async with (
                aiohttp.ClientSession(f"http://{address}") as session,
                session.get("/pair/v1/report") as answer,
            ):
                report = json.loads(await answer.read())
            assert report["node"] == (home / "node-id").read_text().strip()
            assert report["name"] == "attic"
            process.signal(signal.SIGTERM)
            assert await process.end() == 0


async def test_what_the_file_says_survives_a_restart(home: Path, pair: Pair) -> None:
    async with EchoEngine(SLOW) as engine:
        settings = (("proxy.listen", FREE), ("proxy.discovery", "no"), ("nodes", engine.url))
        for key, value in settings:
            await asyncio.to_thread(pair, "settings", "set", key, value)
        for _ in range(2):
            async with pair_process(home, "serve") as process:
                await process.line_with("not looking for nodes, 1 node named by you")
                await process.line_with("ready, tiny (1 slot)")
                process.signal(signal.SIGTERM)
                assert await process.end() == 0


EMBEDDED = ("node", "--listen", FREE, "--no-find-engines", "--threads", "1", "--context", "256")


@pytest.mark.engine
async def test_a_node_runs_a_model_file_without_any_engine(home: Path) -> None:
    flags = ("--model", str(small_model_path()), "--slots", "2")
    async with pair_process(home, *EMBEDDED, *flags) as process:
        await process.line_with("into the embedded llama.cpp")
        await process.line_with("(2 slots)")
        process.signal(signal.SIGTERM)
        assert await process.end() == 0


@pytest.mark.engine
async def test_a_model_that_cannot_be_loaded_ends_the_node(home: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    with small_model_path().open("rb") as whole:
        broken.write_bytes(whole.read(1_000_000))
    async with pair_process(home, *EMBEDDED, "--model", str(broken)) as process:
        assert await process.end() == 1
        _, err = await process.rest()
    assert err.startswith(f"pair: llama.cpp can't run {broken}")
    assert len(err.splitlines()) == 1


def test_a_model_that_is_not_there_is_told_at_once(pair: Pair) -> None:
    run = pair(*EMBEDDED, "--model", "none.gguf")
    assert (run.code, run.out, run.err) == (2, "", "pair: there is no model file none.gguf\n")


def test_the_same_mistake_in_the_environment_or_file_is_no_wrong_usage(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in (("NODE_SLOTS", "-1"), ("PROXY_STRATEGY", "typo")):
        with monkeypatch.context() as patch:
            patch.setenv(f"PAIR_{variable}", value)
            assert pair("up").code == 1, variable
            assert pair("up", "--slots", "-2").code == 2, "a flag is wrong, too"
    monkeypatch.setenv("PAIR_NODE_MODEL", "none.gguf")
    assert pair(*EMBEDDED).code == 1


@pytest.mark.parametrize(
    ("command", "flag", "more"),
    [
        ("serve", "--listen", ["--no-discovery"]),
        ("node", "--listen", ["--no-find-engines"]),
        ("up", "--listen", ["--no-discovery", "--no-find-engines", "--node-listen", FREE]),
        ("up", "--node-listen", ["--no-discovery", "--no-find-engines", "--listen", FREE]),
    ],
    ids=["serve", "node", "up's proxy", "up's node"],
)
def test_a_port_in_use_is_one_sentence_with_the_flag(
    pair: Pair, command: str, flag: str, more: list[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        run = pair(command, flag, address, *more)
    assert run.code == 1
    sentence = f"cannot listen on {address}: it is in use; choose another address with {flag}"
    assert run.err == f"pair: {sentence}\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["serve", "--strategy", "queue-depht"], "the nearest one is queue-depth"),
        (
            ["serve", "--strategy", "m=queue-depht"],
            "--strategy: strategies is wrong: 'queue-depht'",
        ),
        (["serve", "--strategy", "=queue-depth"], "right is MODEL=NAME"),
        (
            ["serve", "--strategy", "queue-depth", "--strategy", "round-robin"],
            "--strategy names queue-depth and round-robin for all models",
        ),
        (
            ["up", "--strategy", "m=queue-depth", "--strategy", "m=round-robin"],
            "--strategy: strategies has m twice",
        ),
        (["serve", "--node", "https://a"], "--node: nodes is wrong: the node 'https://a'"),
        (
            ["serve", "--node", "http://a:1", "--node", "http://a:1"],
            "--node: nodes has http://a:1 twice",
        ),
        (["serve", "--listen", "7247"], "--listen: proxy.listen is wrong"),
        (["serve", "--config", "none.toml"], "there is no file none.toml"),
        (["node", "--slots", "-1"], "--slots: node.slots is -1"),
        (["node", "--engine", "ollama"], "--engine: node.engines has 'ollama'"),
        (["node", "--listen", "/run/pair.sock"], "is a path; a node listens on HOST:PORT"),
    ],
)
def test_a_wrong_flag_is_named_and_nothing_starts(
    pair: Pair, arguments: list[str], words: str
) -> None:
    run = pair(*arguments)
    assert (run.code, run.out) == (2, "")
    assert words in run.err
    assert len(run.err.splitlines()) == 1


def test_a_damaged_id_stops_the_start(pair: Pair, home: Path) -> None:
    home.mkdir()
    (home / "node-id").write_text("x")
    run = pair("serve", "--no-discovery")
    assert run.code == 1
    assert "holds no node id" in run.err


def test_a_proxy_says_who_can_use_it_and_where_its_nodes_come_from() -> None:
    home = list(proxy_lines(named(), ["127.0.0.1:7247"], ALONE))
    assert home == [
        "proxy at 127.0.0.1:7247",
        "for your tools: OPENAI_BASE_URL=http://127.0.0.1:7247/v1",
        "looking for nodes by mDNS",
    ]
    addresses = ["0.0.0.0:7247", "/run/pair.sock"]
    listed = named(FixedNode("http://a:1"), FixedNode("http://b:1"))
    assert list(proxy_lines(listed, addresses, ALONE)) == [
        "proxy at 0.0.0.0:7247, /run/pair.sock",
        "for your tools: OPENAI_BASE_URL=http://127.0.0.1:7247/v1",
        "anyone who can reach 0.0.0.0:7247 can use this proxy",
        "looking for nodes by mDNS, and 2 nodes named by you",
    ]
    (*_, own) = proxy_lines(named(discovery=False), ["/run/pair.sock"], replace(ALONE, node=True))
    assert own == "not looking for nodes, and none named: only the node here answers"
    (*_, nobody) = proxy_lines(named(discovery=False), ["/run/pair.sock"], ALONE)
    assert nobody == ("not looking for nodes, and none named: nobody can answer until you name one")


def test_a_node_off_loopback_says_plainly_who_can_use_it() -> None:
    parts = Parts(proxy=False, node=True, node_listen_flag="--listen")
    lines = list(node_lines(Settings(), "attic", "192.168.1.20:7248", parts))
    assert lines == [
        "node attic at 192.168.1.20:7248",
        "anyone on that network can use this node until machines can be paired",
        "looking for engines on the usual ports",
    ]
    none = Settings(node=NodeSettings(find_engines=False))
    (*_, last) = node_lines(none, "attic", "127.0.0.1:7248", parts)
    assert last == "no engine: name one with --engine or a model with --model"
    embedded = Settings(node=NodeSettings(find_engines=False, model="a.gguf"))
    (*_, last) = node_lines(embedded, "attic", "127.0.0.1:7248", parts)
    assert last == "loading a.gguf into the embedded llama.cpp"
