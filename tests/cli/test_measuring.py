from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from pair.bench.comparison import Comparison, Round
from pair.bench.echo_engine import EchoModel, EchoSettings, parse_fault
from pair.bench.runner import Answer, FailedCall, Run
from pair.bench.workload import Workload
from pair.cli.measuring import busy, comparison_json, holders, measure, quiet_of, the_model
from pair.cli.running_proxy import RunningProxy
from pair.errors import SettingsError
from tests.support.house import chat, house
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


def equal(slots: int = 1) -> EchoSettings:
    """An engine on which a call of 20 tokens takes about 0.2 s."""
    return EchoSettings(models=(EchoModel("tiny"),), decode_rate_tokens_per_s=100.0, slots=slots)


async def test_a_bench_measures_the_house_against_one_node_and_a_perfect_client(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with house(equal(), equal()) as built:
        direct = {engine.url: f"{engine.url}/v1" for engine in built.engines}
        sizes = {"calls": 4, "output_tokens": 20, "system_repeats": 1}
        report = await measure(built.base_url, None, sizes, 2, None, direct)
        await built.quiet()
        built.assert_books_are_clean()
    assert (report["model"], report["calls"], len(report["rounds"])) == ("tiny", 4, 2)
    assert 1.3 < report["speedup"] < 2.1, "short calls, timed on a machine that others use"
    assert 0.7 < report["of_direct"] < 1.3
    assert report["job"]["baseline"] == "measured"
    assert report["job"]["id"] in [each["job"] for each in report["rounds"]]
    assert len(report["job"]["calls"]) == 4
    out, err = capsys.readouterr()
    assert out == ""
    assert "round 2 of 2" in err


async def test_the_fastest_node_is_the_baseline_unless_another_is_wanted() -> None:
    slow = EchoSettings(models=(EchoModel("tiny"),), decode_rate_tokens_per_s=50.0)
    async with house(slow, equal()) as built:
        sizes = {"calls": 2, "output_tokens": 8, "system_repeats": 1}
        for wanted, name in ((None, "node-1"), ("node-0", "node-0")):
            report = await measure(built.base_url, "tiny", sizes, 1, wanted, {})
            names = {node["node"]: node["name"] for node in report["job"]["nodes"]}
            assert names[report["job"]["baseline_node"]] == name


async def test_an_arm_waits_for_an_idle_house_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with house(equal()) as built, RunningProxy(built.base_url) as proxy:
        await quiet_of(proxy)()
        assert not busy(await proxy.snapshot())
        monkeypatch.setattr("pair.cli.measuring.QUIET_LIMIT_S", 0.1)
        async with asyncio.TaskGroup() as tasks:
            call = tasks.create_task(built.send(chat("tiny", 100)))
            await built.until(lambda: built.snapshot().in_flight == 1)
            assert busy(await proxy.snapshot())
            await quiet_of(proxy)()
            assert not call.done()
            call.cancel()


async def test_a_call_that_fails_ends_the_bench_with_what_the_client_was_told() -> None:
    broken = replace(equal(), faults=(parse_fault("status,status=400,skip=2"),))
    sizes = {"calls": 2, "output_tokens": 8, "system_repeats": 1}
    async with house(broken) as built:
        failed = pytest.RaisesExc(FailedCall, match="call . failed: .*400")
        with pytest.RaisesGroup(failed, flatten_subgroups=True):
            await measure(built.base_url, None, sizes, 1, None, {})
