"""`pair jobs`: what became of requests that belong together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from pair.cli.environment import own_config
from pair.cli.event_loop import run
from pair.cli.options import JsonOption, ProxyOption
from pair.cli.output import show, show_json
from pair.cli.running_proxy import Json, RunningProxy, proxy_url
from pair.terminal.job_report import job_report
from pair.terminal.panels import jobs_table

JobArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="ID", help="The job to report on; without it, all that the proxy remembers."
    ),
]


def jobs(job: JobArgument = None, proxy: ProxyOption = None, as_json: JsonOption = False) -> None:
    """Show the remembered jobs, or one in full: speed-up, limit, timeline and each call."""
    if job is None:
        listed = run(_jobs(proxy))
        if as_json:
            show_json(listed)
        else:
            show(jobs_table(listed) if listed else "no job has run yet")
        return
    told = run(_job(proxy, job))
    if as_json:
        show_json(told)
    else:
        show(job_report(told))


async def _jobs(url: str | None) -> Sequence[Json]:
    async with RunningProxy(proxy_url(own_config({}).settings, url)) as proxy:
        return await proxy.jobs()


async def _job(url: str | None, name: str) -> Json:
    async with RunningProxy(proxy_url(own_config({}).settings, url)) as proxy:
        return await proxy.job(name)
