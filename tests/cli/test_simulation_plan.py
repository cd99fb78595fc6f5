from __future__ import annotations

import re
from pathlib import Path

import pytest

from pair.cli import simulation_plan
from pair.cli.exit_codes import UsageFault
from pair.cli.simulation_plan import asked_for, speeds
from pair.errors import SettingsError
from pair.settings import Settings
from pair.sim.experiment import Arrivals, Plan
from pair.sim.trace import TraceForm
from tests.cli.conftest import Pair

HOUSE = """
strategies = ["round-robin"]
seed = 5
failures = 1
proxies = 2

[[machines]]
name = "tower"
slots = 2
prefill_rate_tokens_per_s = 3000
decode_rate_tokens_per_s = 90
cache_tokens = 1000

[[machines]]
name = "laptop"
prefill_rate_tokens_per_s = 600
decode_rate_tokens_per_s = 25
"""
WORK = """
[workload]
arrivals = "fan-out"
calls = 8
width = 4
"""
TABLE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03,100,10
2023-11-16 18:17:05,200,8
"""


def house(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "house.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_nothing_given_is_the_classic() -> None:
    asked = asked_for({})
    assert asked.plan == Plan()
    assert asked.strategies == [Settings().proxy.strategy]
    assert [machine.id for machine in asked.scenario.machines] == ["node-1", "node-2", "node-3"]
    assert (len(asked.scenario.calls), asked.trace) == (5, None)


def test_a_file_alone(tmp_path: Path) -> None:
    asked = asked_for({"file": house(tmp_path, HOUSE + WORK)})
    assert asked.strategies == ["round-robin"]
    assert asked.plan is not None
    assert (asked.plan.arrivals, asked.plan.calls, asked.plan.width) == (Arrivals.FAN_OUT, 8, 4)
    assert (asked.plan.seed, asked.plan.failures, asked.scenario.proxies) == (5, 1, 2)
    tower, laptop = asked.scenario.machines
    assert (tower.id, tower.slots, tower.cache_tokens, laptop.slots) == ("tower", 2, 1000, 1)
    assert len(asked.scenario.calls) == 8
    assert asked.scenario.incidents


def test_flags_come_before_the_file(tmp_path: Path) -> None:
    file = house(tmp_path, HOUSE + WORK)
    changed = asked_for(
        {"file": file, "calls": 3, "slots": 4, "cache_tokens": 7, "seed": 6, "strategy": ["x"]}
    )
    assert (changed.strategies, len(changed.scenario.calls)) == (["x"], 3)
    assert [machine.slots for machine in changed.scenario.machines] == [4, 4]
    assert [machine.cache_tokens for machine in changed.scenario.machines] == [7, 7]
    assert [machine.prefill_rate_tokens_per_s for machine in changed.scenario.machines] == [
        3000,
        600,
    ]
    assert changed.plan is not None
    assert (changed.plan.seed, changed.plan.width) == (6, 4)
    other = asked_for({"file": file, "unequal": "1,0.5", "slots": 3}).scenario.machines
    assert [(machine.id, machine.slots) for machine in other] == [("node-1", 3), ("node-2", 3)]
    assert len(asked_for({"file": file, "nodes": 5}).scenario.machines) == 5


def test_a_trace_lies_beside_its_file_and_a_flag_comes_before_it(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(TABLE, encoding="utf-8")
    file = house(tmp_path, HOUSE + '[trace]\nfile = "t.csv"\nspeed_up = 2\n')
    asked = asked_for({"file": file})
    assert (asked.plan, asked.trace, asked.source) == (None, TraceForm.AZURE, tmp_path / "t.csv")
    assert [call.at_s for call in asked.scenario.calls] == [0.0, 1.0]
    assert (asked.scenario.proxies, len(asked.scenario.machines)) == (2, 2)
    assert asked.scenario.incidents, "mishaps befall machines under a trace, too"
    faster = asked_for({"file": file, "speed_up": 4.0, "until": 1.0})
    assert [call.prompt_tokens for call in faster.scenario.calls] == [100]
    other = tmp_path / "other.csv"
    other.write_text(TABLE.replace(",100,", ",300,"), encoding="utf-8-sig")
    by_flag = asked_for({"file": file, "trace": other})
    assert [call.prompt_tokens for call in by_flag.scenario.calls] == [300, 200]
    assert by_flag.scenario.calls[1].at_s == 2.0, "the file's window is for the file's trace"


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"since": 3.0}, "--from needs a trace"),
        ({"speed_up": 3.0}, "--speed-up needs a trace"),
        ({"rate": float("nan")}, "--rate takes a number, not nan"),
        ({"prefill_rate": float("inf")}, "--prefill-rate takes a number, not inf"),
        (
            {"trace": True, "calls": 3},
            "--calls means nothing with a trace, which has its own calls",
        ),
        ({"trace": True, "prompt_tokens": 3}, "--prompt-tokens means nothing with a trace"),
        ({"turns": 3}, "--turns means nothing with --arrivals burst, only with conversations"),
        (
            {"arrivals": Arrivals.POISSON, "width": 3},
            "--width means nothing with --arrivals poisson, only with fan-out",
        ),
        ({"rate": 3.0}, "--rate means nothing with --arrivals burst, only with fan-out or poisson"),
        ({"unequal": "fast"}, "--unequal takes speeds above 0 such as 1,0.5,0.25, not 'fast'"),
    ],
)
def test_flags_that_do_not_go_together(
    given: dict[str, object], complaint: str, tmp_path: Path
) -> None:
    (tmp_path / "t.csv").write_text(TABLE, encoding="utf-8")
    if "trace" in given:
        given = {**given, "trace": tmp_path / "t.csv"}
    with pytest.raises(UsageFault, match=re.escape(complaint)):
        asked_for(given)


@pytest.mark.parametrize("text", ["", "fast", "1,,2", "1,0", "1,-2", "nan", "inf"])
def test_speeds_are_numbers_above_0(pair: Pair, text: str) -> None:
    with pytest.raises(SettingsError, match="--unequal takes speeds above 0"):
        speeds(text)
    run = pair("simulate", "--unequal", text)
    assert (run.code, run.out) == (2, "")
    assert run.err.startswith("pair: --unequal takes speeds above 0 such as 1,0.5,0.25, not ")


def test_speeds() -> None:
    assert speeds("1, 0.5,2") == (1.0, 0.5, 2.0)


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match=r"cannot read .*none\.csv"):
        asked_for({"trace": tmp_path / "none.csv"})
    with pytest.raises(SettingsError, match=r"cannot read .*none\.csv"):
        asked_for({"file": house(tmp_path, '[trace]\nfile = "none.csv"\n')})
    binary = tmp_path / "b.csv"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsError, match=r"cannot read .*b\.csv: 'utf-8' codec"):
        asked_for({"trace": binary})
    with pytest.raises(SettingsError, match=r"cannot read .*b\.csv"):
        asked_for({"file": binary})
    monkeypatch.setattr(simulation_plan, "LINE_LIMIT", 30)
    monkeypatch.setattr(simulation_plan, "FILE_LIMIT", 30)
    (tmp_path / "t.csv").write_text(TABLE, encoding="utf-8")
    with pytest.raises(SettingsError, match="has a line of 30 characters or more"):
        asked_for({"trace": tmp_path / "t.csv"})
    with pytest.raises(SettingsError, match="is too long for a scenario; a trace goes to --trace"):
        asked_for({"file": house(tmp_path, HOUSE)})
