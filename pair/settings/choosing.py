"""What choosing a replica uses: strategies by model, cached prefixes, learned speeds."""

from __future__ import annotations

from dataclasses import dataclass

from pair.settings.knob import knob


@dataclass(frozen=True, slots=True)
class ModelStrategy:
    """How replicas of one model are chosen, where not as `proxy.strategy` says: a line
    `"MODEL" = "STRATEGY"`, with the model's name as clients ask for it.
    """

    model: str
    strategy: str


@dataclass(frozen=True, slots=True)
class PrefixSettings:
    """The beginnings of prompts that engines hold in their caches."""

    length_chars: int = knob(
        4096,
        "characters",
        "How much of a prompt's beginning `prefix-aware` compares, its tools and system prompt "
        "included, which come first; the other strategies compare all of it. Agents of one kind "
        "begin alike for 10,000 characters and more.",
        least=1024,
        most=65536,
    )
    concurrency_threshold: int = knob(
        8,
        "calls",
        "Calls on a replica from which on `prefix-aware` prefers the one with most room, "
        "whatever is cached.",
        least=1,
        most=1024,
    )
    fingerprints_limit: int = knob(
        200_000,
        "blocks",
        "Most blocks of prompts whose fingerprints are remembered, over all replicas; the least "
        "recently used go. 40 MB: 1,300 conversations of 100,000 characters.",
        least=1000,
    )


@dataclass(frozen=True, slots=True)
class EstimatesSettings:
    """What the proxy learns of the machines' speed."""

    replicas_limit: int = knob(
        4096,
        "replicas",
        "Most replicas whose speed is remembered; the least recently used go.",
        least=1,
    )
    save_every_s: float = knob(
        30.0,
        "s",
        "Between two writes of what was learned, so that a restart begins with it; what is lost "
        "by a crash is learned again within a few calls.",
        least=1,
    )
