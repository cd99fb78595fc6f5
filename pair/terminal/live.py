"""A view that stays: redrawn in place on a terminal, one line a change anywhere else.

The second form is for logs and pipes, where escape codes are noise and a line a tick is a flood.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from pair.terminal.figures import count, plain, seconds, several
from pair.terminal.panels import jobs_table, models_table, nodes_table, queue_line, ready_words

Json = Mapping[str, Any]

LOST_SHOWN: Final = 2
"""Lost nodes with a row of their own: enough to see why; a house's history is in `pair nodes`."""
JOBS_SHOWN: Final = 5
"""The latest ones; the nodes above them must stay in sight on a small terminal."""


class LiveView:
    """`with LiveView(console) as view: view.show(snapshot)`, as often as there is something new."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = (
            Live(console=console, auto_refresh=False, transient=False)
            if console.is_terminal
            else None
        )
        self._last: tuple[object, ...] = ()

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, snapshot: Json, *, jobs: Sequence[Json] = (), note: str = "") -> None:
        """Show this state.

        Args:
            jobs: as in the list of jobs; the latest are shown.
            note: a line of the caller's, such as what the demo is doing now.
        """
        if self._live is not None:
            self._live.update(picture(snapshot, jobs, note), refresh=True)
            return
        now = change_marks(snapshot, note)
        if now != self._last:
            self._last = now
            self._console.print(Text(progress_line(snapshot, note)), soft_wrap=True)


def picture(snapshot: Json, jobs: Sequence[Json], note: str) -> RenderableType:
    """Everything at one moment."""
    gap = Text("")
    lost = [node for node in snapshot["nodes"] if node["phase"] == "lost"]
    folded = lost[LOST_SHOWN:]
    shown = [node for node in snapshot["nodes"] if node not in folded]
    table = nodes_table({**snapshot, "nodes": shown}, brief=True)
    parts: list[RenderableType] = [queue_line(snapshot), gap, table]
    if folded:
        parts.append(Text(f"and {several(len(folded), 'lost node')}", style="dim"))
    if snapshot["models"]:
        parts += [gap, models_table(snapshot)]
    if jobs:
        parts += [gap, jobs_table(jobs[-JOBS_SHOWN:])]
    if note:
        parts += [gap, Text(plain(note), style="bold")]
    return Group(*parts)


def progress_line(snapshot: Json, note: str) -> str:
    """The same in one line without colours."""
    busy = ", ".join(_busy(snapshot["nodes"]))
    return " · ".join(
        part
        for part in (
            seconds(snapshot["uptime_s"]),
            plain(note),
            ready_words(snapshot),
            f"{count(snapshot['in_flight'])} in flight" + (f" ({busy})" if busy else ""),
            f"{count(snapshot['waiting'])} waiting",
            f"{count(snapshot['tickets']['answered'])} answered",
        )
        if part
    )


def _busy(nodes: Iterable[Json]) -> Iterable[str]:
    for node in nodes:
        in_flight = sum(replica["in_flight"] for replica in node["replicas"])
        if in_flight:
            yield f"{plain(node['name'])} {in_flight}"


def change_marks(snapshot: Json, note: str) -> tuple[object, ...]:
    """What must differ for a new progress line: counts and phases, not the clock."""
    return (
        note,
        snapshot["in_flight"],
        snapshot["waiting"],
        tuple(snapshot["tickets"].items()),
        tuple((node["id"], node["phase"]) for node in snapshot["nodes"]),
    )
