"""What will happen, drawn from a seed before anything starts: mishaps of the house, and calls.

Pure, so that a failure's seed draws the same mishaps and calls again. The house is never so broken
that a call could have had no second replica: at any time at most `DOWN_LIMIT` of the eight nodes
have a dead, stopped or leaving process, and at most one of the three that hold the local model.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from pair.bench.echo_engine.settings import PersonaName

SLOTS = 2
DOWN_LIMIT = 3
RETURN_S = 8.0
"""After its mishap a node counts as down for so long: Python starts and a probe finds it."""
MISHAP_EVERY_S = 0.5
CLIENTS = 64
LIBRARY_CLIENTS = 8
"""So many of the clients are the `openai` library; the others are raw sockets."""


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One node: an engine that the proxy is told of directly, or `pair node` in front of one."""

    name: str
    persona: PersonaName
    paired: bool

    @property
    def local(self) -> bool:
        """Whether it holds the second model, the only one that is asked for at /api/chat."""
        return self.persona == "ollama"


NODES = (
    NodePlan("bare-llamacpp", "llamacpp", paired=False),
    NodePlan("bare-ollama", "ollama", paired=False),
    NodePlan("bare-vllm", "vllm", paired=False),
    NodePlan("bare-lmstudio", "lmstudio", paired=False),
    NodePlan("pair-llamacpp", "llamacpp", paired=True),
    NodePlan("pair-ollama", "ollama", paired=True),
    NodePlan("pair-sglang", "sglang", paired=True),
    NodePlan("pair-ollama-2", "ollama", paired=True),
)


class Act(StrEnum):
    """What is done to a node."""

    KILL = "kill"
    """SIGKILL; started again at the same port after a while."""
    PAUSE = "pause"
    """SIGSTOP, then SIGCONT: it accepts connections and says nothing."""
    LEAVE = "leave"
    """SIGTERM to `pair node`, which drains; started again after a while."""
    FAULT = "fault"
    """The engine is told to fail the next calls."""


@dataclass(frozen=True, slots=True)
class Mishap:
    """One of them.

    Attributes:
        node: index in `NODES`.
        front: it meets the `pair node`, not the engine behind it.
        for_s: until it is put right again.
    """

    at_s: float
    node: int
    act: Act
    front: bool = False
    for_s: float = 0.0
    fault: str = ""


# Each with its weight. `first` is added: how many calls it strikes.
_FAULTS = (
    (3, "cut,after_events={few},how={how}"),
    (3, "cut,after_events=0,how={how}"),
    (2, "stall,after_events={few},for_s={seconds}"),
    (2, "stall,after_events=0,for_s={seconds}"),
    (2, "reset"),
    (1, "reset,reused=true"),
    (2, "close_after_head"),
    (1, "garbage"),
    (2, "slow_head,for_s={seconds}"),
    (2, "500"),
    (2, "502"),
    (2, "busy"),
    (2, "status,status=503,message=Loading model"),
    (2, "rate_limited"),
    (1, "model_not_found"),
    (2, "keeps_computing_after_hangup"),
    (1, "idle_close"),
    (1, "wait_until_idle"),
    (1, "nonsense"),
)


def draw_mishaps(seed: int, length_s: float) -> tuple[Mishap, ...]:
    """All mishaps of a run, in order of time."""
    draw = random.Random(f"mishaps/{seed}")
    down_until: dict[int, float] = {}
    mishaps: list[Mishap] = []
    at_s = 2.0
    while (at_s := at_s + draw.expovariate(1 / MISHAP_EVERY_S)) < length_s:
        down = {node for node, until_s in down_until.items() if until_s > at_s}
        if draw.random() < 0.7 or len(down) >= DOWN_LIMIT:
            mishaps.append(_draw_fault(draw, at_s))
            continue
        whole = [
            number
            for number, node in enumerate(NODES)
            if number not in down and not (node.local and any(NODES[each].local for each in down))
        ]
        mishap = _draw_outage(draw, at_s, draw.choice(whole))
        down_until[mishap.node] = at_s + mishap.for_s + RETURN_S
        mishaps.append(mishap)
    return tuple(mishaps)


def _draw_fault(draw: random.Random, at_s: float) -> Mishap:
    (text,) = draw.choices([text for _, text in _FAULTS], [weight for weight, _ in _FAULTS])
    fault = text.format(
        few=draw.randint(1, 12),
        how=draw.choice(("close", "reset", "mid_chunk")),
        seconds=round(draw.uniform(0.5, 6.0), 1),
    )
    fault += f",first={draw.randint(1, 6)}"
    return Mishap(at_s, draw.randrange(len(NODES)), Act.FAULT, fault=fault)


def _draw_outage(draw: random.Random, at_s: float, node: int) -> Mishap:
    acts = [Act.KILL, Act.PAUSE, *([Act.LEAVE] if NODES[node].paired else [])]
    act = draw.choice(acts)
    front = act is Act.LEAVE or (NODES[node].paired and draw.random() < 0.5)
    return Mishap(at_s, node, act, front, for_s=round(draw.uniform(0.5, 12.0), 1))


ApiName = Literal["openai", "anthropic", "ollama"]


class Manner(StrEnum):
    """How a client behaves in one call."""

    PATIENT = "patient"
    SLOW = "slow"
    """Reads 1 KiB a second."""
    LEAVES_SENDING = "leaves_sending"
    LEAVES_WAITING = "leaves_waiting"
    LEAVES_READING = "leaves_reading"
    HALF_CLOSES = "half_closes"
    """Says that it will send nothing more, and reads on. `pair` takes that for leaving:
    the two cannot be told apart, and slots are worth more."""


_MANNERS = {
    Manner.PATIENT: 76,
    Manner.SLOW: 3,
    Manner.LEAVES_SENDING: 3,
    Manner.LEAVES_WAITING: 7,
    Manner.LEAVES_READING: 8,
    Manner.HALF_CLOSES: 3,
}


@dataclass(frozen=True, slots=True)
class CallPlan:
    """One call.

    Attributes:
        mark: unique; the request id, and the beginning of the words that the engine echoes.
        tokens: length of the answer.
        padding_chars: of the prompt before those words.
        fresh: on a connection of its own.
        moment: 0 to 1, how far a client that leaves has come.
        by_reset: it leaves with a reset instead of a regular close.
        think_s: pause before it.
    """

    mark: str
    api: ApiName
    streamed: bool
    tokens: int
    padding_chars: int
    fresh: bool
    manner: Manner
    moment: float
    by_reset: bool
    think_s: float


def draw_calls(seed: int, client: int) -> Iterator[CallPlan]:
    """What one client asks for, without end."""
    draw = random.Random(f"calls/{seed}/{client}")
    number = 0
    while True:
        number += 1
        size = draw.random()
        padding_chars = draw.randint(500, 8_000)
        if size > 0.995:
            padding_chars = draw.randint(1_000_000, 3_000_000)
        elif size > 0.9:
            padding_chars = draw.randint(20_000, 120_000)
        yield CallPlan(
            mark=f"{seed}-{client}-{number}",
            api=draw.choices(("openai", "anthropic", "ollama"), (6, 2, 2))[0],
            streamed=draw.random() < 0.65,
            tokens=draw.randint(1, 80),
            padding_chars=padding_chars,
            fresh=draw.random() < 0.3,
            manner=draw.choices(list(_MANNERS), list(_MANNERS.values()))[0],
            moment=draw.random(),
            by_reset=draw.random() < 0.5,
            think_s=draw.uniform(0.2, 2.5),
        )
