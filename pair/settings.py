"""Every knob of `pair`: its unit, its default and the reason for it, in one place.

Values only; reading argv, the environment and `config.toml` is the command line's work.
The layers below take what they need as arguments without defaults, so that no number has two homes.
`docs/settings.md` is generated from this file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pair.core.limits import Limits
from pair.relay.limits import FrontLimits, UpstreamLimits


def knob(default: Any, unit: str, reason: str, *, least: float = 0, form: str = "") -> Any:
    """A settings field.

    Args:
        unit: "" for names and switches.
        reason: what the setting does and why this default.
        least: the smallest number that makes sense.
        form: what a text must look like: "" for anything, "address" (HOST:PORT or a path), "port"
            (HOST:PORT only), "url", "origin", "strategy".
    """
    return field(
        default=default, metadata={"unit": unit, "reason": reason, "least": least, "form": form}
    )


@dataclass(frozen=True, slots=True)
class ProxySettings:
    """The proxy's own face."""

    listen: tuple[str, ...] = knob(
        ("127.0.0.1:7247",),
        "",
        "Where clients connect; loopback, because a prompt is private.",
        form="address",
    )
    strategy: str = knob(
        "queue-depth",
        "",
        "How a replica is chosen; `queue-depth` needs to learn nothing first.",
        form="strategy",
    )
    discovery: bool = knob(
        True, "", "Look for nodes by mDNS; off for networks where only fixed nodes count."
    )
    body_limit_bytes: int = knob(
        128 * 1024 * 1024,
        "bytes",
        "Largest request body, of proxy and node; images in base64 reach 100 MiB.",
        least=1024,
    )
    buffered_limit_bytes: int = knob(
        512 * 1024 * 1024,
        "bytes",
        "Request bodies held at once by a proxy, and by a node; beyond it the next upload waits.",
        least=1024,
    )
    cors_origins: tuple[str, ...] = knob(
        ("loopback", "apps"),
        "",
        "Web pages that may use the proxy, as origins such as `https://chat.example.org`. "
        "`loopback` are those that this machine serves, `apps` desktop programs (`app://`, "
        "`file://`, `tauri://`, `vscode-webview://`), `*` all: then any page that you open can use "
        "your machines.",
        form="origin",
    )
    names: tuple[str, ...] = knob(
        (),
        "",
        "Names of the proxy besides addresses, names without a dot, and those that end in "
        ".localhost, .local, .internal or .home.arpa; under any other it refuses, for it may be a "
        "stranger's web page that calls (DNS rebinding). `*` takes any name.",
    )
    kept_ids_limit: int = knob(
        10_000,
        "ids",
        "Most ids remembered of what a node keeps (responses, files, ...), so that who asks for "
        "one gets to that node; 2 MB.",
        least=1,
    )
    drain_s: float = knob(
        30.0, "s", "How long a stopping proxy or node lets running answers finish."
    )


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


