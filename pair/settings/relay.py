"""The connections that bytes travel on."""

from __future__ import annotations

from dataclasses import dataclass

from pair.settings.knob import knob


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
