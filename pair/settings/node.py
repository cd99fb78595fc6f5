"""A machine that offers its engines, and the engines and nodes that a user names."""

from __future__ import annotations

from dataclasses import dataclass

from pair.settings.knob import knob


@dataclass(frozen=True, slots=True)
class NamedEngine:
    """An engine of this machine that the user names; its key as in `FixedNode`."""

    url: str
    key_env: str = ""
    key_file: str = ""


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """A machine that offers its engines."""

    name: str = knob("", "", "For people; empty takes the machine's name.")
    listen: str = knob(
        "127.0.0.1:7248",
        "",
        "Where proxies connect; loopback until machines can be paired.",
        form="port",
    )
    engines: tuple[NamedEngine, ...] = knob(
        (),
        "",
        "Engines besides those found on the usual ports, as `URL`, `URL,key_env=VARIABLE` or "
        "`URL,key_file=PATH`; what comes through this node then carries that API key.",
        form="url",
    )
    find_engines: bool = knob(
        True, "", "Look for Ollama, LM Studio, llama.cpp, vLLM and SGLang on their usual ports."
    )
    slots: int = knob(
        0, "requests", "Requests at a time, 0 to take the engine's own word (1 where it has none)."
    )
    busy_look_s: float = knob(
        1.0,
        "s",
        "Between two looks at an engine with work or in trouble; a proxy asks as often.",
        least=0.01,
    )
    idle_look_s: float = knob(
        5.0,
        "s",
        "The same at an engine without work: a model that was added shows within this.",
        least=0.01,
    )
    find_s: float = knob(
        5.0,
        "s",
        "Between two looks for an engine that is not there yet; each costs the usual ports a "
        "connection.",
        least=0.01,
    )
    look_limit_s: float = knob(
        5.0,
        "s",
        "Longest wait for an engine's word; one that computes answers late or not at all.",
        least=0.05,
    )
    gone_s: float = knob(
        60.0,
        "s",
        "An engine silent for this long is taken out and looked for anew: another kind may stand "
        "there by then.",
        least=0.01,
    )
    model: str = knob("", "", "A GGUF file to run in the embedded llama.cpp.")
    context_tokens: int = knob(
        4096, "tokens", "Context of each slot of the embedded engine.", least=64
    )
    threads: int = knob(0, "threads", "Threads of the embedded engine, 0 for all cores.")


@dataclass(frozen=True, slots=True)
class FixedNode:
    """One `[[nodes]]` entry or `--node`: an engine or node that the user names; `key_env` or
    `key_file` is the variable or the file that holds its API key. Never the key itself: settings
    are shown, and a command line is seen by everybody.
    """

    url: str
    slots: int = 0
    name: str = ""
    key_env: str = ""
    key_file: str = ""
