from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from pair.cli.simulate import carry_out
from pair.cli.simulation_chart import POINTS, chart_text, check_chart, write_chart
from pair.errors import SettingsError
from pair.settings import Settings
from pair.sim.experiment import Experiment, Plan

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def experiment() -> Experiment:
    plan = Plan(calls=3 * POINTS, speeds=(4.0, 1.0), spread=0.5, shared_tokens=100)
    experiment = Experiment(plan, ["queue-depth", "round-robin"], Settings().limits())
    carry_out(experiment)
    return experiment


def test_each_strategy_has_its_lines_and_bars_in_one_colour(experiment: Experiment) -> None:
    root = ET.fromstring(chart_text(experiment.reports, experiment.worlds))  # noqa: S314 - our own
    texts = [element.text or "" for element in root.iter(f"{SVG}text")]
    assert texts.count("queue-depth") == texts.count("round-robin") == 4, "2 legends, 2 of bars"
    paths = [element for element in root.iter(f"{SVG}path") if element.get("d")]
    assert len(paths) == 4
    assert all(len((path.get("d") or "").split()) <= 3 * POINTS + 3 for path in paths)
    bars = [bar for bar in root.iter(f"{SVG}rect") if float(bar.get("height") or 0) > 20]
    colours = {path.get("stroke") for path in paths}
    drawn = [bar for bar in bars if bar.get("fill") in colours]
    assert len(drawn) == 4
    # queue-depth ends first on unequal machines, and its colour comes first.
    first, second = paths[0].get("stroke"), paths[1].get("stroke")
    assert first != second
    ends = {bar.get("fill"): float(bar.get("width") or 0) for bar in drawn[:2]}
    reports = experiment.reports
    assert ends[first] / ends[second] == pytest.approx(
        reports[0].makespan_s / reports[1].makespan_s, rel=0.01
    )


def test_it_refers_to_nothing_elsewhere(experiment: Experiment) -> None:
    text = chart_text(experiment.reports, experiment.worlds)
    assert text.replace("http://www.w3.org/2000/svg", "").find("http") == -1


def test_a_file_is_written_or_the_reason_told(experiment: Experiment, tmp_path: Path) -> None:
    write_chart(tmp_path / "a.svg", experiment.reports, experiment.worlds)
    assert (tmp_path / "a.svg").read_text(encoding="utf-8").startswith("<svg")
    (tmp_path / "b.svg").mkdir()
    with pytest.raises(SettingsError, match=r"cannot write .*b\.svg"):
        write_chart(tmp_path / "b.svg", experiment.reports, experiment.worlds)


def test_what_would_fail_at_the_end_is_said_at_the_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_chart(tmp_path / "a.svg")
    with pytest.raises(SettingsError, match=r"must end in \.svg, not 'a\.png'"):
        check_chart(tmp_path / "a.png")
    with pytest.raises(SettingsError, match="--chart: there is no folder "):
        check_chart(tmp_path / "none" / "a.svg")
    monkeypatch.setitem(sys.modules, "leather", None)
    with pytest.raises(SettingsError, match=r"needs pair's extra `chart`: pip install 'pair\[ch"):
        check_chart(tmp_path / "a.svg")
