from __future__ import annotations

import pytest

from pair.bench.comparison import Comparison, Round
from pair.bench.runner import Answer, Run
from pair.bench.workload import Workload
from pair.cli.measuring import comparison_json, holders, the_model
from pair.errors import SettingsError
from tests.terminal.samples import model, node, replica, snapshot


def test_only_ready_replicas_hold_a_model_under_any_of_its_names() -> None:
    shown = snapshot(
        node("a", replica("tiny", aliases=["gpt-4o"])),
        node("b", replica("tiny", state="loading")),
        node("c", replica("tiny"), phase="lost"),
        node("d", replica("big")),
    )
    assert holders(shown, "tiny") == holders(shown, "gpt-4o") == ["id-a"]


def test_the_only_model_needs_no_name_and_several_do() -> None:
    one = snapshot(node("a", replica("tiny")), models=[model("tiny"), model("gone", nodes=0)])
    assert the_model(one, None) == "tiny"
    several = snapshot(node("a", replica("tiny")), models=[model("tiny"), model("big")])
    assert the_model(several, "tiny") == "tiny"
    with pytest.raises(SettingsError, match=r"say which model with --model; .*: tiny, big"):
        the_model(several, None)
    with pytest.raises(SettingsError, match="holds the model 'nope'; there are: tiny, big"):
        the_model(several, "nope")
    with pytest.raises(SettingsError, match="those that are ready: none"):
        the_model(snapshot(), None)


def run_of(makespan_s: float) -> Run:
    return Run((Answer(0, "a", 0.0, 0.5, makespan_s, 10),))


def test_the_document_holds_every_round_and_the_medians() -> None:
    rounds = (
        Round("bench-1", run_of(10.0), run_of(5.0), run_of(4.0)),
        Round("bench-2", run_of(9.0), run_of(3.0), run_of(3.0)),
        Round("bench-3", run_of(8.0), run_of(4.0), None),
    )
    told = comparison_json(Comparison(rounds), Workload("tiny", 6, 64), {"id": "bench-1"})
    assert (told["model"], told["calls"], told["output_tokens"]) == ("tiny", 6, 64)
    assert told["speedup"] == 2.0
    assert told["of_direct"] == pytest.approx((2.0 / 2.5 + 1.0) / 2)
    assert [each["speedup"] for each in told["rounds"]] == [2.0, 3.0, 2.0]
    assert told["rounds"][2]["direct_s"] is None
    assert told["job"] == {"id": "bench-1"}
