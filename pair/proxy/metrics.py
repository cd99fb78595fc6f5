"""The scheduler's state as Prometheus metrics, made from a snapshot at each scrape.

A collector over the snapshot instead of counters kept beside the core: one set of books, so the two
can't disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from pair.core.names import Phase
from pair.core.snapshot import Snapshot


class SchedulerCollector(Collector):
    """Turns snapshots into metric families; the names stand in `docs/metrics.md`."""

    def __init__(self, snapshot: Callable[[], Snapshot]) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterable[Metric]:
        """All families, each with its samples."""
        snapshot = self._snapshot()
        tickets = CounterMetricFamily(
            "pair_tickets_closed", "Client requests that are over, by fate.", labels=["outcome"]
        )
        for outcome, count in snapshot.closed.items():
            tickets.add_metric([outcome.value], count)
        yield tickets
        yield CounterMetricFamily(
            "pair_tickets_opened", "Client requests taken in.", value=snapshot.opened
        )
        waiting = GaugeMetricFamily(
            "pair_waiting", "Tickets without a lease, by model.", labels=["model"]
        )
        for model in snapshot.models:
            waiting.add_metric([model.model], model.waiting)
        yield waiting
        yield from _replica_families(snapshot)
        phases = GaugeMetricFamily(
            "pair_node_phase",
            "1 for the phase that a node is in, else 0.",
            labels=["node", "id", "phase"],
        )
        for node in snapshot.nodes:
            for phase in Phase:
                phases.add_metric(
                    [node.name, node.id, phase.value], 1.0 if node.phase is phase else 0.0
                )
        yield phases


def _replica_families(snapshot: Snapshot) -> Iterable[Metric]:
    # With the id, because two nodes may have one name, and no two samples the same labels.
    labels = ["node", "id", "engine", "model"]
    slots = GaugeMetricFamily(
        "pair_slots", "Requests that a replica takes at a time.", labels=labels
    )
    in_flight = GaugeMetricFamily("pair_in_flight", "Our open leases on a replica.", labels=labels)
    foreign = GaugeMetricFamily("pair_foreign", "Requests there that are not ours.", labels=labels)
    served = CounterMetricFamily("pair_served", "Tickets that a replica answered.", labels=labels)
    failed = CounterMetricFamily("pair_failed", "Attempts that failed on a replica.", labels=labels)
    prompt = CounterMetricFamily("pair_prompt_tokens", "Tokens of prompts.", labels=labels)
    cached = CounterMetricFamily(
        "pair_cached_tokens", "Those of them that an engine had in its cache.", labels=labels
    )
    output = CounterMetricFamily("pair_output_tokens", "Tokens of answers.", labels=labels)
    for node in snapshot.nodes:
        for replica in node.replicas:
            values = [node.name, node.id, replica.engine, replica.model]
            slots.add_metric(values, replica.slots)
            in_flight.add_metric(values, replica.in_flight)
            foreign.add_metric(values, replica.foreign)
            served.add_metric(values, replica.served)
            failed.add_metric(values, replica.failed)
            prompt.add_metric(values, replica.prompt_tokens)
            if replica.cached_tokens is not None:  # absent, not 0: such an engine does not say
                cached.add_metric(values, replica.cached_tokens)
            output.add_metric(values, replica.output_tokens)
    return (slots, in_flight, foreign, served, failed, prompt, cached, output)
