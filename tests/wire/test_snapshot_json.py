"""The JSON of snapshots and jobs is the one that docs/http-api.md shows, key by key."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pair.core.events import (
    AttemptFailed,
    Closed,
    Event,
    Failure,
    FailureKind,
    FirstByte,
    NodeReported,
    NodeSighted,
    Opened,
    ProbeMissed,
    StrategyChosen,
    Usage,
)
from pair.core.job_reports import job_report
from pair.core.names import JobId, LeaseId, ModelName, NodeId, Outcome, TicketId
from pair.core.queue_depth import QueueDepth
from pair.core.reports import ReplicaState
from pair.core.scheduler import Scheduler
from pair.core.snapshot import take_snapshot
from pair.settings import Settings
from pair.wire.snapshot_json import job_json, snapshot_json
from tests.core.house import replica, report

PAGE = Path(__file__).parents[2] / "docs" / "http-api.md"

UNIX_OFFSET_S = 1_700_000_000.0
NO_USAGE = Usage()


def documented(first_key: str) -> Any:
    """The example on the page that begins with this key."""
    blocks = re.findall(r"```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (found,) = [block for block in map(json.loads, blocks) if next(iter(block)) == first_key]
    return found


def shape(value: Any) -> Any:
    """Its keys, down to those of the first object in each list."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(inner) for inner in value[:1] if isinstance(inner, dict)]
    return None


class Story:
    """A scheduler that is told events, one second apart."""

    def __init__(self) -> None:
        self.scheduler = Scheduler(Settings().limits(), QueueDepth(), 100.0)
        self.now = 100.0

    def tell(self, *events: Event) -> None:
        for event in events:
            self.now += 1.0
            self.scheduler.handle(event, self.now)

    def snapshot(self) -> dict[str, Any]:
        view = take_snapshot(self.scheduler, self.now)
        return through_json(snapshot_json(view, version="0.1.0", proxy_id="proxy id"))

    def job(self, name: str, *, calls: bool = True) -> dict[str, Any]:
        jobs = self.scheduler.desk.jobs
        job = jobs.job(JobId(name))
        assert job is not None
        figures = job_report(job, jobs.baseline_of(job), self.now)
        return through_json(job_json(job, figures, unix_offset_s=UNIX_OFFSET_S, calls=calls))


def through_json(shown: dict[str, Any]) -> dict[str, Any]:
    """As a script gets it: strict JSON, without NaN and the like."""
    read: dict[str, Any] = json.loads(json.dumps(shown, allow_nan=False))
    return read


def node(name: str = "a", **more: Any) -> tuple[Event, ...]:
    said = replace(replica("m", aliases=("gpt-4o",), running=0), **more)
    return (
        NodeSighted(NodeId(name), f"{name}-pc", (f"http://{name}:1",)),
        NodeReported(NodeId(name), report(name, said, name=f"{name}-pc")),
    )


def call(number: int, *, usage: Usage = NO_USAGE) -> tuple[Event, ...]:
    """One call of `team-1` that took three seconds on the lease of the same number."""
    opened = Opened(
        TicketId(number), ModelName("m"), job=JobId("team-1"), streamed=True, client="127.0.0.1:5"
    )
    first = FirstByte(TicketId(number), LeaseId(number))
    return opened, first, Closed(TicketId(number), Outcome.ANSWERED, usage)


@pytest.fixture
def story() -> Story:
    """One node, one call of a job done."""
    told = Story()
    told.tell(*node(), *call(1, usage=Usage(180, 20, 64)))
    return told


def test_the_snapshot_has_the_documented_keys(story: Story) -> None:
    assert shape(story.snapshot()) == shape(documented("v"))


def test_a_job_has_the_documented_keys_with_its_calls_and_without(story: Story) -> None:
    page = documented("id")
    assert shape(story.job("team-1")) == shape(page)
    del page["calls"]
    assert shape(story.job("team-1", calls=False)) == shape(page)


def test_nothing_is_missing_of_a_job_that_has_just_begun() -> None:
    told = Story()
    told.tell(Opened(TicketId(1), ModelName("m"), job=JobId("team-1")))
    job = told.job("team-1")
    page = documented("id")
    assert set(job) == set(page)
    assert set(job["calls"][0]) == set(page["calls"][0])
    assert (job["state"], job["waves"], job["achieved"], job["baseline"]) == (
        "running",
        None,
        None,
        None,
    )
    unknown = [key for key, value in job["calls"][0].items() if value is None]
    assert {"granted_s", "first_byte_s", "ttft_s", "done_s", "service_s", "outcome"} < set(unknown)


