"""What the relay may use up, handed in by the layers above: each number has its home in settings.

Names are those of the settings they are filled from.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FrontLimits:
    """Of the side where clients connect."""

    head_limit_bytes: int
    head_limit_s: float
    idle_client_s: float
    upload_limit_s: float
    connections_limit: int
    write_limit_s: float
    buffered_limit_bytes: int


@dataclass(frozen=True, slots=True)
class UpstreamLimits:
    """Of the connections to one node or engine."""

    connect_limit_s: float
    head_limit_bytes: int
    idle_upstream_s: float
    idle_upstream_limit: int
