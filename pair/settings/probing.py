"""How the proxy learns whether nodes live."""

from __future__ import annotations

from dataclasses import dataclass

from pair.settings.knob import knob


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
