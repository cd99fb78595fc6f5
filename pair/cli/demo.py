"""`pair demo`: the whole thing on one machine, from mDNS to the report, and nothing left behind."""

from __future__ import annotations

from typing import Annotated

import typer

from pair.cli import exit_codes
from pair.cli.event_loop import Stop, run_until_stopped, unless
from pair.cli.options import JsonOption
from pair.cli.output import say, show, show_json
from pair.terminal.job_report import job_report


def demo(
    simulated: Annotated[
        bool,
        typer.Option(
            "--simulated", help="Use pretended engines instead of a real model: 5 calls on 3 nodes."
        ),
    ] = False,
    nodes: Annotated[
        int | None,
        typer.Option(
            "--nodes",
            metavar="N",
            min=2,
            help="Nodes to start. Default: 3 if simulated, else as many as truly run in parallel.",
        ),
    ] = None,
    calls: Annotated[
        int, typer.Option("--calls", metavar="N", min=1, help="Sub-agents, all started at once.")
    ] = 5,
    output_tokens: Annotated[
        int, typer.Option("--output-tokens", metavar="N", min=1, help="Length of each answer.")
    ] = 36,
    as_json: JsonOption = False,
) -> None:
    """Start nodes and a proxy, let a team of sub-agents run alone and together, and report.

    Everything listens on loopback at free ports, finds each other by mDNS there, and is gone at the
    end.
    """
    # Not at the top: openai takes half a second to import, and no other command needs it.
    from pair.cli.demo_run import run_demo

    async def program(stop: Stop) -> int:
        work = run_demo(simulated=simulated, nodes=nodes, calls=calls, output_tokens=output_tokens)
        job = await unless(stop, work)
        if job is None:
            return exit_codes.of_signal(stop.number)
        if as_json:
            show_json(job)
            return exit_codes.OK
        show(job_report(job))
        if simulated:
            say("the engines were pretended (`pair echo`); everything else was real")
        return exit_codes.OK

    raise typer.Exit(run_until_stopped(program))
