"""Running a bench through a proxy: which model, which baseline, and what came of it.

Apart from the command, because this needs the `openai` client, which takes half a second to import.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from pair.bench.comparison import Comparer, Comparison
from pair.bench.runner import Answer
from pair.bench.workload import Workload
from pair.cli.running_proxy import Json, RunningProxy
from pair.cli.watching import LOOK_S, Watching
from pair.errors import SettingsError
from pair.terminal.screen import console_on

QUIET_LIMIT_S: Final = 5.0
"""Longest wait for an idle house before an arm; a report of a node is at most a second old."""


async def measure(
    url: str,
    model: str | None,
    sizes: Mapping[str, int],
    rounds: int,
    alone_on: str | None,
    direct: Mapping[str, str],
) -> Json:
    """Run a bench through the proxy at `url` and give its report, see `comparison_json`.

    Args:
        sizes: of the workload, by the names of `Workload`'s fields.
        alone_on: the baseline node, None for the one that is fastest once warm.
        direct: engines' base URLs by name, for the arm without the proxy.

    Raises:
        SettingsError: the house does not hold the model.
        NodeFault: the proxy is not there, or not any more.
    """
    async with RunningProxy(url) as proxy:
        snapshot = await proxy.snapshot()
        workload = Workload(the_model(snapshot, model), **sizes)
        nodes = holders(snapshot, workload.model)
        name = f"bench-{secrets.token_hex(3)}"
        async with Watching(proxy, console_on(sys.stderr)) as watching:
            fastest = await fastest_node(url, workload, name, nodes, watching)
            comparer = Comparer(
                f"{url}/v1",
                workload,
                name=name,
                alone_on=alone_on or fastest,
                direct=direct,
            )
            comparison = await comparer.rounds(rounds, watching.step, quiet_of(proxy), ignore)
        typical = sorted(comparison.rounds, key=lambda each: each.speedup)[rounds // 2]
        return comparison_json(comparison, workload, await proxy.job(typical.job))


def quiet_of(proxy: RunningProxy) -> Callable[[], Awaitable[None]]:
    """What returns once no node of the proxy has work, ours or foreign, or after `QUIET_LIMIT_S`:
    a house that others use all the time is never idle.
    """

    async def quiet() -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(QUIET_LIMIT_S):
                while True:
                    if not busy(await proxy.snapshot()):
                        return
                    await asyncio.sleep(LOOK_S)

    return quiet


def busy(snapshot: Json) -> bool:
    """Whether a call waits or runs anywhere."""
    replicas = [replica for node in snapshot["nodes"] for replica in node["replicas"]]
    at_work = any(replica["in_flight"] or replica["foreign"] for replica in replicas)
    return bool(snapshot["waiting"]) or at_work


def ignore(_answer: Answer) -> None:
    """Do nothing with an answer: the live view shows the proxy's own counts."""


def the_model(snapshot: Json, wanted: str | None) -> str:
    """The model to run: the wanted one, else the only one.

    Raises:
        SettingsError: no node holds it, or there are several and none is wanted.
    """
    names = [model["model"] for model in snapshot["models"] if model["nodes"]]
    if wanted is not None and holders(snapshot, wanted):
        return wanted
    listed = ", ".join(names) or "none"
    if wanted is not None:
        raise SettingsError(
            f"no node that is ready holds the model {wanted!r}; there are: {listed}"
        )
    if len(names) != 1:
        raise SettingsError(f"say which model with --model; those that are ready: {listed}")
    return str(names[0])


def holders(snapshot: Json, model: str) -> list[str]:
    """The ids of the nodes that are ready and hold the model, under its name or an alias."""
    return [
        node["id"]
        for node in snapshot["nodes"]
        if node["phase"] == "ready"
        and any(
            replica["state"] == "ready" and model in (replica["model"], *replica["aliases"])
            for replica in node["replicas"]
        )
    ]


async def fastest_node(
    url: str, workload: Workload, name: str, nodes: Sequence[str], watching: Watching
) -> str:
    """Warm every node up and give the id of the one that was fastest once warm."""
    warming = Comparer(f"{url}/v1", workload, name=name, alone_on="")
    answers: list[Answer] = []
    for turn in ("cold", "warm"):
        watching.step(f"warming up: one call to each node ({turn})")
        answers.clear()
        await warming.warm_up(nodes, answers.append)
    timed = zip(nodes, answers, strict=True)
    return min(timed, key=lambda pair: pair[1].done_s - pair[1].started_s)[0]


def comparison_json(comparison: Comparison, workload: Workload, job: Json) -> dict[str, Any]:
    """The bench as one document; `job` is the proxy's own report of the median round."""
    return {
        "v": 1,
        "model": workload.model,
        "calls": workload.calls,
        "output_tokens": workload.output_tokens,
        "speedup": comparison.speedup,
        "of_direct": comparison.of_direct,
        "rounds": [
            {
                "job": each.job,
                "alone_s": each.alone.makespan_s,
                "together_s": each.together.makespan_s,
                "direct_s": None if each.direct is None else each.direct.makespan_s,
                "speedup": each.speedup,
                "direct_speedup": each.direct_speedup,
                "ttft_s_p50": each.together.ttft_s_p50,
            }
            for each in comparison.rounds
        ],
        "job": job,
    }
