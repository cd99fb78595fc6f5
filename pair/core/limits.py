"""The numbers that the core works within. No defaults here: `pair/settings` is where each number
lives with its reason.
"""

from __future__ import annotations

from dataclasses import dataclass

from pair.core.names import ModelName


@dataclass(frozen=True, slots=True)
class Limits:
    """Every bound of the scheduler; all durations in seconds. The meaning of each stands at its
    setting.
    """

    waiting_limit: int
    wait_limit_s: float
    start_grace_s: float
    hopeless_grace_s: float
    probe_interval_s: float
    suspect_interval_s: float
    probe_limit_s: float
    misses_until_lost: int
    misses_until_lost_in_use: int
    silence_limit_s: float
    lost_interval_s: float
    forget_s: float
    nodes_limit: int
    attempts_limit: int
    pause_s: float
    pause_limit_s: float
    busy_pause_s: float
    left_grace_s: float
    job_gap_s: float
    jobs_limit: int
    calls_limit: int
    priority_bound_s: float
    fairness_half_life_s: float
    flows_limit: int
    prefix_length_chars: int
    concurrency_threshold: int
    fingerprints_limit: int
    estimates_limit: int
    strategies: tuple[tuple[ModelName, str], ...]
