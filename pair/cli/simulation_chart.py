"""Simulated runs as one picture: four small charts side by side, a colour for each strategy.

Apart from the command because it needs a library that few installs have: pair's extra `chart`. Only
SVG: any browser shows it, and whatever makes PNG of it would be a dozen times as large as this.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pair.errors import SettingsError
from pair.sim.report import SimulationReport, ttfts_s
from pair.sim.world import World

POINTS: Final = 200
"""Most points of one line: more are narrower than a pixel."""

WIDTH_PX, HEIGHT_PX = 1400, 1000


def check_chart(path: Path) -> None:
    """What would fail at the end is said at the beginning.

    Raises:
        SettingsError: no SVG is asked for, its folder is not there, or the extra is missing.
    """
    if path.suffix.lower() != ".svg":
        raise SettingsError(
            f"--chart draws SVG, so its file must end in .svg, not {path.name!r};"
            " a browser shows it, and any image program makes PNG of it"
        )
    if not path.parent.is_dir():
        raise SettingsError(f"--chart: there is no folder {path.parent}")
    _leather()


def write_chart(path: Path, reports: Sequence[SimulationReport], worlds: Sequence[World]) -> None:
    """Draw finished runs into a file.

    Raises:
        SettingsError: the file cannot be written.
    """
    text = chart_text(reports, worlds)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as fault:
        raise SettingsError(f"cannot write {path}: {fault}") from fault


def chart_text(reports: Sequence[SimulationReport], worlds: Sequence[World]) -> str:
    """The picture: time to the first byte, answers over time, makespans, cached shares."""
    leather = _leather()
    names = [report.strategy for report in reports]
    first_bytes = leather.Chart("TTFT (s) that so many of 100 calls stay below")
    done = leather.Chart("answers so far, over time (s)")
    for name, world in zip(names, worlds, strict=True):
        first_bytes.add_line(_shares(ttfts_s(world.records)), name=name)
        done.add_line(_answers(world), name=name)
    first_bytes.add_x_axis(name="% of calls")
    done.add_x_axis(name="s since the first call")
    bound_s, ideal = reports[0].bound_s, reports[0].ideal_cached_share or 0.0
    ends = leather.Chart(f"makespan (s); no schedule can end before {bound_s:,.1f} s")
    _bars(ends, names, [report.makespan_s for report in reports])
    cached = leather.Chart(f"% of prompt tokens from a cache; one without end has {ideal:.0%}")
    _bars(cached, names, [100 * (report.cached_share or 0.0) for report in reports])
    cached.add_x_scale(0, 100)
    grid = leather.Grid()
    grid.add_many([first_bytes, done, ends, cached])
    return str(grid.to_svg(None, WIDTH_PX, HEIGHT_PX))


def _bars(chart: Any, names: Sequence[str], values: Sequence[float]) -> None:
    """In the colours that the strategies have as lines."""
    palette = _leather().theme.default_series_colors
    colours = {name: palette[place % len(palette)] for place, name in enumerate(names)}
    chart.add_bars(list(zip(values, names, strict=True)), fill_color=lambda bar: colours[bar.y])
    chart.add_x_scale(0, max(values) or 1.0)


def _shares(durations_s: list[float]) -> list[tuple[float, float]]:
    """(percent of calls, duration that so many do not exceed), rising."""
    ordered = sorted(durations_s) or [0.0]
    last = max(1, len(ordered) - 1)
    return _thinned([(100 * place / last, each) for place, each in enumerate(ordered)])


def _answers(world: World) -> list[tuple[float, float]]:
    """(s, answers so far) at each answer."""
    ends_s = sorted(record.closed_s for record in world.records if record.closed_s is not None)
    return _thinned([(0.0, 0.0), *((end_s, float(n)) for n, end_s in enumerate(ends_s, 1))])


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    if len(points) <= POINTS:
        return points
    last = len(points) - 1
    return [points[round(last * step / (POINTS - 1))] for step in range(POINTS)]


def _leather() -> Any:
    """The library; it has no types.

    Raises:
        SettingsError: it is not installed.
    """
    try:
        import leather
        import leather.theme
    except ImportError:
        raise SettingsError(
            "--chart needs pair's extra `chart`: pip install 'pair[chart]'"
        ) from None
    # Its own choice is one system's font, with a serif one where that is missing.
    for part in ("title", "legend", "axis_title", "tick"):
        setattr(leather.theme, f"{part}_font_family", "monospace")
    return leather
