"""One job told: how much faster than one node, against what the waves allow, and each call.

The headline is the measured or predicted baseline over the makespan and nothing more flattering;
the fastest node alone stands beside it always.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pair.terminal.figures import UNKNOWN, count, percent, plain, ratio, seconds, several
from pair.terminal.panels import table_of
from pair.terminal.timeline import Timeline

Json = Mapping[str, Any]


def job_report(job: Json) -> RenderableType:
    """The whole report of a job as `/pair/v1/jobs/{id}` gives it, with calls."""
    gap = Text("")
    told = details(job)
    return Group(
        headline(job), gap, nodes_part(job), gap, Timeline(job), gap, calls_table(job),
        *([gap, told] if told else []),
    )  # fmt: skip


def headline(job: Json) -> Text:
    """The figures that matter, in sentences."""
    return Text("\n").join(_lines(job))


def _lines(job: Json) -> Iterator[Text]:
    found = "" if job["named"] else " (found by time)"
    about = f"{found} · {plain(job['state'])} · {plain(job['model'])}"
    yield Text.assemble((f"job {plain(job['id'])}", "bold"), about)
    used = sum(node["calls"] > 0 for node in job["nodes"])
    work = f"{several(job['calls_total'], 'call')} on {several(used, 'node')} in "
    yield Text.assemble(work, (seconds(job["makespan_s"]), "bold"), (_fates(job), "red"))
    if job["achieved"] is not None:
        alone = _node_name(job, job["baseline_node"])
        base = f"{seconds(job['baseline_s'])}, {plain(job['baseline'])}"
        yield Text.assemble((ratio(job["achieved"]), "bold"), f" as fast as {alone} alone ({base})")
    if job["limit"] is not None:
        slots = several(sum(node["slots"] for node in job["nodes"]), "slot")
        yield Text(
            f"limit {ratio(job['limit'])}: {several(job['waves'], 'wave')} on {slots}"
            f" · efficiency {percent(job['efficiency'])}"
        )
        fastest = _node_name(job, job["fastest_alone_node"])
        alone = f"{seconds(job['fastest_alone_s'])}, {plain(job['fastest_alone'])}"
        yield Text(f"fastest node alone: {fastest} ({alone})")
    yield Text(_tokens(job))
    if job["note"]:
        yield Text(plain(job["note"]), style="yellow")


def _fates(job: Json) -> str:
    words = {"failed": "failed", "refused": "refused", "client_left": "left by the client"}
    return "".join(f" · {count(job[fate])} {word}" for fate, word in words.items() if job[fate])


def _tokens(job: Json) -> str:
    waits = [call["ttft_s"] for call in job["calls"] if call["ttft_s"] is not None]
    first = f"{seconds(median(waits))}, at most {seconds(max(waits))}" if waits else UNKNOWN
    queued = [call["queue_s"] for call in job["calls"] if call["queue_s"] is not None]
    longest = seconds(max(queued, default=None))
    rate = ""
    if job["output_tokens"] and job["makespan_s"]:
        rate = f" ({job['output_tokens'] / job['makespan_s']:.1f} a second)"
    share = ""
    if job["prompt_tokens"] and job["cached_tokens"] is not None:
        share = f" ({percent(job['cached_tokens'] / job['prompt_tokens'])})"
    return (
        f"tokens {count(job['prompt_tokens'])} in,"
        f" {count(job['cached_tokens'])} of them cached{share},"
        f" {count(job['output_tokens'])} out{rate} · TTFT p50 {first} · longest wait {longest}"
    )


def _node_name(job: Json, node: str | None) -> str:
    names = {each["node"]: each["name"] for each in job["nodes"]}
    return UNKNOWN if node is None else plain(names.get(node, node))


def nodes_part(job: Json) -> Table:
    """Each node's share."""
    numbers = ("slots", "calls", "service time p50")
    table = table_of("node", *numbers, right=numbers)
    for node in job["nodes"]:
        name = Text(plain(node["name"]))
        table.add_row(name, count(node["slots"]), count(node["calls"]), seconds(node["service_s"]))
    return table


def calls_table(job: Json) -> Table:
    """Each call, with the number that stands in its bar; the reason as far as there is room."""
    numbers = ("call", "wait", "TTFT", "service", "in", "cached", "out")
    table = table_of("call", "node", *numbers[1:], "outcome", "reason", right=numbers)
    for column in table.columns[:-1]:
        column.no_wrap = True  # so that the reason alone gives way
    for number, call in enumerate(job["calls"], start=1):
        table.add_row(
            count(number),
            UNKNOWN if call["node"] is None else Text(plain(call["name"])),
            seconds(call["queue_s"]),
            seconds(call["ttft_s"]),
            seconds(call["service_s"]),
            count(call["prompt_tokens"]),
            count(call["cached_tokens"]),
            count(call["output_tokens"]),
            _outcome(call),
            Text(plain(call["reason"]), no_wrap=True, overflow="ellipsis"),
        )
    return table


def _outcome(call: Json) -> Text:
    outcome = "running" if call["outcome"] is None else plain(call["outcome"]).replace("_", " ")
    again = f" ({several(call['attempts'], 'attempt')})" if call["attempts"] > 1 else ""
    return Text(outcome + again, style="" if outcome in ("answered", "running") else "red")


def details(job: Json) -> Text:
    """What went wrong, a line for each call that has something to tell."""
    lines = [
        Text(f"call {number}: {plain(call['detail'])}", style="yellow")
        for number, call in enumerate(job["calls"], start=1)
        if call["detail"]
    ]
    return Text("\n").join(lines)
