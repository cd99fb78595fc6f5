"""What happens to a call: how it waits, is kept alive, is tried again, and belongs to a job."""

from __future__ import annotations

from dataclasses import dataclass

from pair.settings.knob import knob


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """The waiting room."""

    limit: int = knob(
        1000, "tickets", "Waiting at once over all models; each holds its body in memory."
    )
    wait_limit_s: float = knob(
        0.0,
        "s",
        "Longest wait for a slot, 0 for none: agents prefer late to never; one refusal multiplies.",
    )
    start_grace_s: float = knob(
        3.0,
        "s",
        "After its start the proxy holds calls for models that it may yet find for this long.",
    )
    hopeless_grace_s: float = knob(
        15.0,
        "s",
        "Calls whose only nodes are gone or keep failing wait this long, then they are refused.",
    )
    priority_bound_s: float = knob(
        60.0,
        "s",
        "A call of a lower priority that has waited for this long takes the next turn, so that "
        "bulk never starves; several times what most calls take.",
        least=0.1,
    )
    fairness_half_life_s: float = knob(
        60.0,
        "s",
        "What a client or job has had counts half after this; long beside one call, short beside "
        "a day, for nobody should pay for this morning's work.",
        least=1,
    )
    flows_limit: int = knob(
        4096,
        "flows",
        "Most clients and jobs whose share is remembered; who is forgotten begins like a new one.",
        least=1,
    )


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """Silence on a call."""

    keep_alive_after_s: float = knob(
        60.0,
        "s",
        "A call for a stream that has waited for this long gets a 200 and a sign of life; from "
        "then on an engine's refusal can only be an event in the stream. 0 for never. Clients and "
        "proxies in between give up after 100 s of silence or later.",
    )
    keep_alive_every_s: float = knob(
        10.0, "s", "Between two signs of life to a waiting stream.", least=0.01
    )
    stall_limit_s: float = knob(
        120.0,
        "s",
        "An engine that falls silent for this long in the middle of its answer is given up, 0 for "
        "never; before its first byte it may take any time.",
    )


@dataclass(frozen=True, slots=True)
class RetrySettings:
    """What follows a failed attempt."""

    attempts_limit: int = knob(3, "attempts", "Most engine starts for one client request.", least=1)
    pause_s: float = knob(
        1.0,
        "s",
        "First pause of a replica that failed; doubles with each further failure.",
        least=0.01,
    )
    pause_limit_s: float = knob(60.0, "s", "Longest such pause.", least=0.01)
    busy_pause_s: float = knob(
        0.25,
        "s",
        "How long a replica that said it is full gets nothing; short, for full is not broken.",
        least=0.01,
    )
    left_grace_s: float = knob(
        5.0,
        "s",
        "A call that its client left unanswered keeps its slot for this long on an engine that "
        "reads prompts to their end and cannot tell (Ollama, LM Studio): half an agent's prompt.",
    )


@dataclass(frozen=True, slots=True)
class JobSettings:
    """How requests are put together to jobs."""

    gap_s: float = knob(
        2.0, "s", "Unnamed calls belong together if they overlap or follow within this."
    )
    jobs_limit: int = knob(200, "jobs", "Most jobs remembered.", least=1)
    calls_limit: int = knob(
        2000, "calls", "Most calls listed of one job; further ones are only counted.", least=1
    )
