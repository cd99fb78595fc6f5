"""`pair strategy`: how replicas are chosen, and choosing them otherwise while the proxy runs."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from pair.cli.environment import own_config
from pair.cli.event_loop import run
from pair.cli.exit_codes import UsageFault
from pair.cli.knobs import BY_MODEL
from pair.cli.options import JsonOption, ProxyOption
from pair.cli.output import say, show, show_json, warn
from pair.cli.running_proxy import Json, RunningProxy, proxy_url
from pair.core.strategies import STRATEGIES
from pair.terminal.figures import plain
from pair.terminal.panels import table_of

NameArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME",
        help=f"The strategy to use from now on: {', '.join(STRATEGIES)}. Without it, what is used.",
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option("--model", metavar="MODEL", help="For this model only, by the name in calls."),
]


def strategy(
    name: NameArgument = None,
    model: ModelOption = None,
    proxy: ProxyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show how the running proxy chooses replicas, or switch it.

    A switch lasts until the proxy stops; `pair settings set` keeps it. Calls that wait are chosen
    for by the new one, calls that run are left alone.
    """
    if name is None:
        if model is not None:
            raise UsageFault("--model goes with the NAME of a strategy; without one, all are shown")
        shown = run(_strategy(proxy))
    else:
        shown, held = run(_switched(proxy, name, model))
        if model is not None and not held:
            warn(f"no node holds {plain(model)} now; the strategy waits for one that does")
    if as_json:
        show_json(shown)
        return
    table = table_of("model", "strategy")
    table.add_row("all others" if shown["models"] else "all", Text(plain(shown["strategy"])))
    for each, chosen in sorted(shown["models"].items()):
        table.add_row(Text(plain(each)), Text(plain(chosen)))
    show(table)
    if name is not None:
        say(f"until the proxy stops; to keep it: {_keeping(name, model, shown)}")


async def _strategy(url: str | None) -> Json:
    async with RunningProxy(proxy_url(own_config({}).settings, url)) as proxy:
        return await proxy.strategy()


async def _switched(url: str | None, name: str, model: str | None) -> tuple[Json, bool]:
    """What is in use then, and whether somebody holds the model."""
    async with RunningProxy(proxy_url(own_config({}).settings, url)) as proxy:
        shown = await proxy.switch(name, model)
        nodes = [] if model is None else (await proxy.snapshot())["nodes"]
    replicas = [replica for node in nodes for replica in node["replicas"]]
    names = {each for one in replicas for each in (one["model"], *one["aliases"])}
    return shown, model in names


def _keeping(name: str, model: str | None, shown: Json) -> str:
    if model is None:
        return f"pair settings set proxy.strategy {name}"
    # The list is replaced whole, so all of it is said.
    pairs = [f"{each}={chosen}" for each, chosen in sorted(shown["models"].items())]
    return f"pair settings set {BY_MODEL} {plain(' '.join(pairs))}"
