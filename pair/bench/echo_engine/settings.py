"""What an echo engine is told at its start, and how that is written on a command line.

Apart from `pair.settings`, because none of this concerns a house with real engines: it describes a
pretended one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from pair.bench.echo_engine.faults import AnyFault
from pair.errors import SettingsError
from pair.settings import knob

PersonaName = Literal["llamacpp", "ollama", "lmstudio", "vllm", "sglang", "generic"]


@dataclass(frozen=True, slots=True)
class EchoModel:
    """A model that the engine claims to hold: its name and what else it answers to."""

    name: str
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EchoSettings:
    """One pretended engine. Rates may be infinite: answers then take no time."""

    listen: str = knob("127.0.0.1:0", "", "Address and port; port 0 takes a free one.")
    persona: PersonaName = knob("llamacpp", "", "The kind of engine whose paths and words it uses.")
    models: tuple[EchoModel, ...] = knob((EchoModel("echo"),), "", "The models it claims to hold.")
    slots: int = knob(1, "requests", "Worked on at a time, each at the full rates.")
    prefill_rate_tokens_per_s: float = knob(
        1000.0, "tokens/s", "Reading of a prompt on one slot; that of a small GPU."
    )
    decode_rate_tokens_per_s: float = knob(
        50.0, "tokens/s", "Writing of an answer on one slot; that of a small GPU."
    )
    slowdown_per_busy_slot: float = knob(
        0.0, "", "Each further busy slot makes all slower by this share of the speed alone."
    )
    answer_tokens: int = knob(64, "tokens", "Length of an answer where the request sets none.")
    context_tokens: int = knob(32768, "tokens", "Context of each slot; longer prompts are refused.")
    load_time_s: float = knob(0.0, "s", "After the start, until requests are worked on.")
    queue_limit: int = knob(
        1024,
        "requests",
        "May wait inside, as llama.cpp lets them; 0 refuses what finds no free slot.",
    )
    similarity: float = knob(
        0.1,
        "",
        "Smallest share of a prompt in common that draws it to a slot; llama.cpp's default.",
    )
    cache_ram_tokens: int = knob(0, "tokens", "Second tier of the prefix cache; 0 for none.")
    api_key: str = knob("", "", "What clients must send; empty asks for none.")
    idle_close_s: float = knob(
        3600.0, "s", "Idle kept-alive connections are closed after this; llama-server takes 5 s."
    )
    body_limit_bytes: int = knob(256 * 1024 * 1024, "bytes", "Larger request bodies get a 413.")
    journal_limit: int = knob(10_000, "requests", "Entries kept of what was done.")
    faults: tuple[AnyFault, ...] = knob((), "", "What goes wrong on purpose.")

    def __post_init__(self) -> None:
        """Raise SettingsError for what no engine could be."""
        for name in ("slots", "answer_tokens", "context_tokens", "journal_limit"):
            if getattr(self, name) < 1:
                raise SettingsError(f"The echo engine's {name} must be at least 1.")
        for name in ("prefill_rate_tokens_per_s", "decode_rate_tokens_per_s"):
            if not getattr(self, name) > 0:
                raise SettingsError(f"The echo engine's {name} must be above 0 (inf: no time).")
        for name in ("slowdown_per_busy_slot", "load_time_s", "queue_limit", "cache_ram_tokens"):
            if not 0 <= getattr(self, name) < math.inf:
                raise SettingsError(f"The echo engine's {name} must be a number from 0 up.")
        if not self.models:
            raise SettingsError("An echo engine holds at least one model.")
        parse_listen(self.listen)


def parse_listen(text: str) -> tuple[str, int]:
    """`ADDRESS:PORT` (`[ADDRESS]:PORT` for IPv6) as address and port; raises SettingsError."""
    address, colon, port = text.rpartition(":")
    if not colon or not address or not port.isdecimal() or int(port) > 65535:
        raise SettingsError(f"{text!r} is not ADDRESS:PORT, for example 127.0.0.1:8080.")
    return address.removeprefix("[").removesuffix("]"), int(port)


def parse_model(text: str) -> EchoModel:
    """`NAME[,alias=NAME]...` as a model; raises SettingsError."""
    name, *options = text.split(",")
    if not name or not all(option.startswith("alias=") for option in options):
        raise SettingsError(
            f"{text!r} is not NAME[,alias=NAME]..., for example echo:7b,alias=gpt-4o."
        )
    return EchoModel(name, tuple(option.removeprefix("alias=") for option in options))
