from __future__ import annotations

import io
from pathlib import Path

import pytest

from pair.cli.simulate import BAR_CALLS, carry_out
from pair.settings import Settings
from pair.sim.experiment import Experiment, Plan
from pair.sim.scenario_file import MachineTable, ScenarioFile, TraceTable, WorkloadTable
from tests.cli.conftest import Pair


def test_without_options_it_shows_the_classic(pair: Pair) -> None:
    run = pair("simulate")
    assert (run.code, run.err) == (0, "")
    assert "5 calls on 3 nodes with 3 slots: 2 waves" in run.out
    assert "node-1 alone needs 10.0 s, all together at least 4.00 s (T_LB): limit 2.50x" in run.out
    assert f"{Settings().proxy.strategy}    4.00 s   1.00x     2.50x" in run.out
    assert "waiting" in run.out, "so few calls are drawn"
    assert "fairness" not in run.out, "one strategy, one flow, no prompt like another"


def test_strategies_side_by_side_as_json(pair: Pair) -> None:
    options = ["--calls=30", "--spread=0.4", "--failures=3", "--unequal=1,0.5"]
    options += ["--arrivals=poisson"]
    both = ["--strategy", "queue-depth", "--strategy", "round-robin"]
    told = pair("simulate", *options, *both, "--json").json
    assert told["plan"]["speeds"] == [1.0, 0.5]
    assert told["trace"] is None
    assert [machine["id"] for machine in told["machines"]] == ["node-1", "node-2"]
    assert [run["strategy"] for run in told["runs"]] == ["queue-depth", "round-robin"]
    assert min(run["behind_best_s"] for run in told["runs"]) == 0.0
    for run in told["runs"]:
        assert sum(run["outcomes"].values()) == run["calls"] == 30
        assert [share["node"] for share in run["nodes"]] == ["node-1", "node-2"]
        assert run["over_bound"] >= 1.0
        assert run["regret"].keys() == {"calls", "mean_s", "worst_s"}
    assert pair("simulate", *options, *both, "--json").json == told


def test_several_are_compared_in_words(pair: Pair) -> None:
    options = ["--unequal", "4,1", "--calls=12", "--arrivals=conversations", "--turns=4"]
    run = pair("simulate", *options, "--strategy=queue-depth", "--strategy=round-robin")
    assert run.code == 0
    assert "of at most" in run.out
    assert "Jain's index" in run.out


def test_many_nodes_are_listed_up_to_a_limit(pair: Pair) -> None:
    run = pair("simulate", "--nodes", "20", "--calls", "60")
    assert "and 4 more" in run.out
    assert "\nwaiting " not in run.out, "too many calls to be drawn"


def test_wrong_numbers_and_names_are_told(pair: Pair) -> None:
    assert pair("simulate", "--calls", "0").code == 2
    unknown = pair("simulate", "--strategy", "luck")
    assert (unknown.code, unknown.out) == (2, "")
    assert "strategy 'luck' does not exist; choose one of " in unknown.err


# --- files ----------------------------------------------------------------------------------------

LINES = "".join(
    f'{{"timestamp": {1000 * second}, "input_length": 600, "output_length": 5,'
    f' "hash_ids": [1, {second + 2}]}}\n'
    for second in range(6)
)


def test_a_trace_of_which_some_is_left_out(pair: Pair, tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    trace.write_text(LINES, encoding="utf-8")
    run = pair("simulate", "--nodes=1", "--trace", str(trace), "--limit", "4", "--json")
    assert run.code == 0
    assert "has more than the 4 calls that --limit takes" in run.err
    assert run.json["plan"] is None
    assert run.json["trace"] == {
        "file": str(trace),
        "form": "mooncake",
        "calls": 4,
        "cut": True,
        "prompt_tokens": 2400,
        "output_tokens": 20,
    }
    (told,) = run.json["runs"]
    assert told["cached_tokens"] == 3 * 512, "all begin with block 1, one slot keeps it"
    assert told["makespan_s"] >= 3.0


def test_a_wrong_line_and_a_missing_file_are_told(pair: Pair, tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    trace.write_text(LINES + "{}\n", encoding="utf-8")
    wrong = pair("simulate", "--trace", str(trace))
    assert (wrong.code, wrong.out) == (2, "")
    assert f"{trace}:7: Object missing required field `timestamp`" in wrong.err
    assert pair("simulate", "--trace", str(tmp_path / "none")).code == 2
    assert pair("simulate", str(tmp_path / "none.toml")).code == 2


def test_a_chart_is_drawn_and_a_wrong_name_is_told_first(pair: Pair, tmp_path: Path) -> None:
    picture = tmp_path / "runs.svg"
    run = pair("simulate", "--chart", str(picture))
    assert (run.code, run.err) == (0, f"pair: the picture is {picture}\n")
    assert picture.read_text(encoding="utf-8").startswith("<svg")
    png = pair("simulate", "--chart", str(tmp_path / "runs.png"))
    assert (png.code, png.out) == (2, "")
    assert "--chart draws SVG" in png.err


EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.toml")))
def test_the_examples_run(pair: Pair, name: str) -> None:
    told = pair("simulate", str(EXAMPLES / name), "--calls", "24", "--json").json
    assert len(told["machines"]) == 3
    assert len(told["runs"]) == 3
    for run in told["runs"]:
        assert run["outcomes"]["answered"] == run["calls"] == 24
        assert run["cached_tokens"] > 0, "conversations come back to what they said"


def test_the_example_and_the_page_name_every_key(pair: Pair) -> None:
    example = (EXAMPLES / "house.toml").read_text(encoding="utf-8")
    page = (EXAMPLES.parent / "docs" / "simulation.md").read_text(encoding="utf-8")
    tables = (ScenarioFile, MachineTable, WorkloadTable, TraceTable)
    keys = [key for table in tables for key in table.__struct_fields__]
    assert [key for key in keys if key not in example] == []
    assert [key for key in keys if key not in page] == []
    told = pair("simulate", "--json").json
    assert [key for key in [*told, *told["runs"][0]] if f"`{key}`" not in page] == []


# --- the bar --------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    """Somewhere to draw on."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("calls", "bar"), [(BAR_CALLS, True), (10, False)])
def test_a_long_run_has_a_bar_where_somebody_looks(
    calls: int, bar: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stderr = Terminal()
    monkeypatch.setattr("sys.stderr", stderr)
    monkeypatch.setenv("TERM", "xterm")
    plan = Plan(calls=calls, prompt_tokens=1, output_tokens=1)
    carry_out(Experiment(plan, ["queue-depth"], Settings().limits()))
    assert (f"/{2 * calls}" in stderr.getvalue()) == bar