@dataclass(frozen=True, slots=True)
class ProbingSettings:
    """How the proxy learns whether nodes live."""

    interval_s: float = knob(
        1.0,
        "s",
        "Between two probes of one node; with the limits below, a cut link shows in under 5 s.",
        least=0.05,
    )
    suspect_interval_s: float = knob(
        0.5,
        "s",
        "Between two probes of a node in doubt, to know soon one way or the other.",
        least=0.05,
    )
    limit_s: float = knob(1.5, "s", "Longest wait for the answer to a probe.", least=0.05)
    misses_until_lost: int = knob(
        3, "probes", "Missed in a row before an idle node counts as lost.", least=1
    )
    misses_until_lost_in_use: int = knob(
        8,
        "probes",
        "The same for a node that works for us; only probes without a connection count there.",
        least=1,
    )
    silence_limit_s: float = knob(
        15.0,
        "s",
        "A node with `pair` that works for us, connects, and lets probes wait for this long in a "
        "row is lost: frozen, not slow. Its report comes from memory, and each further probe waits "
        "longer, so one that needs seconds for it has answered by then.",
        least=0.05,
    )
    lost_interval_s: float = knob(
        5.0, "s", "Between two probes of a lost node, which may come back at any time.", least=0.05
    )
    forget_s: float = knob(
        4500.0, "s", "A lost node's entry goes after this, 75 minutes like its mDNS records."
    )
    nodes_limit: int = knob(
        1024, "nodes", "Most nodes remembered; anything on a LAN can send mDNS records.", least=1
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


@dataclass(frozen=True, slots=True)
class RelaySettings:
    """Sockets between two connections."""

    connect_limit_s: float = knob(3.0, "s", "Longest wait for a connection to a node.", least=0.05)
    head_limit_bytes: int = knob(
        64 * 1024,
        "bytes",
        "Largest request or answer head; the parser itself has no limit.",
        least=1024,
    )
    head_limit_s: float = knob(
        30.0, "s", "A client must have sent its whole head in this time (slow-loris).", least=0.1
    )
    idle_client_s: float = knob(
        75.0, "s", "An idle client connection is closed after this.", least=0.1
    )
    upload_limit_s: float = knob(
        120.0,
        "s",
        "A request body that is not whole after this is refused if others wait for its room among "
        "the buffered ones.",
        least=0.1,
    )
    idle_upstream_s: float = knob(
        4.0, "s", "An idle engine connection is dropped after this; llama-server closes after 5 s."
    )
    idle_upstream_limit: int = knob(64, "connections", "Most idle connections kept to one node.")
    connections_limit: int = knob(4096, "connections", "Most client connections at once.", least=1)
    write_limit_s: float = knob(
        60.0, "s", "Who takes no byte for this long, client or tunnel's engine, is cut.", least=0.1
    )


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


@dataclass(frozen=True, slots=True)
class Settings:
    """All of it; each field is a section of `config.toml`."""

    proxy: ProxySettings = field(default_factory=ProxySettings)
    queue: QueueSettings = field(default_factory=QueueSettings)
    probing: ProbingSettings = field(default_factory=ProbingSettings)
    streams: StreamSettings = field(default_factory=StreamSettings)
    retry: RetrySettings = field(default_factory=RetrySettings)
    jobs: JobSettings = field(default_factory=JobSettings)
    relay: RelaySettings = field(default_factory=RelaySettings)
    node: NodeSettings = field(default_factory=NodeSettings)
    nodes: tuple[FixedNode, ...] = ()

    def limits(self) -> Limits:
        """The numbers that the core works within."""
        return Limits(
            waiting_limit=self.queue.limit,
            wait_limit_s=self.queue.wait_limit_s,
            start_grace_s=self.queue.start_grace_s,
            hopeless_grace_s=self.queue.hopeless_grace_s,
            probe_interval_s=self.probing.interval_s,
            suspect_interval_s=self.probing.suspect_interval_s,
            probe_limit_s=self.probing.limit_s,
            misses_until_lost=self.probing.misses_until_lost,
            misses_until_lost_in_use=self.probing.misses_until_lost_in_use,
            silence_limit_s=self.probing.silence_limit_s,
            lost_interval_s=self.probing.lost_interval_s,
            forget_s=self.probing.forget_s,
            nodes_limit=self.probing.nodes_limit,
            attempts_limit=self.retry.attempts_limit,
            pause_s=self.retry.pause_s,
            pause_limit_s=self.retry.pause_limit_s,
            busy_pause_s=self.retry.busy_pause_s,
            left_grace_s=self.retry.left_grace_s,
            job_gap_s=self.jobs.gap_s,
            jobs_limit=self.jobs.jobs_limit,
            calls_limit=self.jobs.calls_limit,
        )

    def front_limits(self) -> FrontLimits:
        """What the side where clients connect may use up, of a proxy and of a node."""
        return FrontLimits(
            head_limit_bytes=self.relay.head_limit_bytes,
            head_limit_s=self.relay.head_limit_s,
            idle_client_s=self.relay.idle_client_s,
            upload_limit_s=self.relay.upload_limit_s,
            connections_limit=self.relay.connections_limit,
            write_limit_s=self.relay.write_limit_s,
            buffered_limit_bytes=self.proxy.buffered_limit_bytes,
        )

    def upstream_limits(self) -> UpstreamLimits:
        """What the connections to one node or engine may use up."""
        return UpstreamLimits(
            connect_limit_s=self.relay.connect_limit_s,
            head_limit_bytes=self.relay.head_limit_bytes,
            idle_upstream_s=self.relay.idle_upstream_s,
            idle_upstream_limit=self.relay.idle_upstream_limit,
        )
