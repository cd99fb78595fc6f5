"""`pair simulate`: what a fleet would do with a workload, in virtual time and without a network."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from typing import Annotated, Any, Final

import typer
from rich.console import Group, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from pair.cli.exit_codes import usage
from pair.cli.options import JsonOption
from pair.cli.output import show, show_json
from pair.core.queue_depth import QueueDepth
from pair.core.strategies import STRATEGIES
from pair.errors import SettingsError
from pair.settings import Settings
from pair.sim.experiment import USUAL_UTILIZATION, Arrivals, Experiment, Plan
from pair.sim.report import SimulationReport
from pair.sim.world import World
from pair.terminal.figures import UNKNOWN, count, percent, ratio, seconds, several
from pair.terminal.panels import table_of
from pair.terminal.screen import console_on
from pair.terminal.timeline import Timeline

CLASSIC: Final = Plan()
"""Its fields are the defaults of the options."""

CLASSIC_NODES: Final = len(CLASSIC.speeds)

DRAWN_CALLS: Final = 40
"""Most calls for which the timeline is drawn; beyond it bars are narrower than their numbers."""

BAR_CALLS: Final = 5000
"""Calls over all runs from which on one waits long enough to want a progress bar."""

SHARES_SHOWN: Final = 16
"""Most nodes listed; `--json` has them all."""


def _number(flag: str, metavar: str, words: str, least: float = 1) -> Any:
    return typer.Option(flag, metavar=metavar, min=least, help=words)


NodesOption = Annotated[int, _number("--nodes", "N", "Nodes, all equal.")]
SlotsOption = Annotated[int, _number("--slots", "N", "Calls at a time on each.")]
UnequalOption = Annotated[
    str | None,
    typer.Option(
        "--unequal",
        metavar="SPEED,...",
        help="A node for each speed, such as 1,0.5,0.5; replaces --nodes.",
    ),
]
CallsOption = Annotated[int, _number("--calls", "N", "Calls in all.")]
PromptOption = Annotated[int, _number("--prompt-tokens", "N", "Length of each prompt.")]
OutputOption = Annotated[int, _number("--output-tokens", "N", "Length of each answer.")]
SpreadOption = Annotated[
    float, _number("--spread", "SIGMA", "Draw lengths around these: 0 equal, 1 very unequal.", 0)
]
PrefillOption = Annotated[
    float, _number("--prefill-rate", "RATE", "Prompt tokens a second, each slot.", 0.001)
]
DecodeOption = Annotated[
    float, _number("--decode-rate", "RATE", "Output tokens a second, each slot.", 0.001)
]
ArrivalsOption = Annotated[
    Arrivals, typer.Option("--arrivals", help="All at once, in teams of sub-agents, or one by one.")
]
RATE_HELP = (
    "Calls a second where not all come at once."
    f" Default: {USUAL_UTILIZATION:.0%} of what the nodes can do."
)
RateOption = Annotated[float | None, _number("--rate", "RATE", RATE_HELP, 0.001)]
WidthOption = Annotated[int, _number("--width", "N", "Calls in one team, with --arrivals fan-out.")]
FailuresOption = Annotated[
    int, _number("--failures", "N", "Nodes that die and return, go silent or crash.", 0)
]
SeedOption = Annotated[
    int, typer.Option("--seed", metavar="N", help="The same number, the same run.")
]
STRATEGY_HELP = (
    f"One of {', '.join(STRATEGIES)}; several are shown side by side. Default: {QueueDepth.name}."
)
StrategiesOption = Annotated[
    list[str] | None, typer.Option("--strategy", metavar="NAME", help=STRATEGY_HELP)
]


def simulate(
    nodes: NodesOption = CLASSIC_NODES,
    slots: SlotsOption = CLASSIC.slots,
    unequal: UnequalOption = None,
    calls: CallsOption = CLASSIC.calls,
    prompt_tokens: PromptOption = CLASSIC.prompt_tokens,
    output_tokens: OutputOption = CLASSIC.output_tokens,
    spread: SpreadOption = CLASSIC.spread,
    prefill_rate: PrefillOption = CLASSIC.prefill_rate_tokens_per_s,
    decode_rate: DecodeOption = CLASSIC.decode_rate_tokens_per_s,
    arrivals: ArrivalsOption = CLASSIC.arrivals,
    rate: RateOption = None,
    width: WidthOption = CLASSIC.width,
    failures: FailuresOption = CLASSIC.failures,
    seed: SeedOption = CLASSIC.seed,
    strategy: StrategiesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Replay calls over simulated nodes with the scheduler that `pair serve` runs.

    Without options: the classic 5 calls on 3 nodes.
    """
    with usage():
        each = (1.0,) * nodes if unequal is None else speeds(unequal)
    plan = Plan(
        speeds=each,
        slots=slots,
        calls=calls,
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        spread=spread,
        prefill_rate_tokens_per_s=prefill_rate,
        decode_rate_tokens_per_s=decode_rate,
        arrivals=arrivals,
        rate_per_s=rate,
        width=width,
        failures=failures,
        seed=seed,
    )
    with usage():
        experiment = Experiment(plan, strategy or [QueueDepth.name], Settings().limits())
    carry_out(experiment)
    if as_json:
        runs = [dataclasses.asdict(report) for report in experiment.reports]
        show_json({"plan": dataclasses.asdict(plan), "runs": runs})
    else:
        show(Group(*_told(experiment)))


