"""All sections together, and what the layers below take of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from pair.core.limits import Limits
from pair.core.names import ModelName
from pair.relay.limits import FrontLimits, UpstreamLimits
from pair.settings.calls import JobSettings, QueueSettings, RetrySettings, StreamSettings
from pair.settings.choosing import EstimatesSettings, ModelStrategy, PrefixSettings
from pair.settings.node import FixedNode, NodeSettings
from pair.settings.probing import ProbingSettings
from pair.settings.proxy import ProxySettings
from pair.settings.relay import RelaySettings


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
    prefix: PrefixSettings = field(default_factory=PrefixSettings)
    estimates: EstimatesSettings = field(default_factory=EstimatesSettings)
    node: NodeSettings = field(default_factory=NodeSettings)
    strategies: tuple[ModelStrategy, ...] = ()
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
            priority_bound_s=self.queue.priority_bound_s,
            fairness_half_life_s=self.queue.fairness_half_life_s,
            flows_limit=self.queue.flows_limit,
            prefix_length_chars=self.prefix.length_chars,
            concurrency_threshold=self.prefix.concurrency_threshold,
            fingerprints_limit=self.prefix.fingerprints_limit,
            estimates_limit=self.estimates.replicas_limit,
            strategies=tuple((ModelName(each.model), each.strategy) for each in self.strategies),
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
