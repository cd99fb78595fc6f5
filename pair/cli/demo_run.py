"""What the demo does: a fleet on loopback, one proxy, the same calls alone and together.

Nothing is pretended but the engines of `--simulated`: the nodes announce themselves by mDNS, the
proxy finds them there, and the calls come from the `openai` client.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

from pair.bench.comparison import Comparer
from pair.bench.echo_engine import EchoEngine, EchoModel, EchoSettings
from pair.bench.workload import Workload
from pair.cli.measuring import holders, ignore, quiet_of
from pair.cli.running_proxy import Json, RunningProxy
from pair.cli.watching import LOOK_S, Watching
from pair.cli.wiring import make_private_proxy, running_node
from pair.core.names import NodeId
from pair.engines.embedded import EmbeddedEngine, EmbeddedOptions, cores
from pair.engines.model_file import small_model_path
from pair.errors import SilentNode
from pair.settings import NamedEngine, NodeSettings, ProxySettings, Settings
from pair.terminal.figures import several
from pair.terminal.screen import console_on

FREE_PORT: Final = "127.0.0.1:0"
NAMES: Final = ("attic", "cellar", "kitchen", "study", "garage", "hall", "loft", "shed")
JOB: Final = "demo"
SIMULATED_NODES: Final = 3
SIMULATED_MODEL: Final = "echo"
CONTEXT_TOKENS: Final = 1024
"""Of each embedded node: prompt and answer take some 200, and memory is paid for all."""
NODES_LIMIT: Final = 8
"""Each holds its own model and context, some 250 MB."""
SIMULATED_RATE: Final = 40.0
"""Tokens a second: 36 of them and a short prompt take a second, long enough to watch."""
READY_LIMIT_S: Final = 60.0
"""Longest wait for all nodes; a small machine loads the model for seconds."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """What to run the demo on: the model that every node holds, and the nodes by id."""

    model: str
    nodes: tuple[NodeId, ...]


async def run_demo(*, simulated: bool, nodes: int | None, calls: int, output_tokens: int) -> Json:
    """Run the demo to its end and give the proxy's report of the job, with its calls.

    Raises:
        SettingsError: the model or an engine cannot be started.
        NodeFault: the nodes were not found, or a call failed.
    """
    # A real proxy on this machine must not send anybody's calls to the demo's nodes.
    house = f"demo-{secrets.token_hex(8)}"
    async with AsyncExitStack() as stack:
        making = (
            simulated_fleet(nodes or SIMULATED_NODES, house)
            if simulated
            else embedded_fleet(nodes or parallel_nodes(cores(), calls), house)
        )
        fleet = await stack.enter_async_context(making)
        settings = Settings(proxy=ProxySettings(listen=(FREE_PORT,)))
        machine = NodeId(secrets.token_hex(16))
        private = make_private_proxy(settings, machine, house)
        url = f"http://{(await stack.enter_async_context(private)).addresses[0]}"
        proxy = await stack.enter_async_context(RunningProxy(url))
        async with Watching(proxy, console_on(sys.stderr)) as watching:
            watching.step(f"waiting until {several(len(fleet.nodes), 'node')} are found by mDNS")
            await found(proxy, fleet)
            workload = Workload(fleet.model, calls, output_tokens)
            comparer = Comparer(f"{url}/v1", workload, name=JOB, alone_on=fleet.nodes[0])
            watching.step("warming up: one call to each node")
            await comparer.warm_up(fleet.nodes, ignore)
            await comparer.rounds(1, watching.step, quiet_of(proxy), ignore)
        return await proxy.job(JOB)


async def found(proxy: RunningProxy, fleet: Fleet) -> None:
    """Return once every node of the fleet is ready.

    Raises:
        SilentNode: some were not within the limit; the text says what is known of them.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + READY_LIMIT_S
    while len(holders(snapshot := await proxy.snapshot(), fleet.model)) < len(fleet.nodes):
        if loop.time() > until:
            known = [f"{node['name']} is {node['phase']}" for node in snapshot["nodes"]]
            raise SilentNode(
                f"not all nodes were ready after {READY_LIMIT_S:g} s (found by mDNS:"
                f" {', '.join(known) or 'none'}); does this machine allow multicast on loopback?"
            )
        await asyncio.sleep(LOOK_S)


@asynccontextmanager
async def simulated_fleet(count: int, house: str) -> AsyncIterator[Fleet]:
    """Nodes with pretended engines of one slot, on which a call takes about a second."""
    async with AsyncExitStack() as stack:
        ids = []
        for number in range(count):
            engine = EchoEngine(
                EchoSettings(
                    models=(EchoModel(SIMULATED_MODEL),), decode_rate_tokens_per_s=SIMULATED_RATE
                )
            )
            await stack.enter_async_context(engine)
            ids.append(await add_node(stack, node_settings(number, (engine.url,)), house))
        yield Fleet(SIMULATED_MODEL, tuple(ids))


@asynccontextmanager
async def embedded_fleet(count: int, house: str) -> AsyncIterator[Fleet]:
    """Nodes with llama.cpp and a small real model, one thread and one slot each.

    Raises:
        SettingsError: xllamacpp or the model is not installed, or there is not enough memory.
    """
    options = EmbeddedOptions(
        file=small_model_path(), name="", slots=1, context_tokens=CONTEXT_TOKENS, threads=1
    )
    async with AsyncExitStack() as stack:
        engines = [await stack.enter_async_context(EmbeddedEngine(options)) for _ in range(count)]
        ids = []
        for number, engine in enumerate(engines):
            await engine.ready()
            ids.append(await add_node(stack, node_settings(number, (engine.url,)), house))
        yield Fleet(options.file.stem, tuple(ids))


def parallel_nodes(cores: int, calls: int) -> int:
    """One-thread engines that truly run side by side: one a core, but no more than calls to give
    them, and two even where there is one core only, as less would be no house.
    """
    return max(2, min(cores, calls, NODES_LIMIT))


async def add_node(stack: AsyncExitStack, settings: NodeSettings, house: str) -> NodeId:
    """Start a node with an id of its own; it ends with the stack."""
    machine = NodeId(secrets.token_hex(16))
    await stack.enter_async_context(running_node(Settings(node=settings), machine, house))
    return machine


def node_settings(number: int, engines: tuple[str, ...]) -> NodeSettings:
    """One of the demo's nodes: on loopback, with just these engines."""
    name = NAMES[number] if number < len(NAMES) else f"node-{number + 1}"
    named = tuple(map(NamedEngine, engines))
    return NodeSettings(name=name, listen=FREE_PORT, engines=named, find_engines=False)
