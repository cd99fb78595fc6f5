"""Every knob of `pair`: its unit, its default and the reason for it, in one place.

Values only; reading argv, the environment and `config.toml` is the command line's work.
The layers below take what they need as arguments without defaults, so that no number has two homes.
`docs/settings.md` is generated from this file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any



def knob(default: Any, unit: str, reason: str) -> Any:
    """A settings field: `unit` is "" for names and switches, `reason` says what the setting does and why this default."""
    return field(default=default, metadata={"unit": unit, "reason": reason})


@dataclass(frozen=True, slots=True)
class ProxySettings:
    """The proxy's own face."""

    listen: tuple[str, ...] = knob(
        ("127.0.0.1:7247",), "", "Where clients connect; loopback, because a prompt is private."
    )
    strategy: str = knob(
        "queue-depth", "", "How a replica is chosen; `queue-depth` needs to learn nothing first."
    )
    discovery: bool = knob(True, "", "Look for nodes by mDNS; off for networks where only fixed nodes count.")
    body_limit_bytes: int = knob(
        128 * 1024 * 1024, "bytes", "Largest request body; images in base64 reach 100 MiB."
    )
    buffered_limit_bytes: int = knob(
        512 * 1024 * 1024, "bytes", "Request bodies held over all tickets; beyond it the next upload waits."
    )
    drain_s: float = knob(30.0, "s", "How long a stopping proxy lets running answers finish.")


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """The waiting room."""

    limit: int = knob(1000, "tickets", "Waiting at once over all models; each holds its body in memory.")
    wait_limit_s: float = knob(
        0.0, "s", "Longest wait for a slot, 0 for no limit: agents prefer late to never, and one refusal multiplies."
    )


@dataclass(frozen=True, slots=True)
class ProbingSettings:
    """How the proxy learns whether nodes live."""

    interval_s: float = knob(1.0, "s", "Between two probes of one node; with the limits below, a cut link shows in under 5 s.")
    limit_s: float = knob(1.5, "s", "Longest wait for the answer to a probe.")
    misses_until_lost: int = knob(3, "probes", "Missed in a row before an idle node counts as lost.")
    misses_until_lost_in_use: int = knob(
        8, "probes", "The same for a node that works for us; only probes without a connection count there."
    )
    lost_interval_s: float = knob(5.0, "s", "Between two probes of a lost node, which may come back at any time.")
    forget_s: float = knob(4500.0, "s", "A lost node's entry goes after this, 75 minutes like its mDNS records.")
    nodes_limit: int = knob(1024, "nodes", "Most nodes remembered; anything on a LAN can send mDNS records.")


@dataclass(frozen=True, slots=True)
class RetrySettings:
    """What follows a failed attempt."""

    attempts_limit: int = knob(3, "attempts", "Most engine starts for one client request.")
    pause_s: float = knob(1.0, "s", "First pause of a replica that failed; doubles with each further failure.")
    pause_limit_s: float = knob(60.0, "s", "Longest such pause.")
    busy_pause_s: float = knob(0.25, "s", "How long a node that said `node_busy` gets nothing unless it reports sooner.")


@dataclass(frozen=True, slots=True)
class JobSettings:
    """How requests are put together to jobs."""

    gap_s: float = knob(2.0, "s", "Unnamed calls belong together if they overlap or follow within this.")
    jobs_limit: int = knob(200, "jobs", "Most jobs remembered.")
    calls_limit: int = knob(2000, "calls", "Most calls listed of one job; further ones are only counted.")


@dataclass(frozen=True, slots=True)
class RelaySettings:
    """Sockets between two connections."""

    connect_limit_s: float = knob(3.0, "s", "Longest wait for a connection to a node.")
    head_limit_bytes: int = knob(64 * 1024, "bytes", "Largest request or answer head; the parser itself has no limit.")
    head_limit_s: float = knob(30.0, "s", "A client must have sent its whole head in this time (slow-loris).")
    idle_client_s: float = knob(75.0, "s", "An idle client connection is closed after this.")
    idle_upstream_s: float = knob(4.0, "s", "An idle engine connection is dropped after this; llama-server closes after 5 s.")
    idle_upstream_limit: int = knob(64, "connections", "Most idle connections kept to one node.")
    connections_limit: int = knob(4096, "connections", "Most client connections at once.")
    write_limit_s: float = knob(60.0, "s", "A client that takes no byte for this long is cut.")


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """A machine that offers its engines."""

    name: str = knob("", "", "For people; empty takes the machine's name.")
    listen: str = knob("127.0.0.1:7248", "", "Where proxies connect; loopback until machines can be paired.")
    engines: tuple[str, ...] = knob((), "", "Engines besides those found on the usual ports, as URLs.")
    find_engines: bool = knob(True, "", "Look for Ollama, LM Studio, llama.cpp, vLLM and SGLang on their usual ports.")
    slots: int = knob(0, "requests", "Requests at a time, 0 to take the engine's own word (1 where it has none).")
    model: str = knob("", "", "A GGUF file to run in the embedded llama.cpp.")
    context_tokens: int = knob(4096, "tokens", "Context of each slot of the embedded engine.")
    threads: int = knob(0, "threads", "Threads of the embedded engine, 0 for all cores.")


@dataclass(frozen=True, slots=True)
class FixedNode:
    """One `[[nodes]]` entry or `--node`: an engine or node that the user names."""

    url: str
    slots: int = 0
    name: str = ""


@dataclass(frozen=True, slots=True)
class Settings:
    """All of it; each field is a section of `config.toml`."""

    proxy: ProxySettings = field(default_factory=ProxySettings)
    queue: QueueSettings = field(default_factory=QueueSettings)
    probing: ProbingSettings = field(default_factory=ProbingSettings)
    retry: RetrySettings = field(default_factory=RetrySettings)
    jobs: JobSettings = field(default_factory=JobSettings)
    relay: RelaySettings = field(default_factory=RelaySettings)
    node: NodeSettings = field(default_factory=NodeSettings)
    nodes: tuple[FixedNode, ...] = ()
