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


@dataclass(frozen=True, slots=True)
class Machine:
    """One node with one engine that holds the one model.

    Attributes:
        slots: calls at a time, each at the full rates.
        prefill_rate_tokens_per_s, decode_rate_tokens_per_s: above 0.
        version: of the `pair` beside its engine, "" for an engine on its own.
    """

    id: NodeId
    slots: int
    prefill_rate_tokens_per_s: float
    decode_rate_tokens_per_s: float
    version: str = VERSION

    def prefill_s(self, call: PlannedCall) -> float:
        """From the slot granted to the first content byte."""
        return call.prompt_tokens / self.prefill_rate_tokens_per_s

    def decode_s(self, call: PlannedCall) -> float:
        """From the first content byte to the last."""
        return call.output_tokens / self.decode_rate_tokens_per_s

    def service_s(self, call: PlannedCall) -> float:
        """The whole call, when nothing fails."""
        return self.prefill_s(call) + self.decode_s(call)

    def report(self, running: int) -> NodeReport:
        """What it says when asked."""
        replica = ReplicaReport(
            ENGINE, "sim", MODEL, slots=self.slots, running=running, waiting=0, resident=True
        )
        return NodeReport(self.id, self.id, self.version, replicas=(replica,))


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
