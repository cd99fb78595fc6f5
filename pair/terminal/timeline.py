"""Who ran what when: a job's calls as bars, a row for each slot of each node.

Apart from the report because it alone has geometry: seconds become columns here and nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from pair.terminal.figures import plain

Json = Mapping[str, Any]

LABEL_LIMIT: Final = 20
"""Columns that a node's name may take, so that a long one leaves room for the bars."""
TICK_COLUMNS: Final = 10
"""At least this far apart, so that a tick's number never runs into the next."""
SPAN_LEAST_S: Final = 1e-6
"""A job shorter than this has nothing to be seen."""
WAITING_STYLE: Final = "yellow"
PREFILL_STYLE: Final = "blue"
DECODE_STYLES: Final = ("green", "cyan")
"""Taken in turn along a row, so that calls which follow each other at once are told apart."""
FAILED_STYLE: Final = "red"


@dataclass(frozen=True, slots=True)
class Signs:
    """The characters of the bars."""

    prefill: str
    decode: str
    tick: str


UNICODE_SIGNS: Final = Signs(prefill="▒", decode="█", tick="┬")
ASCII_SIGNS: Final = Signs(prefill="-", decode="#", tick="|")


@dataclass(frozen=True, slots=True)
class Bar:
    """One call on one slot; seconds since the job began.

    Attributes:
        label: the call's number in the report.
        content_s: when its first content byte came; `end_s` if none did.
    """

    label: str
    start_s: float
    content_s: float
    end_s: float
    answered: bool


@dataclass(slots=True)
class Row:
    """One slot; its bars do not overlap."""

    bars: list[Bar] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Timeline:
    """The picture of one job; renders to the width it is given.

    Attributes:
        job: as `/pair/v1/jobs/{id}` gives it, with calls.
    """

    job: Json

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Rows, axis and legend; nothing for a job without calls."""
        span_s = last_s(self.job)
        if span_s < SPAN_LEAST_S:
            return
        signs = ASCII_SIGNS if options.ascii_only else UNICODE_SIGNS
        nodes = node_rows(self.job)
        names = {node: plain(name)[:LABEL_LIMIT] for node, name in node_names(self.job).items()}
        labels = [*names.values(), "waiting"]
        margin = max(len(label) for label in labels) + 2
        width = max(options.max_width - margin, TICK_COLUMNS)
        scale = width / span_s
        yield Text("waiting".ljust(margin)) + waiting_line(self.job, scale, width)
        for node, rows in nodes.items():
            for number, row in enumerate(rows):
                label = names[node] if number == 0 else ""
                yield Text(label.ljust(margin)) + row_line(row, scale, width, signs)
        for line in axis_lines(span_s, scale, width, signs):
            yield Text(" " * margin + line, style="dim")
        yield legend(margin, signs)


def last_s(job: Json) -> float:
    """When the last thing known of the job happened, in seconds since it began; 0 without calls."""
    known = ("opened_s", "granted_s", "first_byte_s", "done_s")
    times = [call[key] for call in job["calls"] for key in known if call[key] is not None]
    return max(times, default=0.0)


def node_names(job: Json) -> dict[str, str]:
    """Node id -> name, in the order of the report, then of those that only calls know."""
    names = {node["node"]: node["name"] for node in job["nodes"]}
    for call in job["calls"]:
        if call["node"] is not None:
            names.setdefault(call["node"], call["name"])
    return names


def node_rows(job: Json) -> dict[str, Sequence[Row]]:
    """Node id -> its rows, as few as keep bars apart; a node without a call has one empty row."""
    end_s = last_s(job)
    rows: dict[str, list[Row]] = {node: [] for node in node_names(job)}
    numbered = enumerate(job["calls"], start=1)
    granted = [(n, call) for n, call in numbered if call["node"] and call["granted_s"] is not None]
    for number, call in sorted(granted, key=lambda pair: pair[1]["granted_s"]):
        done_s = end_s if call["done_s"] is None else call["done_s"]
        content_s = done_s if call["first_byte_s"] is None else call["first_byte_s"]
        answered = call["outcome"] in (None, "answered")
        bar = Bar(str(number), call["granted_s"], content_s, done_s, answered)
        mine = rows[call["node"]]
        # A slot freed and given again in one turn of the loop has equal times on both sides.
        free = (row for row in mine if row.bars[-1].end_s <= bar.start_s)
        row = next(free, None)
        if row is None:
            row = Row()
            mine.append(row)
        row.bars.append(bar)
    return {node: found or [Row()] for node, found in rows.items()}


def row_line(row: Row, scale: float, width: int, signs: Signs) -> Text:
    """One slot's bars; `scale` is columns per second."""
    line = Text()
    for number, bar in enumerate(row.bars):
        end = min(max(round(bar.end_s * scale), round(bar.start_s * scale) + 1), width)
        start = max(round(bar.start_s * scale), len(line))
        if start >= end:
            continue  # shorter than a column and hidden behind the bar before it
        line.append(" " * (start - len(line)))
        content = min(max(round(bar.content_s * scale), start), end)
        body = signs.prefill * (content - start) + signs.decode * (end - content)
        label = bar.label[: end - start]
        decode = DECODE_STYLES[number % len(DECODE_STYLES)] if bar.answered else FAILED_STYLE
        line.append(label, style=f"reverse {decode}")
        line.append(body[len(label) : content - start], style=PREFILL_STYLE)
        line.append(body[max(content - start, len(label)) :], style=decode)
    return line


def waiting_line(job: Json, scale: float, width: int) -> Text:
    """How many calls wait for a slot, as a digit a column; + for more than nine."""
    changes = [0] * (width + 1)
    for call in job["calls"]:
        start_s, until_s = call["opened_s"], call["granted_s"]
        if until_s is None:  # never got a slot: it waited until it was over
            until_s = call["done_s"] if call["done_s"] is not None else last_s(job)
        start, end = round(start_s * scale), round(until_s * scale)
        changes[min(start, width)] += 1
        changes[min(end, width)] -= 1
    signs: list[str] = []
    waiting = 0
    for change in changes[:width]:
        waiting += change
        signs.append(" " if waiting == 0 else str(waiting) if waiting <= 9 else "+")
    return Text("".join(signs).rstrip(), style=WAITING_STYLE)


def axis_lines(span_s: float, scale: float, width: int, signs: Signs) -> Iterator[str]:
    """The ticks and their seconds."""
    step_s = tick_step_s(TICK_COLUMNS / scale)
    ticks, numbers = [" "] * width, ""
    for number in range(int(span_s / step_s) + 1):
        at = round(number * step_s * scale)
        text = f"{number * step_s:g}" + (" s" if number == 0 else "")
        if at >= width or at + len(text) > width:
            break
        ticks[at] = signs.tick
        numbers = numbers.ljust(at) + text
    yield "".join(ticks).rstrip()
    yield numbers


def tick_step_s(least_s: float) -> float:
    """The smallest of 1, 2, 5, 10, 20, … (and their fractions) that is at least `least_s`."""
    power = 10.0 ** math.floor(math.log10(least_s))
    return float(f"{next(n * power for n in (1, 2, 5, 10) if n * power >= least_s * 0.999):g}")


def legend(margin: int, signs: Signs) -> Text:
    """What the signs mean."""
    text = Text(" " * margin)
    text.append("digits", style=WAITING_STYLE).append(": calls waiting   ")
    text.append(signs.prefill, style=PREFILL_STYLE).append(" until the first content byte   ")
    text.append(signs.decode, style=DECODE_STYLES[0]).append(" answer")
    return text
