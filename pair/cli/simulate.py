"""`pair simulate`: what a fleet would do with a workload, in virtual time and without a network."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Group, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn
from rich.text import Text

from pair.cli.exit_codes import usage
from pair.cli.options import JsonOption
from pair.cli.output import show, show_json, warn
from pair.cli.simulation_chart import check_chart, write_chart
from pair.cli.simulation_plan import Asked, asked_for
from pair.core.strategies import STRATEGIES
from pair.settings import Settings
from pair.sim.experiment import USUAL_UTILIZATION, Arrivals, Experiment, Plan
from pair.sim.report import behind_best_s
from pair.sim.scenario_file import (
    CALLS_DRAWN_LIMIT,
    FAILURES_LIMIT,
    MACHINES_LIMIT,
    PROXIES_LIMIT,
    SLOTS_LIMIT,
    SPREAD_LIMIT,
)
from pair.sim.trace import CALLS_LIMIT, TOKENS_LIMIT
from pair.sim.world import World
from pair.terminal.screen import console_on
from pair.terminal.simulation import LEGEND, comparison_table, heading, runs_table, shares_table
from pair.terminal.timeline import Timeline

CLASSIC: Final = Plan()
"""Its fields are the defaults of the options."""

CLASSIC_NODES: Final = len(CLASSIC.speeds)

DRAWN_CALLS: Final = 40
"""Most calls for which the timeline is drawn; beyond it bars are narrower than their numbers."""

BAR_CALLS: Final = 2000
"""Calls over all runs from which on one waits long enough to want a progress bar: some seconds
where prompts begin alike.
"""


def _number(
    flag: str, metavar: str, words: str, least: float = 1, most: float | None = None
) -> Any:
    return typer.Option(flag, metavar=metavar, min=least, max=most, help=words)


def _file(flag: str, words: str) -> Any:
    return typer.Option(flag, metavar="FILE", exists=True, dir_okay=False, help=words)


FileArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="Nodes and calls as TOML, see examples/house.toml; what flags say comes first.",
        show_default=False,
    ),
]
NodesOption = Annotated[int, _number("--nodes", "N", "Nodes, all equal.", 1, MACHINES_LIMIT)]
SlotsOption = Annotated[int, _number("--slots", "N", "Calls at a time on each.", 1, SLOTS_LIMIT)]
UnequalOption = Annotated[
    str | None,
    typer.Option(
        "--unequal",
        metavar="SPEED,...",
        help="A node for each speed, such as 1,0.5,0.5; replaces --nodes.",
    ),
]
CallsOption = Annotated[int, _number("--calls", "N", "Calls in all.", 1, CALLS_DRAWN_LIMIT)]
PromptOption = Annotated[
    int, _number("--prompt-tokens", "N", "Length of each prompt.", 1, TOKENS_LIMIT)
]
OutputOption = Annotated[
    int, _number("--output-tokens", "N", "Length of each answer.", 1, TOKENS_LIMIT)
]
SpreadOption = Annotated[
    float,
    _number(
        "--spread", "SIGMA", "Draw lengths around these: 0 equal, 1 very unequal.", 0, SPREAD_LIMIT
    ),
]
PrefillOption = Annotated[
    float, _number("--prefill-rate", "RATE", "Prompt tokens a second, each slot.", 0.001)
]
DecodeOption = Annotated[
    float, _number("--decode-rate", "RATE", "Output tokens a second, each slot.", 0.001)
]
CacheOption = Annotated[
    int,
    _number("--cache-tokens", "N", "Tokens of prompts that each node keeps beside its slots.", 0),
]
ARRIVALS_HELP = "All at once, in teams of sub-agents, one by one, or turn by turn."
ArrivalsOption = Annotated[Arrivals, typer.Option("--arrivals", help=ARRIVALS_HELP)]
RATE_HELP = (
    "Calls a second where not all come at once."
    f" Default: {USUAL_UTILIZATION:.0%} of what the nodes can do."
)
RateOption = Annotated[float | None, _number("--rate", "RATE", RATE_HELP, 0.001)]
WIDTH_HELP = "Calls in one team, with --arrivals fan-out."
WidthOption = Annotated[int, _number("--width", "N", WIDTH_HELP, 1, CALLS_DRAWN_LIMIT)]
SharedOption = Annotated[
    int,
    _number(
        *("--shared-tokens", "N", "Length of a system prompt that all prompts share."),
        *(0, TOKENS_LIMIT),
    ),
]
TurnsOption = Annotated[
    int, _number("--turns", "N", "Turns of a conversation, with --arrivals conversations.")
]
ThinkOption = Annotated[float, _number("--think", "SECONDS", "Mean pause between turns.", 0)]
REHEARSAL_HELP = "Calls made before, so that speeds are known; not counted."
RehearsalOption = Annotated[int, _number("--rehearsal", "N", REHEARSAL_HELP, 0, CALLS_DRAWN_LIMIT)]
TraceOption = Annotated[
    Path | None,
    _file(
        "--trace",
        "Calls as recorded: Mooncake's JSON lines, Azure's CSV, or a CSV of agents' turns.",
    ),
]
LIMIT_HELP = "Of a trace: most calls, the first in the file."
LimitOption = Annotated[int, _number("--limit", "N", LIMIT_HELP, 1, CALLS_DRAWN_LIMIT)]
SpeedUpOption = Annotated[
    float, _number("--speed-up", "X", "Of a trace: play it so many times as fast.", 0.001)
]
FromOption = Annotated[
    float | None, _number("--from", "SECONDS", "Of a trace: from then on, on its own clock.", 0)
]
UntilOption = Annotated[float | None, _number("--until", "SECONDS", "Of a trace: up to then.", 0)]
PROXIES_HELP = "Proxies that share the nodes and know nothing of each other."
ProxiesOption = Annotated[int, _number("--proxies", "N", PROXIES_HELP, 1, PROXIES_LIMIT)]
FailuresOption = Annotated[
    int,
    _number("--failures", "N", "Nodes that die and return, go silent or crash.", 0, FAILURES_LIMIT),
]
SeedOption = Annotated[
    int, typer.Option("--seed", metavar="N", help="The same number, the same run.")
]
STRATEGY_HELP = (
    f"One of {', '.join(STRATEGIES)}; several are shown side by side."
    f" Default: {Settings().proxy.strategy}, as in `pair serve`."
)
StrategiesOption = Annotated[
    list[str] | None, typer.Option("--strategy", metavar="NAME", help=STRATEGY_HELP)
]
ChartOption = Annotated[
    Path | None,
    typer.Option(
        "--chart",
        metavar="FILE.svg",
        help="Draw the runs side by side; needs pair's extra `chart`.",
    ),
]


def simulate(
    context: typer.Context,
    file: FileArgument = None,
    nodes: NodesOption = CLASSIC_NODES,
    slots: SlotsOption = CLASSIC.slots,
    unequal: UnequalOption = None,
    prefill_rate: PrefillOption = CLASSIC.prefill_rate_tokens_per_s,
    decode_rate: DecodeOption = CLASSIC.decode_rate_tokens_per_s,
    cache_tokens: CacheOption = 0,
    calls: CallsOption = CLASSIC.calls,
    prompt_tokens: PromptOption = CLASSIC.prompt_tokens,
    output_tokens: OutputOption = CLASSIC.output_tokens,
    spread: SpreadOption = CLASSIC.spread,
    shared_tokens: SharedOption = CLASSIC.shared_tokens,
    arrivals: ArrivalsOption = CLASSIC.arrivals,
    rate: RateOption = None,
    width: WidthOption = CLASSIC.width,
    turns: TurnsOption = CLASSIC.turns,
    think: ThinkOption = CLASSIC.think_s,
    rehearsal: RehearsalOption = CLASSIC.rehearsal,
    trace: TraceOption = None,
    limit: LimitOption = CALLS_LIMIT,
    speed_up: SpeedUpOption = 1.0,
    since: FromOption = None,
    until: UntilOption = None,
    proxies: ProxiesOption = CLASSIC.proxies,
    failures: FailuresOption = CLASSIC.failures,
    seed: SeedOption = CLASSIC.seed,
    strategy: StrategiesOption = None,
    as_json: JsonOption = False,
    chart: ChartOption = None,
) -> None:
    """Replay calls over simulated nodes with the scheduler that `pair serve` runs.

    Without options: the classic 5 calls on 3 nodes.
    """
    with usage():
        if chart is not None:
            check_chart(chart)
    with usage():  # a file that is named there, too
        asked = asked_for(_given(context))
        experiment = Experiment(asked.scenario, asked.strategies, Settings().limits())
    if asked.cut:
        warn(f"{asked.source} has more than the {len(experiment.calls):,} calls that --limit takes")
    carry_out(experiment)
    runs = _runs(experiment)
    if chart is not None:
        write_chart(chart, experiment.reports, experiment.worlds)
        warn(f"the picture is {chart}")
    if as_json:
        show_json({**_told_of(asked), "runs": runs})
    else:
        show(Group(*_tables(experiment, runs)))


def _given(context: typer.Context) -> dict[str, Any]:
    """What stands on the command line; the rest are defaults, over which a file may say more."""
    # Its class is not typer's to name; the name of its member is all that is needed.
    return {
        name: value
        for name, value in context.params.items()
        if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
    }


def carry_out(experiment: Experiment) -> None:
    """Run it, under a progress bar on stderr if it takes long and somebody looks."""
    console = console_on(sys.stderr)
    watched = console.is_terminal and experiment.total_calls >= BAR_CALLS
    columns = BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=not watched) as progress:
        task = progress.add_task("", total=experiment.total_calls)
        for done in experiment.steps():
            progress.update(task, completed=done)


# --- what is told ---------------------------------------------------------------------------------


def _runs(experiment: Experiment) -> list[dict[str, Any]]:
    reports = experiment.reports
    return [
        {**dataclasses.asdict(report), "behind_best_s": behind_s}
        for report, behind_s in zip(reports, behind_best_s(reports), strict=True)
    ]


def _told_of(asked: Asked) -> dict[str, Any]:
    """What was simulated, for programs."""
    trace = None
    if asked.trace is not None:
        calls = asked.scenario.calls
        trace = {
            "file": str(asked.source),
            "form": asked.trace,
            "calls": len(calls),
            "cut": asked.cut,
            "prompt_tokens": sum(call.prompt_tokens for call in calls),
            "output_tokens": sum(call.output_tokens for call in calls),
        }
    return {
        "plan": None if asked.plan is None else dataclasses.asdict(asked.plan),
        "trace": trace,
        "machines": [dataclasses.asdict(machine) for machine in asked.scenario.machines],
        "proxies": asked.scenario.proxies,
    }


def _tables(experiment: Experiment, runs: list[dict[str, Any]]) -> Iterator[RenderableType]:
    gap = Text("")
    yield from heading(runs[0])
    yield gap
    yield runs_table(runs)
    if len(runs) > 1 or any(map(_has_more, runs)):
        yield gap
        yield comparison_table(runs)
        yield Text(LEGEND, style="dim")
    for run, world in zip(runs, experiment.worlds, strict=True):
        yield gap
        yield shares_table(run)
        if len(world.records) <= DRAWN_CALLS:
            yield gap
            yield Timeline(as_job(world))


def _has_more(run: dict[str, Any]) -> bool:
    """The second table says something of it even where there is nothing to compare it with."""
    figures = (run["fairness"], run["ideal_cached_share"], run["busy_refusals"])
    return any(figures) or run["regret"]["calls"] > 0


def as_job(world: World) -> dict[str, Any]:
    """A run in the form that the timeline draws."""
    return {
        "nodes": [{"node": node, "name": node} for node in world.places],
        "calls": [
            {
                "node": record.node,
                "name": record.node,
                "opened_s": record.call.at_s if record.opened_s is None else record.opened_s,
                "granted_s": record.granted_s,
                "first_byte_s": record.first_byte_s,
                "done_s": record.closed_s,
                "outcome": record.outcome,
            }
            for record in world.records
        ],
    }
