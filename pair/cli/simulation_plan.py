"""What `pair simulate` was asked to do: flags over a file over the classic, made into a scenario.

Apart from the command because this is where files are read and where flags meet what a file says;
the command only carries out and shows.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pair.cli.exit_codes import UsageFault
from pair.errors import SettingsError
from pair.settings import Settings
from pair.sim.experiment import Arrivals, Plan, Scenario, drawn, fleet_of
from pair.sim.machines import Machine
from pair.sim.scenario_file import ScenarioFile, machines_of, read_scenario_file
from pair.sim.trace import TraceForm, Window, read_trace

LINE_LIMIT: Final = 1 << 22
"""Longest line of a trace (characters) that is read: a prompt of a million tokens has a fortieth of
it in Mooncake's form.
"""

FILE_LIMIT: Final = 1 << 24
"""Longest scenario file (bytes)."""

PLAN_FLAGS: Final = {
    **{name: name for name in ("slots", "calls", "prompt_tokens", "output_tokens", "spread")},
    **{name: name for name in ("arrivals", "width", "shared_tokens", "turns", "rehearsal")},
    **{name: name for name in ("failures", "seed", "proxies")},
    "prefill_rate": "prefill_rate_tokens_per_s",
    "decode_rate": "decode_rate_tokens_per_s",
    "rate": "rate_per_s",
    "think": "think_s",
}
"""Argument of the command -> field of `Plan`."""

MACHINE_FLAGS: Final = {
    "slots": "slots",
    "prefill_rate": "prefill_rate_tokens_per_s",
    "decode_rate": "decode_rate_tokens_per_s",
    "cache_tokens": "cache_tokens",
}
"""Argument of the command -> field of every `Machine`, whether a file or a flag made it."""

DRAWN_ONLY: Final = (
    *("calls", "prompt_tokens", "output_tokens", "spread", "arrivals", "rate", "width"),
    *("shared_tokens", "turns", "think", "rehearsal"),
)
"""Arguments that mean nothing with a trace."""

ARRIVALS_FOR: Final = {
    "turns": (Arrivals.CONVERSATIONS,),
    "think": (Arrivals.CONVERSATIONS,),
    "width": (Arrivals.FAN_OUT,),
    "rate": (Arrivals.FAN_OUT, Arrivals.POISSON, Arrivals.CONVERSATIONS),
}
"""Arguments that mean something with certain arrivals only."""

TRACE_ONLY: Final = {
    "limit": "limit",
    "speed_up": "speed_up",
    "since": "from_s",
    "until": "until_s",
}
"""Arguments that mean nothing without one -> field of `Window`."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What to carry out.

    Attributes:
        plan: what was drawn from, None with a trace.
        trace: the form of the trace, None without one. source: its path as it was given.
        cut: the limit left calls of the trace out.
    """

    scenario: Scenario
    strategies: list[str]
    plan: Plan | None = None
    trace: TraceForm | None = None
    source: Path | None = None
    cut: bool = False


def asked_for(given: Mapping[str, Any]) -> Asked:
    """Everything together.

    Args:
        given: the command's arguments that stand on the command line, by their names.

    Raises:
        UsageFault: flags that do not go together.
        SettingsError: a file cannot be read or says something wrong.
    """
    for name, value in given.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageFault(f"{_flag_of(name)} takes a number, not {value}")
    file = given.get("file")
    said = ScenarioFile() if file is None else read_scenario_file(_text_of(file), str(file))
    wanted = given.get("strategy") or said.strategies or [Settings().proxy.strategy]
    strategies = list(dict.fromkeys(wanted))  # each once
    plan = _plan(given, said)
    machines = _machines(given, said, plan)
    window = {field: given[name] for name, field in TRACE_ONLY.items() if name in given}
    source = given.get("trace")
    table = said.trace if source is None else None
    if source is None and table is not None:
        source = Path(given["file"]).parent / table.file
    if source is None:
        if window:
            first = next(name for name in TRACE_ONLY if name in given)
            raise UsageFault(f"{_flag_of(first)} needs a trace")
        _check_arrivals(given, plan.arrivals)
        return Asked(drawn(plan, machines), strategies, plan)
    for name in DRAWN_ONLY:
        if name in given:
            raise UsageFault(
                f"{_flag_of(name)} means nothing with a trace, which has its own calls"
            )
    played = dataclasses.replace(Window() if table is None else table.window(), **window)
    trace = read_trace(_lines_of(source), str(source), played)
    return Asked(
        drawn(plan, machines, trace.calls), strategies, None, trace.form, source, trace.cut
    )


def _check_arrivals(given: Mapping[str, Any], arrivals: Arrivals) -> None:
    for name, fitting in ARRIVALS_FOR.items():
        if name in given and arrivals not in fitting:
            raise UsageFault(
                f"{_flag_of(name)} means nothing with --arrivals {arrivals}, only with"
                f" {' or '.join(fitting)}"
            )


def speeds(text: str) -> tuple[float, ...]:
    """`1,0.5` as numbers.

    Raises:
        SettingsError: it is no list of numbers above 0.
    """
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or not all(0 < speed < math.inf for speed in found):
        raise UsageFault(f"--unequal takes speeds above 0 such as 1,0.5,0.25, not {text!r}")
    return found


def _plan(given: Mapping[str, Any], said: ScenarioFile) -> Plan:
    fields: dict[str, Any] = {} if said.workload is None else said.workload.given()
    for name in ("seed", "failures", "proxies"):
        if getattr(said, name) is not None:
            fields[name] = getattr(said, name)
    fields |= {field: given[name] for name, field in PLAN_FLAGS.items() if name in given}
    if "unequal" in given:
        fields["speeds"] = speeds(given["unequal"])
    elif "nodes" in given:
        fields["speeds"] = (1.0,) * given["nodes"]
    return Plan(**fields)


def _machines(given: Mapping[str, Any], said: ScenarioFile, plan: Plan) -> Sequence[Machine]:
    """Flags that say how many there are replace those of the file; others change each."""
    if said.machines and "nodes" not in given and "unequal" not in given:
        machines = machines_of(said.machines, str(given["file"]))
    else:
        machines = fleet_of(plan)
        given = {name: value for name, value in given.items() if name == "cache_tokens"}
    changed = {field: given[name] for name, field in MACHINE_FLAGS.items() if name in given}
    return [dataclasses.replace(machine, **changed) for machine in machines]


def _flag_of(name: str) -> str:
    """As it is written: `since` stands for a word that Python keeps."""
    return "--from" if name == "since" else f"--{name.replace('_', '-')}"


# --- files ----------------------------------------------------------------------------------------


def _text_of(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            content = opened.read(FILE_LIMIT + 1)
        if len(content) > FILE_LIMIT:
            raise SettingsError(f"{file} is too long for a scenario; a trace goes to --trace")
        return content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as fault:
        raise SettingsError(f"cannot read {file}: {fault}") from fault


def _lines_of(file: Path) -> Iterator[str]:
    try:
        with file.open(encoding="utf-8-sig", newline="") as opened:
            while line := opened.readline(LINE_LIMIT):
                if len(line) == LINE_LIMIT:
                    raise SettingsError(f"{file} has a line of {LINE_LIMIT:,} characters or more")
                yield line
    except (OSError, ValueError) as fault:  # the latter: no UTF-8, or a name that cannot be
        raise SettingsError(f"cannot read {file}: {fault}") from fault
