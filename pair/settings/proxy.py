"""The proxy's own face."""

from __future__ import annotations

from dataclasses import dataclass

from pair.settings.knob import knob


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
        "finish-time",
        "",
        "How a replica is chosen: where the call should end first, by the speeds and caches that "
        "were learned; until then it counts calls. Another for single models: [strategies].",
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
