from __future__ import annotations

import math

import pytest

from pair.errors import SettingsError
from pair.sim.experiment import Arrivals, Plan
from pair.sim.machines import CacheKind
from pair.sim.scenario_file import machines_of, read_scenario_file
from pair.sim.trace import CALLS_LIMIT, Window

HOUSE = """
strategies = ["queue-depth", "round-robin"]
seed = 7

[[machines]]
name = "tower"
slots = 2
prefill_rate_tokens_per_s = 2000
decode_rate_tokens_per_s = 80.5
cache = "paged"
cache_tokens = 100_000
context_tokens = 32768
load_s = 8
resident = false
unload_after_s = 300
slowdown = 0.1

[[machines]]
count = 2
prefill_rate_tokens_per_s = 300
decode_rate_tokens_per_s = 20

[workload]
arrivals = "conversations"
calls = 40
turns = 5
"""


def test_a_house_and_its_work() -> None:
    said = read_scenario_file(HOUSE, "house.toml")
    assert (said.strategies, said.seed, said.failures) == (["queue-depth", "round-robin"], 7, None)
    tower, *others = machines_of(said.machines, "house.toml")
    assert (tower.id, tower.slots, tower.decode_rate_tokens_per_s) == ("tower", 2, 80.5)
    assert (tower.cache_kind, tower.cache_tokens) == (CacheKind.PAGED, 100_000)
    assert (tower.context_tokens, tower.load_s, tower.resident) == (32768, 8.0, False)
    assert (tower.unload_after_s, tower.slowdown) == (300.0, 0.1)
    assert [machine.id for machine in others] == ["node-2", "node-3"]
    assert {machine.prefill_rate_tokens_per_s for machine in others} == {300.0}
    assert said.workload is not None
    given = said.workload.given()
    assert given == {"arrivals": Arrivals.CONVERSATIONS, "calls": 40, "turns": 5}
    assert Plan(**given).calls == 40, "the keys are fields of a plan"


def test_every_field_of_a_plan_that_is_about_calls_has_a_key() -> None:
    every = read_scenario_file(
        """
        [workload]
        arrivals = "burst"
        calls = 1
        prompt_tokens = 2
        output_tokens = 3
        spread = 0.5
        rate_per_s = 1.5
        width = 4
        shared_tokens = 0
        turns = 6
        think_s = 0
        rehearsal = 0
        """,
        "f",
    ).workload
    assert every is not None
    not_calls = {"speeds", "slots", "prefill_rate_tokens_per_s", "decode_rate_tokens_per_s"}
    top = {"failures", "seed", "proxies"}
    assert every.given().keys() == set(Plan.__dataclass_fields__) - not_calls - top


def test_an_empty_file_says_nothing() -> None:
    said = read_scenario_file("", "f")
    assert (said.machines, said.workload, said.trace, said.strategies) == ([], None, None, [])


def test_a_trace() -> None:
    said = read_scenario_file('[trace]\nfile = "a.csv"\nfrom_s = 10\nspeed_up = 2', "f").trace
    assert said is not None
    assert said.file == "a.csv"
    assert said.window() == Window(CALLS_LIMIT, 10.0, math.inf, 2.0)
    plain = read_scenario_file('[trace]\nfile = "a.csv"', "f").trace
    assert plain is not None
    assert plain.window() == Window()


RATES = "prefill_rate_tokens_per_s = 1\ndecode_rate_tokens_per_s = 1\n"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("x =", "house.toml is not TOML: "),
        (f"x = {'[' * 5000}", "house.toml is not TOML: "),
        (f"x = {'1' * 5000}", "house.toml is not TOML: "),
        ("[workload]\nspread = 11.0", "Expected `float` <= 10.0 - at `workload.spread`"),
        ("[workload]\noutput_tokens = 10_000_001", "<= 10000000 - at `workload.output_tokens`"),
        (f"[[machines]]\n{RATES}slots = 5000", "<= 4096 - at `machines[0].slots`"),
        ("strategy = 1", "house.toml: Object contains unknown field `strategy`"),
        (f"[[machines]]\n{RATES}slots = 0", "Expected `int` >= 1 - at `machines[0].slots`"),
        (f"[[machines]]\n{RATES}slots = 1.5", "Expected `int`, got `float` - at `machines[0]"),
        ("[[machines]]\nslots = 1", "missing required field `prefill_rate_tokens_per_s`"),
        (f"[[machines]]\n{RATES}speed = 1", "unknown field `speed` - at `machines[0]`"),
        (f"[[machines]]\n{RATES}load_s = nan", "machines[0].load_s"),
        (f"[[machines]]\n{RATES}load_s = inf", "<= 3600.0 - at `machines[0].load_s`"),
        ("[[machines]]\nprefill_rate_tokens_per_s = 0", "Expected `float` > 0.0 - at"),
        (f"[[machines]]\n{RATES}cache = 'big'", "'big' - at `machines[0].cache`: slots, paged"),
        ("[workload]\narrivals = 'rain'", "workload.arrivals`: burst, fan-out, poisson, conv"),
        ("[workload]\ncalls = true", "Expected `int | null`, got `bool` - at `workload.calls`"),
        ("[trace]\nlimit = 5", "missing required field `file` - at `trace`"),
        ("[workload]\n[trace]\nfile = 'a'", "it has both [workload] and [trace]; one is enough"),
    ],
)
def test_errors_say_where(text: str, complaint: str) -> None:
    with pytest.raises(SettingsError) as fault:
        read_scenario_file(text, "house.toml")
    assert str(fault.value).startswith("house.toml")
    assert complaint in str(fault.value)


def test_names_of_machines_are_unique_and_their_number_is_bounded() -> None:
    named = f"[[machines]]\nname = 'a'\ncount = 2\n{RATES}"
    assert [m.id for m in machines_of(read_scenario_file(named, "f").machines, "f")] == [
        "a-1",
        "a-2",
    ]
    with pytest.raises(SettingsError, match="f: two machines have the name a-1"):
        machines_of(read_scenario_file(named + named, "f").machines, "f")
    many = f"[[machines]]\ncount = 6000\n{RATES}"
    with pytest.raises(SettingsError, match="f: more than 10,000 machines"):
        machines_of(read_scenario_file(many + many, "f").machines, "f")
