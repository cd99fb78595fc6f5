"""A house and its work as a file says them: machines one by one, what they are asked, and how that
is compared.

Apart from the command, whose flags say the same for equal machines only. The text is TOML; paths in
it are only names here, whoever reads files finds them. Everything is checked before anything is
made of it, and an error names the place in the file.
"""

from __future__ import annotations

import math
import tomllib
from typing import Annotated, Any

import msgspec

from pair.core.names import NodeId
from pair.errors import SettingsError
from pair.sim.experiment import Arrivals
from pair.sim.machines import CacheKind, Machine
from pair.sim.trace import CALLS_LIMIT, TOKENS_LIMIT, Window

MACHINES_LIMIT = 10_000
"""Most machines of a house; a thousand are simulated in seconds, more in minutes."""

PROXIES_LIMIT = 64
"""Most proxies on one house: more people than live in one."""

CALLS_DRAWN_LIMIT = 10_000_000
"""Most calls that are made up: hours of work, gigabytes of records."""

SLOTS_LIMIT = 4096
"""Most slots of a machine; the largest servers run some hundred calls at once."""

SPREAD_LIMIT = 10.0
"""Largest sigma of lengths: already then nearly all calls have one token."""

FAILURES_LIMIT = 10_000
"""Most mishaps; with more nobody would ever get an answer."""

LOAD_LIMIT_S = 3600.0
"""Longest load of a model (s): a terabyte from a slow disk."""

_MOST = 1_000_000_000
"""Largest number that is believed, of whatever."""

Count = Annotated[int, msgspec.Meta(ge=1, le=_MOST)]
Amount = Annotated[int, msgspec.Meta(ge=0, le=_MOST)]
Rate = Annotated[float, msgspec.Meta(gt=0, le=_MOST)]
Number = Annotated[float, msgspec.Meta(ge=0, le=_MOST)]
Tokens = Annotated[int, msgspec.Meta(ge=1, le=TOKENS_LIMIT)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]


class MachineTable(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`[[machines]]`: `count` equal ones; see `Machine` for what the other keys mean."""

    prefill_rate_tokens_per_s: Rate
    decode_rate_tokens_per_s: Rate
    name: Name | None = None
    count: Annotated[int, msgspec.Meta(ge=1, le=MACHINES_LIMIT)] = 1
    slots: Annotated[int, msgspec.Meta(ge=1, le=SLOTS_LIMIT)] = 1
    cache: CacheKind = CacheKind.SLOTS
    cache_tokens: Amount = 0
    slowdown: Number = 0.0
    context_tokens: Count | None = None
    load_s: Annotated[float, msgspec.Meta(ge=0, le=LOAD_LIMIT_S)] = 0.0
    resident: bool = True
    unload_after_s: Number | None = None


class WorkloadTable(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`[workload]`: what is drawn. The keys are fields of `Plan`; one left out has its default."""

    arrivals: Arrivals | None = None
    calls: Annotated[int, msgspec.Meta(ge=1, le=CALLS_DRAWN_LIMIT)] | None = None
    prompt_tokens: Tokens | None = None
    output_tokens: Tokens | None = None
    spread: Annotated[float, msgspec.Meta(ge=0, le=SPREAD_LIMIT)] | None = None
    rate_per_s: Rate | None = None
    width: Annotated[int, msgspec.Meta(ge=1, le=CALLS_DRAWN_LIMIT)] | None = None
    shared_tokens: Annotated[int, msgspec.Meta(ge=0, le=TOKENS_LIMIT)] | None = None
    turns: Count | None = None
    think_s: Number | None = None
    rehearsal: Annotated[int, msgspec.Meta(ge=0, le=CALLS_DRAWN_LIMIT)] | None = None

    def given(self) -> dict[str, Any]:
        """The fields of `Plan` that the file says."""
        return {
            name: value for name, value in msgspec.structs.asdict(self).items() if value is not None
        }


class TraceTable(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`[trace]`: a recorded workload in place of a drawn one; `file` as the user wrote it."""

    file: Name
    limit: Annotated[int, msgspec.Meta(ge=1, le=CALLS_DRAWN_LIMIT)] = CALLS_LIMIT
    from_s: Number | None = None
    until_s: Number | None = None
    speed_up: Rate = 1.0

    def window(self) -> Window:
        """What is wanted of it."""
        return Window(
            self.limit,
            -math.inf if self.from_s is None else self.from_s,
            math.inf if self.until_s is None else self.until_s,
            self.speed_up,
        )


class ScenarioFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The whole file; every key may be left out."""

    strategies: list[Name] = []
    seed: int | None = None
    failures: Annotated[int, msgspec.Meta(ge=0, le=FAILURES_LIMIT)] | None = None
    proxies: Annotated[int, msgspec.Meta(ge=1, le=PROXIES_LIMIT)] | None = None
    machines: list[MachineTable] = []
    workload: WorkloadTable | None = None
    trace: TraceTable | None = None


def read_scenario_file(text: str, name: str) -> ScenarioFile:
    """What a file says, checked.

    Raises:
        SettingsError: with the file's name and the place in it.
    """
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as fault:  # a number of 5,000 digits is the former, too
        raise SettingsError(f"{name} is not TOML: {fault}") from fault
    try:
        said = msgspec.convert(document, ScenarioFile)
    except msgspec.ValidationError as fault:
        raise SettingsError(f"{name}: {_told(str(fault))}") from fault
    if said.workload is not None and said.trace is not None:
        raise SettingsError(f"{name}: it has both [workload] and [trace]; one is enough")
    return said


def _told(complaint: str) -> str:
    """In a user's words: without the decoder's sign for the whole, with what may be chosen."""
    for key, choices in (("arrivals`", Arrivals), ("cache`", CacheKind)):
        if complaint.startswith("Invalid enum") and complaint.endswith(key):
            complaint += f": {', '.join(choices)}"
    return complaint.replace("`$.", "`")


def machines_of(tables: list[MachineTable], name: str) -> list[Machine]:
    """The machines, named as the file says; those without a name `node-1` and so on by their place.

    Raises:
        SettingsError: two have one name, or there are too many.
    """
    machines: dict[NodeId, Machine] = {}
    for table in tables:
        for number in range(1, table.count + 1):
            first = table.name or f"node-{len(machines) + 1}"
            numbered = table.name is not None and table.count > 1
            node = NodeId(f"{first}-{number}" if numbered else first)
            if node in machines:
                raise SettingsError(f"{name}: two machines have the name {node}")
            if len(machines) == MACHINES_LIMIT:
                raise SettingsError(f"{name}: more than {MACHINES_LIMIT:,} machines")
            machines[node] = _machine(table, node)
    return list(machines.values())


def _machine(table: MachineTable, node: NodeId) -> Machine:
    return Machine(
        node,
        table.slots,
        table.prefill_rate_tokens_per_s,
        table.decode_rate_tokens_per_s,
        cache_kind=table.cache,
        cache_tokens=table.cache_tokens,
        slowdown=table.slowdown,
        load_s=table.load_s,
        resident=table.resident,
        unload_after_s=table.unload_after_s,
        context_tokens=table.context_tokens,
    )
