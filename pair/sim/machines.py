"""What stands in the simulated house: machines with rates and slots, and what befalls them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from pair.core.names import EngineName, ModelName, NodeId
from pair.core.reports import NodeReport, ReplicaReport
from pair.sim.workload import PlannedCall

MODEL = ModelName("sim")
ENGINE = EngineName("sim:1")
VERSION = "sim"
"""Not empty: simulated machines have `pair` beside their engine and answer probes from memory."""


class CacheKind(StrEnum):
    """How an engine keeps prompts that it has read."""

    SLOTS = "slots"
    """Each slot keeps its last prompt and answer, as llama.cpp does."""
    PAGED = "paged"
    """Blocks that all prompts share, least recently used out, as vLLM does."""


@dataclass(frozen=True, slots=True)
class Machine:
    """One node with one engine that holds the one model.

    Attributes:
        slots: calls at a time, each at the full rates unless `slowdown` says otherwise.
        prefill_rate_tokens_per_s, decode_rate_tokens_per_s: above 0.
        version: of the `pair` beside its engine, "" for an engine on its own.
        cache_tokens: what it keeps of prompts: beside those in its slots, or altogether where it is
            paged.
        slowdown: with n calls at once each takes 1 + slowdown * (n - 1) times as long.
        load_s: to bring the model into memory.
        resident: whether the model is there at the beginning.
        unload_after_s: idle for so long it drops the model, None for never.
        context_tokens: prompt and answer of a call fit into these, None for any.
        tells_times: its answers carry its own clock.
    """

    id: NodeId
    slots: int
    prefill_rate_tokens_per_s: float
    decode_rate_tokens_per_s: float
    version: str = VERSION
    cache_kind: CacheKind = CacheKind.SLOTS
    cache_tokens: int = 0
    slowdown: float = 0.0
    load_s: float = 0.0
    resident: bool = True
    unload_after_s: float | None = None
    context_tokens: int | None = None
    tells_times: bool = True

    def prefill_s(self, call: PlannedCall, cached_tokens: int = 0) -> float:
        """From the slot granted to the first content byte, with the model loaded and no company."""
        return (call.prompt_tokens - cached_tokens) / self.prefill_rate_tokens_per_s

    def decode_s(self, call: PlannedCall) -> float:
        """From the first content byte to the last, without company."""
        return call.output_tokens / self.decode_rate_tokens_per_s

    def service_s(self, call: PlannedCall, cached_tokens: int = 0) -> float:
        """The whole call, when nothing fails."""
        return self.prefill_s(call, cached_tokens) + self.decode_s(call)

    def fits(self, call: PlannedCall) -> bool:
        """Whether its context window holds the call."""
        limit = self.context_tokens
        return limit is None or call.prompt_tokens + call.output_tokens <= limit

    def report(
        self,
        load: int,
        yours: int | None = None,
        *,
        resident: bool = True,
        start: int = 1,
        number: int = 0,
    ) -> NodeReport:
        """What it says to one proxy when asked; `start` and `number` are the report's process and
        number, `yours` what of the load came from there. An engine on its own does not tell that.
        """
        replica = ReplicaReport(
            ENGINE,
            ENGINE_KINDS[self.cache_kind],
            MODEL,
            slots=self.slots,
            running=min(load, self.slots),
            waiting=max(0, load - self.slots),
            resident=resident,
            context_tokens=self.context_tokens,
            cache_tokens=self.cache_tokens,
            yours=yours if self.version else None,
        )
        if not self.version:
            return NodeReport(self.id, self.id, replicas=(replica,))
        return NodeReport(
            self.id,
            self.id,
            self.version,
            replicas=(replica,),
            process=f"{self.id}, start {start}",
            number=number,
        )


ENGINE_KINDS = {CacheKind.SLOTS: "sim", CacheKind.PAGED: "vllm"}
"""What a machine calls its engine: by this the scheduler knows how the engine keeps prompts."""


class Mishap(StrEnum):
    """What can befall a machine."""

    DIES = "dies"
    """Power or cable gone: not a word to anybody, calls hang, nothing connects."""
    RETURNS = "returns"
    """It is there again, says so, and knows nothing of its calls."""
    SLOWS = "slows"
    """It computes on but answers no probe."""
    RECOVERS = "recovers"
    """It answers probes again."""
    RESETS = "resets"
    """Its engine crashes and is back at once: every connection breaks."""


@dataclass(frozen=True, slots=True)
class Incident:
    """A mishap; `at_s` counts from the first call's accept."""

    at_s: float
    machine: NodeId
    mishap: Mishap


def fleet(
    speeds: Iterable[float],
    *,
    slots: int,
    prefill_rate_tokens_per_s: float,
    decode_rate_tokens_per_s: float,
) -> list[Machine]:
    """A machine for each speed, which multiplies both rates; named `node-1` and so on."""
    return [
        Machine(
            NodeId(f"node-{number}"),
            slots,
            prefill_rate_tokens_per_s * speed,
            decode_rate_tokens_per_s * speed,
        )
        for number, speed in enumerate(speeds, 1)
    ]


def random_incidents(
    machines: Sequence[Machine], count: int, within_s: float, random: Random
) -> list[Incident]:
    """`count` mishaps at random machines and times, each with its end where it has one."""
    incidents = []
    for _ in range(count):
        machine, at_s = random.choice(machines).id, random.uniform(0.0, within_s)
        end_s = at_s + random.uniform(0.0, within_s)
        match random.choice((Mishap.DIES, Mishap.SLOWS, Mishap.RESETS)):
            case Mishap.DIES:
                incidents.append(Incident(at_s, machine, Mishap.DIES))
                incidents.append(Incident(end_s, machine, Mishap.RETURNS))
            case Mishap.SLOWS:
                incidents.append(Incident(at_s, machine, Mishap.SLOWS))
                incidents.append(Incident(end_s, machine, Mishap.RECOVERS))
            case mishap:
                incidents.append(Incident(at_s, machine, mishap))
    return sorted(incidents, key=lambda incident: incident.at_s)
