"""Metrics are what docs/metrics.md says, and no two samples can be confused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from pair.core.events import Closed, NodeReported, NodeSighted, Opened, Usage
from pair.core.names import ModelName, NodeId, Outcome, Phase, TicketId
from pair.core.queue_depth import QueueDepth
from pair.core.scheduler import Scheduler
from pair.core.snapshot import take_snapshot
from pair.proxy.metrics import SchedulerCollector
from pair.settings import Settings
from tests.core.house import replica, report

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


@pytest.fixture
def house() -> Scheduler:
    """Two nodes of one name, one call done, one running, one waiting."""
    built = Scheduler(Settings().limits(), QueueDepth(), 0.0)
    for node, model in (("id-1", "m"), ("id-2", "m"), ("id-3", "other")):
        built.handle(NodeSighted(NodeId(node), "laptop", ("http://x:1",)), 1.0)
        said = report(node, replica(model, running=0), name="laptop")
        built.handle(NodeReported(NodeId(node), said), 1.0)
    for number, model in ((1, "m"), (2, "other"), (3, "other")):
        built.handle(Opened(TicketId(number), ModelName(model)), 2.0)
    built.handle(Closed(TicketId(1), Outcome.ANSWERED, Usage(100, 80, 7)), 3.0)
    return built


def scrape(built: Scheduler) -> list[Sample]:
    """What a Prometheus would read."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(SchedulerCollector(lambda: take_snapshot(built, 4.0)))
    text = generate_latest(registry).decode()
    return [s for family in text_string_to_metric_families(text) for s in family.samples]


def value(samples: list[Sample], name: str, **labels: str) -> float:
    """The one sample of this name that has these labels."""
    (found,) = [
        sample.value
        for sample in samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]
    return found


def test_names_and_labels_are_those_of_the_page(house: Scheduler) -> None:
    rows = re.findall(r"^\| `(pair_\w+)` \| (\w+) \|([^|]*)\|", PAGE.read_text(), re.MULTILINE)
    documented = {name: set(re.findall(r"`(\w+)`", labels)) for name, _, labels in rows}
    assert {sample.name: set(sample.labels) for sample in scrape(house)} == documented


def test_two_nodes_of_one_name_do_not_share_a_sample(house: Scheduler) -> None:
    samples = scrape(house)
    keys = [(sample.name, tuple(sorted(sample.labels.items()))) for sample in samples]
    assert len(keys) == len(set(keys))
    assert value(samples, "pair_served_total", node="laptop", id="id-1") == 1
    assert value(samples, "pair_served_total", node="laptop", id="id-2") == 0


def test_values_are_the_schedulers_own(house: Scheduler) -> None:
    samples = scrape(house)
    assert value(samples, "pair_tickets_opened_total") == 3
    closed = {
        outcome: value(samples, "pair_tickets_closed_total", outcome=outcome) for outcome in Outcome
    }
    assert closed == {**dict.fromkeys(Outcome, 0), Outcome.ANSWERED: 1}
    assert value(samples, "pair_waiting", model="other") == 1
    assert value(samples, "pair_waiting", model="m") == 0
    assert value(samples, "pair_in_flight", id="id-3", engine="echo:1", model="other") == 1
    assert value(samples, "pair_slots", id="id-3") == 1
    assert value(samples, "pair_foreign", id="id-3") == 0
    assert value(samples, "pair_failed_total", id="id-3") == 0
    assert value(samples, "pair_prompt_tokens_total", id="id-1") == 100
    assert value(samples, "pair_cached_tokens_total", id="id-1") == 80
    assert value(samples, "pair_output_tokens_total", id="id-1") == 7
    assert value(samples, "pair_prompt_tokens_total", id="id-3") == 0
    silent = [s for s in samples if s.name == "pair_cached_tokens_total"]
    assert len(silent) == 1, "an engine that does not say has none, which is not 0"
    phases = {phase: value(samples, "pair_node_phase", id="id-1", phase=phase) for phase in Phase}
    assert phases == {**dict.fromkeys(Phase, 0), Phase.READY: 1}


def test_each_scrape_is_made_anew(house: Scheduler) -> None:
    before = value(scrape(house), "pair_tickets_opened_total")
    house.handle(Opened(TicketId(9), ModelName("m")), 5.0)
    assert value(scrape(house), "pair_tickets_opened_total") == before + 1
