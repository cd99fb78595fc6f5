from __future__ import annotations

import io

import pytest

from pair.cli.simulate import BAR_CALLS, carry_out, speeds
from pair.errors import SettingsError
from pair.settings import Settings
from pair.sim.experiment import Experiment, Plan
from tests.cli.conftest import Pair


def test_without_options_it_shows_the_classic(pair: Pair) -> None:
    run = pair("simulate")
    assert (run.code, run.err) == (0, "")
    assert "5 calls on 3 nodes with 3 slots: 2 waves" in run.out
    assert "node-1 alone needs 10.0 s, all together at least 4.00 s: limit 2.50x" in run.out
    assert "queue-depth    4.00 s     2.50x        100%" in run.out
    assert "waiting" in run.out, "so few calls are drawn"


def test_strategies_side_by_side_as_json(pair: Pair) -> None:
    options = ["--calls=30", "--spread=0.4", "--failures=3", "--unequal=1,0.5"]
    options += ["--arrivals=poisson"]
    both = ["--strategy", "queue-depth", "--strategy", "round-robin"]
    told = pair("simulate", *options, *both, "--json").json
    assert told["plan"]["speeds"] == [1.0, 0.5]
    assert [run["strategy"] for run in told["runs"]] == ["queue-depth", "round-robin"]
    for run in told["runs"]:
        assert sum(run["outcomes"].values()) == run["calls"] == 30
        assert [share["node"] for share in run["nodes"]] == ["node-1", "node-2"]
    assert pair("simulate", *options, *both, "--json").json == told


def test_many_nodes_are_listed_up_to_a_limit(pair: Pair) -> None:
    run = pair("simulate", "--nodes", "20", "--calls", "60")
    assert "and 4 more" in run.out
    assert "\nwaiting " not in run.out, "too many calls to be drawn"


@pytest.mark.parametrize("text", ["", "fast", "1,,2", "1,0", "1,-2", "nan", "inf"])
def test_speeds_are_numbers_above_0(pair: Pair, text: str) -> None:
    with pytest.raises(SettingsError, match="--unequal takes speeds above 0"):
        speeds(text)
    run = pair("simulate", "--unequal", text)
    assert (run.code, run.out) == (2, "")
    assert run.err.startswith("pair: --unequal takes speeds above 0 such as 1,0.5,0.25, not ")


def test_speeds() -> None:
    assert speeds("1, 0.5,2") == (1.0, 0.5, 2.0)


def test_wrong_numbers_and_names_are_told(pair: Pair) -> None:
    assert pair("simulate", "--calls", "0").code == 2
    unknown = pair("simulate", "--strategy", "luck")
    assert (unknown.code, unknown.out) == (2, "")
    assert "strategy 'luck' does not exist; choose one of queue-depth" in unknown.err


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