def speeds(text: str) -> tuple[float, ...]:
    """`1,0.5` as numbers.

    Raises:
        SettingsError: it is no list of numbers above 0.
    """
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or not all(0 < speed < float("inf") for speed in found):
        raise SettingsError(f"--unequal takes speeds above 0 such as 1,0.5,0.25, not {text!r}")
    return found


def carry_out(experiment: Experiment) -> None:
    """Run it, under a progress bar on stderr if it takes long and somebody looks."""
    console = console_on(sys.stderr)
    watched = console.is_terminal and experiment.total_calls >= BAR_CALLS
    columns = BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=not watched) as progress:
        task = progress.add_task("", total=experiment.total_calls)
        for done in experiment.steps():
            progress.update(task, completed=done)


# --- for people ----------------------------------------------------------------------------------


def _told(experiment: Experiment) -> Iterator[RenderableType]:
    first, gap = experiment.reports[0], Text("")
    slots = sum(share.slots for share in first.nodes)
    waves = "" if first.waves is None else f": {several(first.waves, 'wave')}"
    yield Text(
        f"{several(first.calls, 'call')} on {several(len(first.nodes), 'node')} with"
        f" {several(slots, 'slot')}{waves}"
    )
    yield Text(
        f"{first.alone_node} alone needs {seconds(first.alone_s)}, all together at least"
        f" {seconds(first.bound_s)}: limit {ratio(first.limit)}"
    )
    yield gap
    yield runs_table(experiment.reports)
    for report, world in zip(experiment.reports, experiment.worlds, strict=True):
        yield gap
        yield shares_table(report)
        if len(world.records) <= DRAWN_CALLS:
            yield gap
            yield Timeline(as_job(world))


def runs_table(reports: list[SimulationReport]) -> Table:
    """A row for each strategy."""
    shares = ("TTFT p50", "TTFT p90", "TTFT p99", "wait p50", "wait p99")
    figures = ("makespan", "achieved", "efficiency", *shares)
    table = table_of("strategy", *figures, "calls without an answer", right=figures)
    for report in reports:
        lost = [f"{count(n)} {fate}" for fate, n in report.outcomes.items() if fate != "answered"]
        table.add_row(
            report.strategy,
            seconds(report.makespan_s),
            ratio(report.achieved),
            percent(report.efficiency),
            *map(seconds, (report.ttft_s.p50, report.ttft_s.p90, report.ttft_s.p99)),
            *map(seconds, (report.queue_s.p50, report.queue_s.p99)),
            ", ".join(text for text in lost if not text.startswith("0 ")) or UNKNOWN,
        )
    return table


def shares_table(report: SimulationReport) -> Table:
    """A row for each node, up to a limit."""
    table = table_of(report.strategy, "slots", "calls", "busy", right=("slots", "calls", "busy"))
    for share in report.nodes[:SHARES_SHOWN]:
        table.add_row(
            share.node, count(share.slots), count(share.calls), percent(share.utilization)
        )
    if len(report.nodes) > SHARES_SHOWN:
        table.add_row(f"and {len(report.nodes) - SHARES_SHOWN} more", "", "", "")
    return table


def as_job(world: World) -> dict[str, Any]:
    """A run in the form that the timeline draws."""
    return {
        "nodes": [{"node": node, "name": node} for node in world.places],
        "calls": [
            {
                "node": record.node,
                "name": record.node,
                "opened_s": record.call.at_s,
                "granted_s": record.granted_s,
                "first_byte_s": record.first_byte_s,
                "done_s": record.closed_s,
                "outcome": record.outcome,
            }
            for record in world.records
        ],
    }
