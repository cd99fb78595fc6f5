"""The samples under these tests and the command line's have the keys that a proxy really gives."""

from __future__ import annotations

from typing import Any

from tests.terminal import samples
from tests.wire.test_snapshot_json import Story, call, node


def keys(value: Any) -> Any:
    """Its keys, down to those of the first object in each list."""
    if isinstance(value, dict):
        return {key: keys(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [keys(inner) for inner in value[:1] if isinstance(inner, dict)]
    return None


def told() -> Story:
    """A scheduler with one node and a job of one call."""
    story = Story()
    story.tell(*node(), *call(1))
    return story


def test_a_sampled_snapshot_has_the_keys_of_a_real_one() -> None:
    sample = samples.snapshot(samples.node("a", samples.replica()), models=[samples.model()])
    assert keys(sample) == keys(told().snapshot())


def test_a_sampled_job_has_the_keys_of_a_real_one() -> None:
    sample = samples.job(samples.call("a", 0.0, 0.0, 1.0, 2.0))
    assert keys(sample) == keys(told().job("team-1"))
