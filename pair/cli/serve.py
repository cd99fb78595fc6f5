"""`pair up`, `pair serve`, `pair node`: what runs until it is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import typer

from pair.agent.service import Node
from pair.cli import exit_codes
from pair.cli.addresses import is_loopback, tcp_address, within_machine
from pair.cli.announcer import Line, Words, announce, engine_words, node_words
from pair.cli.config import Given
from pair.cli.environment import own_config, own_folders
from pair.cli.event_loop import run_until_stopped
from pair.cli.folders import node_id
from pair.cli.options import (
    ConfigOption,
    ContextOption,
    DiscoveryOption,
    EngineOption,
    FindOption,
    FixedNodeOption,
    ListenOption,
    ModelOption,
    NameOption,
    NodeListenOption,
    SlotsOption,
    StrategyOption,
    Texts,
    ThreadsOption,
    UpNodeListenOption,
)
from pair.cli.output import mention, warn
from pair.cli.wiring import (
    make_proxy,
    node_name,
    own_sighting,
    running_node,
)
from pair.core.names import NodeId
from pair.core.snapshot import take_snapshot
from pair.engines.model_file import model_file
from pair.errors import UnusableAddress
from pair.proxy.service import Proxy
from pair.relay.addresses import TcpAddress, parse_address
from pair.settings import Settings
from pair.terminal.figures import several


def serve(
    listen: ListenOption = None,
    node: FixedNodeOption = None,
    discovery: DiscoveryOption = None,
    strategy: StrategyOption = None,
    config: ConfigOption = None,
) -> None:
    """Run the proxy on this machine: it finds the nodes and gives them its clients' calls."""
    flags = _proxy_flags(listen, node, discovery, strategy)
    _run(flags, config, Parts(proxy=True, node=False, node_listen_flag=""))


def node(
    engine: EngineOption = None,
    model: ModelOption = None,
    slots: SlotsOption = None,
    name: NameOption = None,
    listen: NodeListenOption = None,
    threads: ThreadsOption = None,
    context: ContextOption = None,
    find_engines: FindOption = None,
    config: ConfigOption = None,
) -> None:
    """Run a node on this machine: it offers the engines here to the proxies of the house."""
    flag = "--listen"
    flags = _node_flags(engine, model, slots, name, {flag: listen}, threads, context, find_engines)
    _run(flags, config, Parts(proxy=False, node=True, node_listen_flag=flag))


def up(
    listen: ListenOption = None,
    node: FixedNodeOption = None,
    discovery: DiscoveryOption = None,
    strategy: StrategyOption = None,
    engine: EngineOption = None,
    model: ModelOption = None,
    slots: SlotsOption = None,
    name: NameOption = None,
    node_listen: UpNodeListenOption = None,
    threads: ThreadsOption = None,
    context: ContextOption = None,
    find_engines: FindOption = None,
    config: ConfigOption = None,
) -> None:
    """Run proxy and node in one process: what most machines of a house need."""
    flag = "--node-listen"
    flags = {
        **_proxy_flags(listen, node, discovery, strategy),
        **_node_flags(
            engine, model, slots, name, {flag: node_listen}, threads, context, find_engines
        ),
    }
    _run(flags, config, Parts(proxy=True, node=True, node_listen_flag=flag))


Flags = dict[str, Given]


def _proxy_flags(listen: Texts, nodes: Texts, discovery: bool | None, strategies: Texts) -> Flags:
    of_models = [each for each in strategies or [] if "=" in each]
    of_all = [each for each in strategies or [] if "=" not in each]
    if len(of_all) > 1:
        raise exit_codes.UsageFault(
            f"--strategy names {' and '.join(of_all)} for all models; put MODEL= before those that"
            " are for one"
        )
    return {
        "proxy.listen": Given(listen, "--listen"),
        "nodes": Given(nodes, "--node"),
        "proxy.discovery": Given(discovery, "--discovery"),
        "proxy.strategy": Given(of_all[0] if of_all else None, "--strategy"),
        "strategies": Given(of_models, "--strategy"),
    }


def _node_flags(
    engines: Texts,
    model: Path | None,
    slots: int | None,
    name: str | None,
    listen: Mapping[str, str | None],
    threads: int | None,
    context: int | None,
    find_engines: bool | None,
) -> Flags:
    ((listen_flag, listen_value),) = listen.items()
    return {
        "node.engines": Given(engines, "--engine"),
        "node.model": Given(None if model is None else str(model), "--model"),
        "node.slots": Given(slots, "--slots"),
        "node.name": Given(name, "--name"),
        "node.listen": Given(listen_value, listen_flag),
        "node.threads": Given(threads, "--threads"),
        "node.context_tokens": Given(context, "--context"),
        "node.find_engines": Given(find_engines, "--find-engines"),
    }


@dataclass(frozen=True, slots=True)
class Parts:
    """What runs in this process; `node_listen_flag` is what moves the node to another address."""

    proxy: bool
    node: bool
    node_listen_flag: str


