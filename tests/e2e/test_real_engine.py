"""The main job on a real model: as fast as a client that drives the engines itself, nearly.

Two embedded llama.cpp nodes of one thread each on two cores, six equal calls; the baseline, the run
through the proxy and the direct run are interleaved in each round. The figures go to
docs/measurements/real-engine.md by tests/measurements/real_engine.py.
"""

from __future__ import annotations

import pytest

from pair.bench.comparison import Comparison
from tests.measurements.real_engine import measure

AT_LEAST_OF_DIRECT = 0.95


@pytest.mark.engine
async def test_six_calls_on_two_embedded_nodes_reach_what_a_perfect_direct_client_reaches() -> None:
    comparison: Comparison = await measure(rounds=3)
    assert comparison.of_direct is not None
    assert comparison.of_direct >= AT_LEAST_OF_DIRECT, [
        (each.speedup, each.direct_speedup) for each in comparison.rounds
    ]
    for each in comparison.rounds:
        assert len({answer.node for answer in each.together.answers}) == 2
        assert all(answer.output_events > 0 for answer in each.together.answers)
