"""Tables of what is: nodes, models, jobs, and the line above them.

Pure: one snapshot (or job list) in, one rich renderable out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from rich import box
from rich.console import JustifyMethod, OverflowMethod
from rich.table import Table
from rich.text import Text

from pair.terminal.figures import UNKNOWN, count, percent, plain, rate, ratio, seconds, several

Json = Mapping[str, Any]

PHASE_STYLES: Final = {
    "sighted": "dim",
    "ready": "green",
    "loading": "yellow",
    "draining": "yellow",
    "suspect": "yellow",
    "lost": "red",
}


def table_of(*columns: str, right: Iterable[str] = (), whole: Iterable[str] = ()) -> Table:
    """An empty table in the one style; the last column folds, others end in an ellipsis.

    Args:
        right: the columns that hold numbers.
        whole: those that must not be cut on a narrow terminal, as numbers never are.
    """
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
        padding=(0, 1, 0, 0),
        header_style="bold",
    )
    for name in columns:
        number = name in right
        no_wrap = number or name in whole
        justify: JustifyMethod = "right" if number else "left"
        last: OverflowMethod = "fold" if name == columns[-1] else "ellipsis"
        header = Text(name, no_wrap=True, overflow="ellipsis")
        table.add_column(header, justify=justify, no_wrap=no_wrap, overflow=last)
    return table


def nodes_table(snapshot: Json, *, brief: bool = False) -> Table:
    """A row for each replica; a node's name and phase stand in its first.

    Args:
        brief: cut notes to one line each and leave out what was learned of speeds, for a view in
            which all rows must stay in sight.
    """
    replicas = [replica for node in snapshot["nodes"] for replica in node["replicas"]]
    learned = {} if brief else {name: of for name, of in _LEARNED.items() if any(map(of, replicas))}
    numbers = ("in flight", "foreign", "queued", "served", *learned)
    columns = ("node", "phase", "model", "engine", *numbers, "note")
    table = table_of(*columns, right=numbers, whole=("node", "phase"))

    def note_text(notes: Iterable[str]) -> Text:
        # In the text, not the column: one that never wraps would take its width from the others.
        return Text("; ".join(notes), no_wrap=brief or None, overflow="ellipsis" if brief else None)

    for node in snapshot["nodes"]:
        style = PHASE_STYLES.get(node["phase"], "")
        first = (Text(plain(node["name"])), Text(plain(node["phase"]), style=style))
        note = "; ".join([*_node_notes(node), *(plain(each) for each in node["warnings"])])
        if not node["replicas"]:
            table.add_row(*first, UNKNOWN, UNKNOWN, *([UNKNOWN] * len(numbers)), note_text([note]))
        for replica in node["replicas"]:
            notes = [*_replica_notes(replica), *([note] if note else [])]
            table.add_row(
                *first,
                Text(plain(replica["model"])),
                Text(plain(replica["engine"])),
                f"{count(replica['in_flight'])} of {count(replica['slots'])}",
                count(replica["foreign"]),
                count(replica["queue_depth"]),
                count(replica["served"]),
                *(of(replica) or UNKNOWN for of in learned.values()),
                note_text(notes),
            )
            first, note = (Text(""), Text("")), ""
    return table


def _prefill(replica: Json) -> str:
    return rate(replica.get("prefill_tokens_per_s"))


def _decode(replica: Json) -> str:
    return rate(replica.get("decode_tokens_per_s"))


def _cached(replica: Json) -> str:
    told, prompt = replica.get("cached_tokens"), replica.get("prompt_tokens")
    return percent(told / prompt) if told is not None and prompt else ""


_LEARNED: Final[Mapping[str, Callable[[Json], str]]] = {
    "prefill": _prefill,
    "decode": _decode,
    "cached": _cached,
}


def _node_notes(node: Json) -> Iterable[str]:
    if (node["phase"] != "ready" or node.get("missed_probes")) and node["reason"]:
        yield plain(node["reason"])


def _replica_notes(replica: Json) -> Iterable[str]:
    if replica["state"] == "loading":
        yield f"loading for {seconds(replica['state_s'])}"
    elif replica["state"] == "needs_key":
        yield "its engine wants an API key; name one with key_env or key_file"
    elif replica["state"] != "ready":
        yield plain(replica["state"])
    if replica["resident"] is False and replica.get("load_s") is not None:
        yield f"not in memory, loads in about {seconds(replica['load_s'])}"
    if replica["draining"]:
        yield f"{several(replica['draining'], 'slot')} draining: its client left"
    if replica["failed"]:
        yield f"{count(replica['failed'])} failed"
    if replica["set_aside_s"]:
        yield f"set aside for {seconds(replica['set_aside_s'])}: " + plain(
            replica["set_aside_reason"]
        )
    elif replica["unproven"]:
        yield "one call on trial after: " + plain(replica["set_aside_reason"])
    if replica["aliases"]:
        yield "also " + ", ".join(plain(alias) for alias in replica["aliases"])


def models_table(snapshot: Json) -> Table:
    """A row for each model that some node holds or some client waits for."""
    numbers = ("nodes", "slots", "in flight", "waiting", "oldest wait")
    table = table_of("model", *numbers, "strategy", right=numbers)
    for model in snapshot["models"]:
        table.add_row(
            Text(plain(model["model"])),
            count(model["nodes"]),
            count(model["slots"]),
            count(model["in_flight"]),
            count(model["waiting"]),
            seconds(model["oldest_wait_s"]) if model["waiting"] else UNKNOWN,
            plain(model.get("strategy", UNKNOWN)),
        )
    return table


def queue_line(snapshot: Json) -> Text:
    """The state of the whole in one line."""
    tickets = snapshot["tickets"]
    parts = [
        ready_words(snapshot),
        f"{count(snapshot['in_flight'])} in flight",
        f"{count(snapshot['waiting'])} of {count(snapshot['waiting_limit'])} waiting",
        f"{count(tickets['answered'])} answered",
        *(
            f"{count(tickets[fate])} {word}"
            for fate, word in (
                ("refused", "refused"),
                ("client_left", "left by the client"),
                ("failed", "failed"),
            )
            if tickets[fate]
        ),
        f"strategy {plain(snapshot['strategy'])}{_but(snapshot.get('strategies', {}))}",
        *(["draining"] if snapshot["draining"] else []),
    ]
    return Text(" · ".join(parts))


def _but(strategies: Json) -> str:
    return f", another for {several(len(strategies), 'model')}" if strategies else ""


VERDICT_STYLES: Final = {"fine": "green", "note": "yellow", "wrong": "red"}


def findings_table(findings: Iterable[Json]) -> Table:
    """A row for each finding of `pair doctor`."""
    table = table_of("what", "state", "")
    for finding in findings:
        verdict = plain(finding["verdict"])
        table.add_row(
            Text(plain(finding["subject"])),
            Text(verdict, style=VERDICT_STYLES.get(verdict, "")),
            Text(plain(finding["words"])),
        )
    return table


def ready_words(snapshot: Json) -> str:
    """Such as `2 of 3 nodes ready`."""
    nodes = snapshot["nodes"]
    ready = sum(node["phase"] == "ready" for node in nodes)
    return f"{ready} of {several(len(nodes), 'node')} ready"


def jobs_table(jobs: Iterable[Json]) -> Table:
    """A row for each job as the list gives it, without its calls."""
    numbers = ("calls", "makespan", "limit", "achieved", "efficiency")
    columns = ("job", "state", *numbers, "baseline", "model")
    table = table_of(*columns, right=numbers, whole=("job", "state", "baseline"))
    for job in jobs:
        lost = job["failed"] + job["refused"] + job["client_left"]
        state = f"{plain(job['state'])}, {count(lost)} lost" if lost else plain(job["state"])
        table.add_row(
            Text(plain(job["id"])),
            Text(state, style="red" if lost else ""),
            count(job["calls_total"]),
            seconds(job["makespan_s"]),
            ratio(job["limit"]),
            ratio(job["achieved"]),
            percent(job["efficiency"]),
            UNKNOWN if job["baseline"] is None else plain(job["baseline"]),
            Text(plain(job["model"]), no_wrap=True, overflow="ellipsis"),
        )
    return table