def _run(flags: Flags, file: Path | None, parts: Parts) -> NoReturn:
    config = own_config(flags, file)
    if config.places.get("node.model") == "--model":
        with exit_codes.usage():
            model_file(Path(config.settings.node.model).expanduser())
    for sentence in config.warnings:
        warn(sentence)
    machine = node_id(own_folders().state)

    async def program(stop: asyncio.Event) -> int:
        await _until_stopped(config.settings, machine, parts, stop)
        return exit_codes.OK

    raise typer.Exit(run_until_stopped(program))


async def _until_stopped(
    settings: Settings, machine: NodeId, parts: Parts, stop: asyncio.Event
) -> None:
    async with AsyncExitStack() as stack:
        node = proxy = own = None
        if parts.node:
            with _in_use_flag(parts.node_listen_flag):
                node = await stack.enter_async_context(running_node(settings, machine))
            own = own_sighting(settings, machine, node)
        if parts.proxy:
            with _in_use_flag("--listen"):
                made = make_proxy(settings, machine, own_folders().state, own)
                proxy = await stack.enter_async_context(made)
            for line in proxy_lines(settings, proxy.addresses, parts):
                mention(line)
        if node is not None:
            for line in node_lines(settings, node_name(settings), node.address, parts):
                mention(line)
        async with asyncio.TaskGroup() as tasks:
            beside = [tasks.create_task(announce(lambda: _words(proxy, node), mention))]
            if proxy is not None:
                beside.append(tasks.create_task(proxy.sound()))
            if node is not None:
                # A model that cannot be loaded ends the command: there is nothing to offer.
                beside.append(tasks.create_task(node.ready()))
            await stop.wait()
            for task in beside:
                task.cancel()
        drain_s = settings.proxy.drain_s
        mention(f"stopping: what runs may end within {drain_s:g} s; Ctrl-C ends it at once")
        await _drain(settings.proxy.drain_s, proxy, node)
    mention("stopped")


def _words(proxy: Proxy | None, node: Node | None) -> Words:
    words: dict[str, Line] = {}
    if node is not None:
        words |= engine_words(node.report())
    if proxy is not None:
        now = asyncio.get_running_loop().time()
        words |= node_words(take_snapshot(proxy.scheduler, now))
    return words


async def _drain(limit_s: float, proxy: Proxy | None, node: Node | None) -> None:
    """The proxy first: what it still has open may run on the node beside it."""
    loop = asyncio.get_running_loop()
    until = loop.time() + limit_s
    if proxy is not None:
        await proxy.drain(limit_s)
    if node is not None:
        await node.drain(max(0.0, until - loop.time()))


@contextmanager
def _in_use_flag(flag: str) -> Iterator[None]:
    """Say which flag moves what cannot listen where it should."""
    try:
        yield
    except UnusableAddress as fault:
        raise UnusableAddress(f"{fault}; choose another address with {flag}") from fault


# --- what is said at the start --------------------------------------------------------------------


def proxy_lines(settings: Settings, addresses: Sequence[str], parts: Parts) -> Iterator[str]:
    """Where the proxy is, what a client must set, and where nodes come from."""
    parsed = [parse_address(text) for text in addresses]
    tcp = [address for address in parsed if isinstance(address, TcpAddress)]
    yield f"proxy at {', '.join(addresses)}"
    if tcp:
        yield f"for your tools: OPENAI_BASE_URL=http://{within_machine(tcp[0])}/v1"
    open_to = [str(address) for address in tcp if not is_loopback(address)]
    if open_to:
        yield f"anyone who can reach {', '.join(open_to)} can use this proxy"
    named = several(len(settings.nodes), "node") + " named by you"
    if settings.proxy.discovery:
        yield f"looking for nodes by mDNS{f', and {named}' if settings.nodes else ''}"
    elif settings.nodes:
        yield f"not looking for nodes, {named}"
    elif parts.node:
        yield "not looking for nodes, and none named: only the node here answers"
    else:
        yield "not looking for nodes, and none named: nobody can answer until you name one"


def node_lines(settings: Settings, name: str, address: str, parts: Parts) -> Iterator[str]:
    """Where the node is, who can use it, and where its engines come from."""
    yield f"node {name} at {address}"
    if is_loopback(tcp_address(address)):
        port = tcp_address(address).port
        yield (
            f"only this machine can use the node; {parts.node_listen_flag} 0.0.0.0:{port} offers it"
            " to your network, where anyone can then use it"
        )
    else:
        yield "anyone on that network can use this node until machines can be paired"
    if settings.node.model:
        yield f"loading {settings.node.model} into the embedded llama.cpp"
    found = ["the usual ports"] if settings.node.find_engines else []
    named = [engine.url for engine in settings.node.engines]
    if found or named:
        yield f"looking for engines on {', '.join([*found, *named])}"
    elif not settings.node.model:
        yield "no engine: name one with --engine or a model with --model"
