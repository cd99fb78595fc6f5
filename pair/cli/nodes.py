"""`pair nodes`, `pair models`: what the proxy has found."""

from __future__ import annotations

from pair.cli.environment import own_config
from pair.cli.event_loop import run
from pair.cli.options import JsonOption, ProxyOption
from pair.cli.output import show, show_json
from pair.cli.running_proxy import Json, RunningProxy, proxy_url
from pair.terminal.panels import models_table, nodes_table


def nodes(proxy: ProxyOption = None, as_json: JsonOption = False) -> None:
    """Show the machines that the proxy knows: their phase, models, slots and load."""
    snapshot = run(_snapshot(proxy))
    if as_json:
        show_json(snapshot["nodes"])
    else:
        show(nodes_table(snapshot) if snapshot["nodes"] else "no node has been found yet")


def models(proxy: ProxyOption = None, as_json: JsonOption = False) -> None:
    """Show the models in the house: on how many nodes, how many slots, who waits."""
    snapshot = run(_snapshot(proxy))
    if as_json:
        show_json(snapshot["models"])
    else:
        show(models_table(snapshot) if snapshot["models"] else "no node holds a model yet")


async def _snapshot(url: str | None) -> Json:
    async with RunningProxy(proxy_url(own_config({}).settings, url)) as proxy:
        return await proxy.snapshot()