def test_the_snapshots_values(story: Story) -> None:
    story.tell(*node("b", state=ReplicaState.LOADING, context_tokens=4096))
    shown = story.snapshot()
    assert (shown["v"], shown["pair"], shown["id"]) == (1, "0.1.0", "proxy id")
    assert shown["uptime_s"] == story.now - 100.0
    assert shown["tickets"] == {
        "opened": 1,
        "answered": 1,
        "refused": 0,
        "client_left": 0,
        "failed": 0,
    }
    ready, loading = shown["nodes"]
    assert (ready["phase"], ready["name"], ready["addresses"]) == ("ready", "a-pc", ["http://a:1"])
    (held,) = ready["replicas"]
    assert (held["aliases"], held["served"], held["state"]) == (["gpt-4o"], 1, "ready")
    assert loading["phase"] == "loading"
    (coming,) = loading["replicas"]
    assert (coming["state"], coming["context_tokens"]) == ("loading", 4096)
    assert coming["state_s"] == 0
    assert (held["draining"], held["unproven"]) == (0, False)
    (model,) = shown["models"]
    assert (model["model"], model["nodes"], model["slots"]) == ("m", 1, 1)
    assert (shown["strategy"], shown["strategies"], model["strategy"]) == (
        "queue-depth",
        {},
        "queue-depth",
    )
    assert (held["prompt_tokens"], held["cached_tokens"], held["output_tokens"]) == (180, 20, 64)
    # One second to the first byte of 160 tokens that were not cached, one for the other 63.
    assert (held["prefill_tokens_per_s"], held["decode_tokens_per_s"]) == (160.0, 63.0)
    assert (coming["prefill_tokens_per_s"], coming["cached_tokens"]) == (None, None)
    story.tell(StrategyChosen("round-robin", ModelName("m")))
    shown = story.snapshot()
    assert (shown["strategy"], shown["strategies"]) == ("queue-depth", {"m": "round-robin"})
    assert shown["models"][0]["strategy"] == "round-robin"


def test_a_jobs_values(story: Story) -> None:
    job = story.job("team-1")
    assert job["started_at"] == UNIX_OFFSET_S + 103.0
    assert (job["named"], job["state"], job["model"], job["calls_total"]) == (True, "done", "m", 1)
    assert (job["prompt_tokens"], job["cached_tokens"], job["output_tokens"]) == (180, 20, 64)
    assert (job["answered"], job["failed"], job["refused"], job["client_left"]) == (1, 0, 0, 0)
    (only,) = job["calls"]
    assert (only["opened_s"], only["queue_s"], only["granted_s"]) == (0.0, 0.0, 0.0)
    assert (only["first_byte_s"], only["ttft_s"]) == (1.0, 1.0)
    assert (only["done_s"], only["service_s"], only["outcome"]) == (2.0, 2.0, "answered")
    assert (only["node"], only["name"], only["engine"]) == ("a", "a-pc", "echo:1")
    assert (only["streamed"], only["client"], only["attempts"]) == (True, "127.0.0.1:5", 1)


def test_unknown_tokens_are_null_and_known_ones_are_summed(story: Story) -> None:
    story.tell(*call(2))
    job = story.job("team-1")
    assert job["output_tokens"] == 64
    assert [each["output_tokens"] for each in job["calls"]] == [64, None]
    told = Story()
    told.tell(*node(), *call(1))
    assert told.job("team-1")["output_tokens"] is None


def test_what_failed_says_why_and_its_replica_for_how_long() -> None:
    told = Story()
    opened = Opened(TicketId(1), ModelName("m"), job=JobId("team-1"))
    failure = Failure(FailureKind.BAD_GATEWAY, "status 502", retry_after_s=10.0)
    told.tell(*node(), opened, AttemptFailed(TicketId(1), LeaseId(1), failure))
    (held,) = told.snapshot()["nodes"][0]["replicas"]
    assert (held["failed"], held["set_aside_s"]) == (1, 10.0)
    assert (held["unproven"], held["set_aside_reason"]) == (True, "status 502")
    told.tell(Closed(TicketId(1), Outcome.FAILED, detail="every attempt failed"))
    job = told.job("team-1")
    assert (job["failed"], job["calls"][0]["outcome"]) == (1, "failed")
    assert job["calls"][0]["detail"] == "every attempt failed"
    assert job["note"]


@pytest.mark.parametrize("read", [Story.snapshot, lambda told: told.job("team-1")])
def test_durations_are_milliseconds_at_the_finest(
    story: Story, read: Callable[[Story], dict[str, Any]]
) -> None:
    story.now += 1 / 3
    numbers: list[float] = []

    def walk(value: Any) -> None:
        if isinstance(value, dict | list):
            for inner in value.values() if isinstance(value, dict) else value:
                walk(inner)
        elif isinstance(value, float):
            numbers.append(value)

    walk(read(story))
    assert numbers
    assert all(round(number, 3) == number for number in numbers)


def test_a_node_that_works_for_us_and_is_silent_is_ready_with_missed_probes() -> None:
    told = Story()
    bare = NodeReported(NodeId("a"), report("a", version=""))
    told.tell(node()[0], bare, Opened(TicketId(1), ModelName("m")))
    told.tell(ProbeMissed(NodeId("a"), True, None, "no answer"))
    (shown,) = told.snapshot()["nodes"]
    assert (shown["phase"], shown["missed_probes"]) == ("ready", 1)
    assert "works for us" in shown["reason"]
